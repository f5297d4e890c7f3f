package kafkaclient

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/repeats"
)

func textLogger(level slog.Level) (*Logger, *bytes.Buffer) {
	var out bytes.Buffer
	return NewLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))), &out
}

func TestClientsOfOneStreamSayOnceThatABrokerIsAway(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(repeats.NewLimiter().Handler(slog.NewTextHandler(&out, nil)))
	for range 5 { // clients
		client := NewLogger(log)
		for _, addr := range []string{"a:9092", "b:9092", "c:9092"} {
			client.Log(kgo.LogLevelWarn, "unable to open connection to broker", "addr", addr, "broker", 1, "err",
				"dial tcp "+addr+": connect: connection refused")
		}
	}
	require.Equal(t, 3, bytes.Count(out.Bytes(), []byte("\n")), "one line for each address:\n%s", out.String())
}

func TestClientInfoIsDebugForUs(t *testing.T) {
	for level, want := range map[slog.Level]kgo.LogLevel{
		slog.LevelDebug:     kgo.LogLevelInfo,
		slog.LevelInfo:      kgo.LogLevelWarn,
		slog.LevelError:     kgo.LogLevelError,
		slog.LevelError + 4: kgo.LogLevelNone,
	} {
		log, _ := textLogger(level)
		require.Equal(t, want, log.Level(), "slog level %v", level)
	}
	log, out := textLogger(slog.LevelDebug)
	log.Log(kgo.LogLevelInfo, "assigning partitions")
	require.Contains(t, out.String(), `level=DEBUG msg="kafka client: assigning partitions"`)
}

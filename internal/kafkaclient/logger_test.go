package kafkaclient

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

func textLogger(level slog.Level) (*Logger, *bytes.Buffer) {
	var out bytes.Buffer
	return NewLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))), &out
}

func TestRepeatedConnectionErrorIsLoggedOnceInThirtySeconds(t *testing.T) {
	log, out := textLogger(slog.LevelInfo)
	now := time.Unix(1000, 0)
	log.now = func() time.Time { return now }
	dial := func(addr, err string) {
		log.Log(kgo.LogLevelWarn, "unable to open connection to broker", "addr", addr, "err", err)
	}
	for range 5 {
		dial("a:9092", "connection refused")
	}
	dial("b:9092", "connection refused")
	require.Equal(t, 2, strings.Count(out.String(), "\n"), "one line for each address:\n%s", out)

	now = now.Add(31 * time.Second)
	dial("a:9092", "connection refused")
	require.Equal(t, 3, strings.Count(out.String(), "\n"))
	require.Contains(t, out.String(), "repeats_not_logged=4")
}

func TestErrorsThatDifferInTheClientsPortAreTheSame(t *testing.T) {
	log, out := textLogger(slog.LevelInfo)
	for _, port := range []string{"40001", "40002"} {
		log.Log(kgo.LogLevelWarn, "read failed", "err", "read tcp 10.0.0.1:"+port+"->10.0.0.2:9092: connection reset")
	}
	require.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
}

func TestLimiterMemoryIsBounded(t *testing.T) {
	log, _ := textLogger(slog.LevelInfo)
	for i := range 10 * maxRepeatKeys {
		log.Log(kgo.LogLevelWarn, "failed", "topic", i)
	}
	require.LessOrEqual(t, len(log.seen), maxRepeatKeys)
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

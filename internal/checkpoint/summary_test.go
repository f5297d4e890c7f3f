package checkpoint

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// safeLog is a log that a goroutine writes and a test reads.
type safeLog struct{ lines chan string }

func (l safeLog) Write(p []byte) (int, error) {
	l.lines <- string(bytes.TrimSpace(p))
	return len(p), nil
}

func TestStreamWithoutCheckpointsSaysWhatRunsAndThenOneLineAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := safeLog{make(chan string, 100)}
		s := NewStream(StreamOptions{Version: "v1", Logger: slog.New(slog.NewTextHandler(log, nil))})
		read := int64(0)
		source, err := s.DeclareSource(SourceDeclaration{
			Key: "input", About: func() string { return "2 partitions of in" },
			Totals: func() Totals { return Totals{Records: read, Lag: 7, Partitions: 2} },
		})
		require.NoError(t, err)
		require.NoError(t, source.join(context.Background(), func() {}))
		require.Empty(t, log.lines, "it has joined, and not begun")
		source.Begun()
		source.Begun()
		require.Contains(t, <-log.lines, `msg="sources and sinks are running without checkpoints" version=v1 inputs="input: 2 partitions of in"`)
		for _, want := range []string{"records_in=600 records_in_per_s=10", "records_in=0 records_in_per_s=0"} {
			read = 600
			<-time.After(minute)
			synctest.Wait()
			require.Len(t, log.lines, 1, "one a minute")
			line := <-log.lines
			require.Contains(t, line, "msg=status "+want)
			require.Contains(t, line, "lag=7 partitions=2")
			require.True(t, strings.Contains(line, "memory_mb="))
		}
		source.Leave()
		<-time.After(2 * minute)
		require.Empty(t, log.lines, "nothing after the end")
	})
}

package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync/atomic"
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
		var read atomic.Int64
		source, err := s.DeclareSource(SourceDeclaration{
			Key: "input", About: func() string { return "2 partitions of in" },
			Totals: func() Totals { return Totals{Records: read.Load(), Lag: 7, Partitions: 2} },
		})
		require.NoError(t, err)
		require.NoError(t, source.join(context.Background(), func() {}))
		require.Empty(t, log.lines, "it has joined, and not begun")
		source.Begun()
		source.Begun()
		require.Contains(t, <-log.lines, `msg="sources and sinks are running without checkpoints" version=v1 inputs="input: 2 partitions of in"`)
		for _, want := range []string{"records_in=600 records_in_per_s=10", "records_in=0 records_in_per_s=0"} {
			read.Store(600)
			<-time.After(minute)
			synctest.Wait()
			require.Len(t, log.lines, 1, "one a minute")
			line := <-log.lines
			require.Contains(t, line, "msg=status "+want)
			require.Contains(t, line, "lag=7 partitions=2")
			require.Contains(t, line, "memory_mb=")
		}
		source.Leave()
		<-time.After(2 * minute)
		require.Empty(t, log.lines, "nothing after the end")
	})
}

func TestStreamWithCheckpointsSaysInItsLineWhereTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := safeLog{make(chan string, 100)}
		b := newBench(t)
		b.stream.opts.Logger = slog.New(slog.NewTextHandler(log, nil))
		b.start()
		require.Contains(t, <-log.lines, "sources and sinks are running")
		// The one line of the minute; what an event says is not counted.
		status := func() string {
			t.Helper()
			<-time.After(minute)
			synctest.Wait()
			var found []string
			for len(log.lines) > 0 {
				if line := <-log.lines; strings.Contains(line, "msg=status") {
					found = append(found, line)
				}
			}
			require.Len(t, found, 1, "one a minute")
			return found[0]
		}
		<-time.After(500 * time.Millisecond) // between two barriers
		b.move(5)
		line := status()
		require.Contains(t, line, " checkpoint=")
		require.NotContains(t, line, " checkpoint=0 ", "what came is committed")
		require.Contains(t, line, "failovers=0 attempt=1")
		require.NotContains(t, line, "checkpoint_age=1m")

		// Nothing is committed any more: the age grows, and the number stands still.
		newest := field(t, line, "checkpoint")
		b.store.hold()
		b.move(5)
		line = status()
		require.Equal(t, newest, field(t, line, "checkpoint"))
		age, err := time.ParseDuration(field(t, line, "checkpoint_age"))
		require.NoError(t, err)
		require.GreaterOrEqual(t, age, minute-2*time.Second)
		b.store.release()

		b.srcSeat.Failed(b.src.tag, errors.New("nack"))
		line = status()
		require.Regexp(t, `failovers=[1-9] attempt=[2-9]`, line)
		b.stop()
		for len(log.lines) > 0 {
			<-log.lines
		}
		<-time.After(2 * minute)
		require.Empty(t, log.lines, "nothing after the end")
	})
}

// field is a value of a line of the log.
func field(t *testing.T, line, name string) string {
	t.Helper()
	found := regexp.MustCompile(`(?:^| )` + name + `=(\S+)`).FindStringSubmatch(line)
	require.NotNil(t, found, line)
	return found[1]
}

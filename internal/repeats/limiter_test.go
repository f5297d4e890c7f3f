package repeats

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// limited is a logger with a clock of its own.
func limited() (log *slog.Logger, out *bytes.Buffer, pass func(time.Duration)) {
	out = &bytes.Buffer{}
	l := NewLimiter()
	now := time.Unix(1000, 0)
	l.now = func() time.Time { return now }
	to := slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug})
	return slog.New(l.Handler(to)), out, func(d time.Duration) { now = now.Add(d) }
}

func lines(out *bytes.Buffer) int { return strings.Count(out.String(), "\n") }

func TestWhatGoesOnIsSaidLessAndLessOftenWithTheNumberHeldBack(t *testing.T) {
	log, out, pass := limited()
	for range 600 { // ten minutes
		log.Warn("cannot connect", "addr", "a:9092", "err", "connection refused")
		pass(time.Second)
	}
	require.Equal(t, 5, lines(out), "at 0 s, 30 s, 90 s, 210 s, 450 s:\n%s", out)
	require.Contains(t, out.String(), "repeats_not_logged=29\n")
	require.Contains(t, out.String(), "repeats_not_logged=239\n")
}

func TestWhatComesBackAfterALongTimeIsSaidAtOnce(t *testing.T) {
	log, out, pass := limited()
	for range 3 {
		log.Error("failed")
		pass(longestSilence + time.Second)
	}
	require.Equal(t, 3, lines(out))
	require.NotContains(t, out.String(), HeldBack)
}

func TestLinesAreTheSameWhereTheyDifferInNumbersAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		one, other []any
		same       bool
	}{
		"offsets in a cause":     {[]any{"cause", errors.New("at offset 17")}, []any{"cause", errors.New("at offset 4711")}, true},
		"the client's port":      {[]any{"err", "read tcp 10.0.0.1:40001->10.0.0.2:9092: reset"}, []any{"err", "read tcp 10.0.0.1:40002->10.0.0.2:9092: reset"}, true},
		"an attempt":             {[]any{"attempt", uint64(3)}, []any{"attempt", uint64(4)}, true},
		"a time":                 {[]any{"for", 3 * time.Second}, []any{"for", 90 * time.Second}, true},
		"another cause":          {[]any{"cause", "timeout"}, []any{"cause", "refused"}, false},
		"another address":        {[]any{"addr", "a:9092"}, []any{"addr", "a:9093"}, false},
		"another partition":      {[]any{"topic", "t", "partition", int32(1)}, []any{"topic", "t", "partition", int32(2)}, false},
		"another transaction id": {[]any{"transactional_id", "p-0-1"}, []any{"transactional_id", "p-0-2"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			log, out, _ := limited()
			log.Warn("something", tc.one...)
			log.Warn("something", tc.other...)
			want := 2
			if tc.same {
				want = 1
			}
			require.Equal(t, want, lines(out), out.String())
		})
	}
}

func TestComponentsThatShareALimiterSayTheSameThingOnce(t *testing.T) {
	var out bytes.Buffer
	l := NewLimiter()
	source, sink := slog.New(l.Handler(slog.NewTextHandler(&out, nil))), slog.New(l.Handler(slog.NewTextHandler(&out, nil)))
	source.Warn("kafka client: unable to open connection", "addr", "a:1")
	sink.Warn("kafka client: unable to open connection", "addr", "a:1")
	sink.With("topic", "orders").Warn("kafka client: unable to open connection", "addr", "a:1")
	require.Equal(t, 2, lines(&out), "a line with other attributes is another one:\n%s", out.String())
}

func TestLossesAndDebugLinesAreNeverHeldBack(t *testing.T) {
	log, out, _ := limited()
	for range 3 {
		log.ErrorContext(Always(t.Context()), "records are lost", "records", 1)
		log.Debug("detail")
	}
	require.Equal(t, 6, lines(out))
}

func TestMemoryOfTheLimiterIsBounded(t *testing.T) {
	l := NewLimiter()
	for i := range 10 * maxKinds {
		l.due(fmt.Sprint(i))
	}
	require.LessOrEqual(t, len(l.kinds), maxKinds)
}

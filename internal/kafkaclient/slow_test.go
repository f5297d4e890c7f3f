package kafkaclient

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// said are the lines of a log.
type said chan string

func (s said) Write(p []byte) (int, error) {
	s <- string(p)
	return len(p), nil
}

func TestSlowSaysWhatIsWaitedForAfterAMomentAndThenNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := make(said, 10)
		done := Slow(slog.New(slog.NewTextHandler(out, nil)), []string{"a:1", "b:2"}, "describing topics")
		after := func(d time.Duration) int {
			<-time.After(d)
			synctest.Wait()
			return len(out)
		}
		require.Zero(t, after(slowAfter-time.Millisecond), "what is quick is not worth a line")
		require.Equal(t, 1, after(time.Millisecond))
		require.Equal(t, 2, after(slowAgain))
		done()
		require.Equal(t, 2, after(2*slowAgain), "nothing after the answer")
		line := <-out
		require.Contains(t, line, "bootstrap_servers=a:1,b:2")
		require.Contains(t, line, `waiting_for="describing topics"`)
	})
}

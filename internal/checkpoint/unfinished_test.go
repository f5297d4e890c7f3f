package checkpoint

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStreamTellsWhatItLeavesToTheNextProcess: what Unfinished says decides about the exit code.
func TestStreamTellsWhatItLeavesToTheNextProcess(t *testing.T) {
	for name, tc := range map[string]struct {
		run  func(*testing.T, *bench)
		want error
	}{
		"nothing was begun": {func(_ *testing.T, b *bench) { b.declare(&benchConfig, Pool{Prefix: "p", Size: 3}) }, nil},
		"it runs":           {func(_ *testing.T, b *bench) { b.start() }, errNoLast},
		"a soft stop":       {func(_ *testing.T, b *bench) { b.start(); b.move(5); b.stop() }, nil},
		"a hard stop": {func(t *testing.T, b *bench) {
			b.start()
			b.move(5)
			require.NoError(t, b.srcSeat.Close(t.Context(), true))
		}, errNoLast},
		"a hard stop, then a whole run": {func(t *testing.T, b *bench) {
			b.start()
			require.NoError(t, b.srcSeat.Close(t.Context(), true))
			b.sinkSeat.Leave()
			b.start()
			b.stop()
		}, nil},
		"a stop while it recovers": {func(t *testing.T, b *bench) {
			b.start()
			b.stop()
			b.store.hold() // the first record of the next run
			defer b.store.release()
			b.declare(&benchConfig, Pool{Prefix: "p", Size: 3})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			joined := make(chan struct{})
			go func() {
				defer close(joined)
				_ = b.srcSeat.JoinSource(ctx, b.src, 1)
			}()
			_ = b.sinkSeat.JoinSink(ctx, "cluster", b.sink)
			<-joined
			require.NoError(t, b.srcSeat.Close(t.Context(), false))
		}, errUnrecovered},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				tc.run(t, b)
				synctest.Wait()
				assert.ErrorIs(t, b.stream.Unfinished(), tc.want)
				b.srcSeat.Leave()
				b.sinkSeat.Leave()
			})
		})
	}
}

// TestOutputThatIsClosedAtWorkIsNoCause: a stop that is forced closes an output while a commit is on its way.
func TestOutputThatIsClosedAtWorkIsNoCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		r := b.srcSeat.runOrNil()
		b.sinkSeat.Leave()
		r.broken(errors.New("the client was closed"))
		err := <-b.fatal
		require.ErrorIs(t, err, errNoLast)
		require.ErrorContains(t, err, "the client was closed")
		b.srcSeat.Leave()
	})
}

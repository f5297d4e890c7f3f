package kafkasource

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// TestCloseTellsASoftStopFromAHardOne has five single-record batches, of which some were acknowledged when the engine
// closes the source.
func TestCloseTellsASoftStopFromAHardOne(t *testing.T) {
	for name, tc := range map[string]struct {
		// emit is the number of batches handed out, acked those of them that were acknowledged.
		emit  int
		acked []int
		// asked: the engine has asked for another batch after the last one, so that one was taken.
		asked bool
		// cancelled: the engine has stopped hard, so the context that acknowledgements came with has ended.
		cancelled bool
		hard      bool
		// positions that the last checkpoint is to see.
		position int64
	}{
		"nothing was ever emitted":                   {position: 0},
		"all acknowledged":                           {emit: 3, acked: []int{0, 1, 2}, position: 3},
		"the last batch was never taken":             {emit: 3, acked: []int{0, 1}, position: 2},
		"the only batch was never taken":             {emit: 1, position: 0},
		"the only batch is not acknowledged":         {emit: 1, asked: true, hard: true},
		"a batch before the last is missing":         {emit: 3, acked: []int{0, 2}, hard: true},
		"two batches are missing":                    {emit: 3, acked: []int{0}, hard: true},
		"hard stop, all acknowledged":                {emit: 2, acked: []int{0, 1}, cancelled: true, hard: true},
		"hard stop, the last batch not acknowledged": {emit: 2, acked: []int{0}, cancelled: true, hard: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeBroker(t, 1, "a")
			for range 5 {
				b.produce("a", 0, "x")
			}
			cfg := baseConfig(b.servers, "a")
			cfg.MaxBatch = 1
			s := newSource(t, cfg)
			s.resolve(nil)
			ackCtx, cancel := context.WithCancel(t.Context())
			defer cancel()
			batches := make([]Batch, tc.emit)
			for i := range batches {
				batches[i] = s.next()
			}
			if tc.asked {
				stopped, stop := context.WithCancel(t.Context())
				stop() // the soft stop comes first
				_, err := s.Next(stopped)
				require.ErrorIs(t, err, context.Canceled)
			}
			for _, i := range tc.acked {
				batches[i].Ack(ackCtx, nil)
			}
			if tc.cancelled {
				cancel()
			}
			s.seat.onClose = func(ctx context.Context, hard bool) error {
				if !hard {
					// The coordinator runs its last checkpoint from within Close.
					state, err := s.Pause(ctx)
					require.NoError(t, err)
					require.Equal(t, []int64{tc.position}, offsetsOf(state))
				}
				return nil
			}
			require.NoError(t, s.Close(t.Context()))
			require.Equal(t, tc.hard, receive(t, s.seat.closed, "the decision"))
			require.Empty(t, s.seat.closed, "Close is decided once")
			_, err := s.Next(t.Context())
			require.ErrorIs(t, err, ErrClosed)
		})
	}
}

// TestInputThatIsClosedHardHasALastCheckpointIfNothingIsOnItsWay has what read_until does when its check comes true: it
// closes the source as at a hard stop, with the outputs alive.
func TestInputThatIsClosedHardHasALastCheckpointIfNothingIsOnItsWay(t *testing.T) {
	for name, tc := range map[string]struct {
		emit  int
		acked []int
		// asked: the engine has asked for another batch after the last one, so that one was taken.
		asked    bool
		hard     bool
		position int64
	}{
		"all acknowledged":                       {emit: 2, acked: []int{0, 1}, asked: true, position: 2},
		"the last batch was never taken":         {emit: 2, acked: []int{0}, position: 1},
		"the only batch was never taken":         {emit: 1, position: 0},
		"the last batch was taken":               {emit: 2, acked: []int{0}, asked: true, hard: true},
		"a batch before the last is missing":     {emit: 3, acked: []int{0, 2}, asked: true, hard: true},
		"one is missing, the last was not taken": {emit: 3, acked: []int{0}, hard: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeBroker(t, 1, "a")
			for range 5 {
				b.produce("a", 0, "x")
			}
			cfg := baseConfig(b.servers, "a")
			cfg.MaxBatch, cfg.ClosedHard = 1, "read_until"
			s := newSource(t, cfg)
			s.resolve(nil)
			ackCtx, cancel := context.WithCancel(t.Context())
			batches := make([]Batch, tc.emit)
			for i := range batches {
				batches[i] = s.next()
			}
			if tc.asked {
				stopped, stop := context.WithCancel(t.Context())
				stop() // the soft stop comes first
				_, err := s.Next(stopped)
				require.ErrorIs(t, err, context.Canceled)
			}
			for _, i := range tc.acked {
				batches[i].Ack(ackCtx, nil)
			}
			cancel()
			s.seat.onClose = func(ctx context.Context, hard bool) error {
				if !hard {
					require.NoError(t, ctx.Err(), "the last checkpoint may take its time")
					state, err := s.Pause(ctx)
					require.NoError(t, err)
					require.Equal(t, []int64{tc.position}, offsetsOf(state))
				}
				return nil
			}
			require.NoError(t, s.Close(t.Context()))
			require.Equal(t, tc.hard, receive(t, s.seat.closed, "the decision"))
			if tc.hard {
				require.ErrorContains(t, receive(t, s.seat.fatal, "the cause"), "read_until has ended its input")
			}
		})
	}
}

func TestHardStopDuringTheLastCheckpointEndsIt(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produce("a", 0, "x")
	s := newSource(t, baseConfig(b.servers, "a"))
	s.resolve(nil)
	ackCtx, cancel := context.WithCancel(t.Context())
	s.next().Ack(ackCtx, nil)
	s.seat.onClose = func(ctx context.Context, hard bool) error {
		if hard {
			return nil
		}
		cancel() // the engine loses its patience
		<-ctx.Done()
		return ctx.Err()
	}
	require.NoError(t, s.Close(t.Context()))
	require.False(t, receive(t, s.seat.closed, "the soft close"))
	require.True(t, receive(t, s.seat.closed, "the hard close"))
}

// At a hard stop the engine lets go of the acknowledgements it waits for, calls Close, and ends their context in another
// goroutine that may run later: the one batch that is not acknowledged then looks like one that was never taken.
func TestHardStopWhoseContextEndsAfterCloseBeganIsSeen(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produce("a", 0, "x")
	s := newSource(t, baseConfig(b.servers, "a"))
	s.resolve(nil)
	ackCtx, cancel := context.WithCancel(t.Context())
	s.next().Ack(ackCtx, nil)
	b.produce("a", 0, "y")
	s.next()
	closed := make(chan error, 1)
	go func() { closed <- s.Close(t.Context()) }()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.closing
	}, patience, time.Millisecond)
	cancel()
	require.NoError(t, receive(t, closed, "the end of Close"))
	require.True(t, receive(t, s.seat.closed, "the decision"))
}

// A barrier may be waiting for the very batch that the engine never took when the stop comes.
func TestBatchThatWasNeverTakenNoLongerHoldsUpAPause(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produce("a", 0, "x")
	s := newSource(t, baseConfig(b.servers, "a"))
	s.resolve(nil)
	s.next().Ack(t.Context(), nil)
	b.produce("a", 0, "y")
	late := s.next()
	states := make(chan checkpoint.SourceState, 1)
	go func() {
		if state, err := s.Pause(context.Background()); err == nil {
			states <- state
		}
	}()
	s.awaitPaused()
	s.seat.onClose = func(context.Context, bool) error {
		require.Equal(t, []int64{1}, offsetsOf(receive(t, states, "the positions")))
		late.Ack(context.Background(), nil) // cannot come; if it did, it would change nothing
		return nil
	}
	require.NoError(t, s.Close(t.Context()))
	require.False(t, receive(t, s.seat.closed, "the decision"))
}

func TestCloseReturnsTheSeatsError(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	s := newSource(t, baseConfig(b.servers, "a"))
	s.seat.onClose = func(context.Context, bool) error { return errors.New("the last checkpoint was declined") }
	require.ErrorContains(t, s.Close(t.Context()), "declined")
}

func TestCloseBeforeAnyConnection(t *testing.T) {
	seat := newSeat()
	r, err := New(baseConfig([]string{"localhost:1"}, "a"), seat)
	require.NoError(t, err)
	require.NoError(t, r.Close(t.Context()))
	require.False(t, <-seat.closed)
	r.Start(tag(1), checkpoint.SourceState{}) // a coordinator that is late starts nothing
	require.Nil(t, r.att)
}

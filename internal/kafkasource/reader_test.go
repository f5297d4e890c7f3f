package kafkasource

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/offsets"
)

func TestPauseWaitsForEveryAcknowledgementAndReturnsNextOffsets(t *testing.T) {
	b := fakeBroker(t, 2, "a")
	b.produce("a", 0, "x0", "x1")
	s := newSource(t, baseConfig(b.servers, "a"))
	state := s.resolve(nil)
	require.Equal(t, []int64{0, 0}, offsetsOf(state))
	require.Equal(t, "fake", state.ClusterID)
	require.Equal(t, checkpoint.NoStop, state.Splits[0].Stop)
	require.NotZero(t, state.Splits[0].TopicID)

	first := s.next()
	b.produce("a", 1, "y0")
	second := s.next()
	require.Equal(t, tag(1), first.Tag)

	ctx, cancel := context.WithCancel(t.Context())
	positions := make(chan checkpoint.SourceState, 1)
	go func() {
		state, err := s.Pause(ctx)
		if err == nil {
			positions <- state
		}
	}()
	// Acknowledgements come in any order, and the pause holds until the last.
	second.Ack(t.Context(), nil)
	stays(t, positions)
	first.Ack(t.Context(), nil)
	got := receive(t, positions, "the end of the pause")
	cancel()
	require.Equal(t, []int64{2, 1}, offsetsOf(got))
	require.Zero(t, got.Splits[0].LeaderEpoch)

	// While paused nothing is handed out; after Resume what came meanwhile is.
	b.produce("a", 0, "x2")
	waiting := s.background()
	stays(t, waiting)
	s.Resume()
	require.Equal(t, "x2", string(receive(t, waiting, "the next batch").Records[0].Value))
}

func TestPauseThatRunsOutOfTimeKeepsTheSourceSilentUntilResume(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produce("a", 0, "x0")
	s := newSource(t, baseConfig(b.servers, "a"))
	s.resolve(nil)
	batch := s.next()

	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() { _, err := s.Pause(ctx); failed <- err }()
	cancel()
	require.ErrorIs(t, receive(t, failed, "the error"), context.Canceled)

	b.produce("a", 0, "x1")
	waiting := s.background()
	batch.Ack(t.Context(), nil)
	stays(t, waiting)
	s.Resume()
	receive(t, waiting, "the next batch").Ack(t.Context(), nil)
	require.Equal(t, []int64{2}, offsetsOf(s.pause()))
}

func TestNewAttemptReadsAgainFromItsPositionsWithAnotherTag(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produce("a", 0, "x0", "x1", "x2")
	s := newSource(t, baseConfig(b.servers, "a"))
	state := s.resolve(nil)
	old := s.next()

	// Halt waits for what is in flight, and an outcome that comes then is no failure of the next attempt.
	halted := make(chan error, 1)
	go func() { halted <- s.Halt(t.Context()) }()
	waiting := s.background()
	stays(t, halted)
	old.Ack(t.Context(), errNotDelivered)
	require.NoError(t, receive(t, halted, "the end of the attempt"))

	state.Splits[0].Offset = 1
	s.Start(tag(2), state)
	got := receive(t, waiting, "the first batch of the new attempt")
	require.NoError(t, got.err)
	require.Equal(t, tag(2), got.Tag)
	require.EqualValues(t, 1, got.Records[0].Offset)
	old.Ack(t.Context(), nil) // twice: has no effect
	got.Ack(t.Context(), nil)
	require.Equal(t, []int64{3}, offsetsOf(s.pause()))
}

func TestNackFailsTheAttemptOnceAndNoPositionsAreReturned(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produce("a", 0, "x0", "x1")
	var nacked int64
	cfg := baseConfig(b.servers, "a")
	cfg.Metrics.NackedRecords = func(n int64) { nacked += n }
	s := newSource(t, cfg)
	s.resolve(nil)
	batch := s.next()

	ctx, cancel := context.WithCancel(t.Context())
	paused := make(chan error, 1)
	go func() { _, err := s.Pause(ctx); paused <- err }()
	batch.Ack(t.Context(), errNotDelivered)
	f := receive(t, s.seat.failed, "the failure")
	require.Equal(t, tag(1), f.tag)
	require.ErrorIs(t, f.cause, errNotDelivered)
	require.ErrorContains(t, f.cause, "a batch of 2 records (a-0 at offset 0 to a-0 at offset 1) was not delivered")
	require.EqualValues(t, 2, nacked)
	batch.Ack(t.Context(), errNotDelivered)
	stays(t, s.seat.failed)
	stays(t, paused) // positions of a failed attempt must not be taken
	cancel()
	require.ErrorIs(t, receive(t, paused, "the end of the pause"), context.Canceled)
	require.NoError(t, s.Halt(t.Context()))
}

func TestHaltEndsAPauseThatCannotSucceed(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produce("a", 0, "x0")
	s := newSource(t, baseConfig(b.servers, "a"))
	s.resolve(nil)
	batch := s.next()
	paused := make(chan error, 1)
	go func() { _, err := s.Pause(context.Background()); paused <- err }()
	s.awaitPaused()
	batch.Ack(t.Context(), errNotDelivered)
	require.NoError(t, s.Halt(t.Context()))
	require.ErrorContains(t, receive(t, paused, "the end of the pause"), "the attempt was ended")
}

func TestBoundedSourceEndsOnlyWhenFinishIsCalled(t *testing.T) {
	b := fakeBroker(t, 3, "a")
	b.produce("a", 0, "x0", "x1")
	b.produce("a", 1, "y0")
	cfg := baseConfig(b.servers, "a")
	cfg.Stop = offsets.Stop{Mode: offsets.LatestStop}
	s := newSource(t, cfg)
	state := s.resolve(nil)
	require.Equal(t, []int64{2, 1, 0}, []int64{state.Splits[0].Stop, state.Splits[1].Stop, state.Splits[2].Stop})
	require.False(t, state.Finished)

	// What is written after the stop was resolved is not read (rule 2).
	b.produce("a", 0, "late")
	require.ElementsMatch(t, []string{"a-0@0=x0", "a-0@1=x1", "a-1@0=y0"}, s.read(3))
	waiting := s.background()
	require.Equal(t, tag(1), receive(t, s.seat.atEnd, "the report of the end"))
	positions := s.pause()
	require.True(t, positions.Finished)
	require.Equal(t, []int64{2, 1, 0}, offsetsOf(positions))

	// It is ready to rewind until everything is committed.
	require.NoError(t, s.Halt(t.Context()))
	stays(t, waiting)
	s.Start(tag(2), state)
	again := receive(t, waiting, "the batch of the new attempt")
	require.Equal(t, tag(2), again.Tag)
	again.Ack(t.Context(), nil)
	for n := len(again.Records); n < 3; {
		batch := s.next()
		n += len(batch.Records)
		batch.Ack(t.Context(), nil)
	}
	waiting = s.background()
	require.Equal(t, tag(2), receive(t, s.seat.atEnd, "the second report"))
	s.Finish()
	require.ErrorIs(t, receive(t, waiting, "the end").err, ErrEndOfInput)
	require.Empty(t, s.seat.atEnd, "the end is reported once in each attempt")
}

func TestFinishedSourceReportsItsEndAgainAfterARestart(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produce("a", 0, "x0")
	cfg := baseConfig(b.servers, "a")
	cfg.Stop = offsets.Stop{Mode: offsets.LatestStop}
	first := newSource(t, cfg)
	first.resolve(nil)
	first.read(1)
	done := first.pause()
	require.True(t, done.Finished)

	b.produce("a", 0, "x1")
	second := newSource(t, cfg)
	require.NoError(t, second.Verify(t.Context(), done))
	state := second.resolve(&done)
	require.True(t, state.Finished)
	require.EqualValues(t, 1, state.Splits[0].Stop, "the stop stays the one that was resolved first (rule 2)")
	waiting := second.background()
	receive(t, second.seat.atEnd, "the report of the end")
	second.Finish()
	require.ErrorIs(t, receive(t, waiting, "the end").err, ErrEndOfInput)
}

func TestNextReturnsWhenItsContextEnds(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	s := newSource(t, baseConfig(b.servers, "a"))
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 1)
	go func() { _, err := s.Next(ctx); errs <- err }() // before any attempt
	cancel()
	require.ErrorIs(t, receive(t, errs, "the error"), context.Canceled)

	s.resolve(nil)
	ctx, cancel = context.WithCancel(t.Context())
	go func() { _, err := s.Next(ctx); errs <- err }() // while it polls
	cancel()
	require.ErrorIs(t, receive(t, errs, "the error"), context.Canceled)
	// A poll that was interrupted has lost nothing.
	b.produce("a", 0, "x0")
	require.Equal(t, []string{"a-0@0=x0"}, s.read(1))
}

func TestBatchesAreBounded(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	values := make([]string, 2500)
	b.produce("a", 0, values...)
	s := newSource(t, baseConfig(b.servers, "a"))
	s.resolve(nil)
	for n, next := 0, int64(0); n < len(values); {
		batch := s.next()
		require.LessOrEqual(t, len(batch.Records), 1000)
		for _, r := range batch.Records {
			require.Equal(t, next, r.Offset, "order within a partition")
			next++
		}
		n += len(batch.Records)
		batch.Ack(t.Context(), nil)
	}
}

func TestConfigThatCannotWorkIsRefusedAtOnce(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no topic":   func(c *Config) { c.Subscription.Topics = nil },
		"no group":   func(c *Config) { c.Start = offsets.Start{Mode: offsets.GroupStart, Reset: offsets.ResetNone} },
		"no servers": func(c *Config) { c.Connection.BootstrapServers = nil },
		"bad share":  func(c *Config) { c.Share.Parallelism, c.Share.Index = 2, 2 },
		"bad policy": func(c *Config) { c.Restore.Policy = "perhaps" },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := baseConfig([]string{"localhost:1"}, "a")
			change(&cfg)
			_, err := New(cfg, newSeat())
			require.Error(t, err)
		})
	}
}

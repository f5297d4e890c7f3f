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

// child declares a source as the child of a sequence, which has no label.
func (b *bench) child() (*counter, *Seat) {
	cfg := benchConfig
	seat, err := b.stream.DeclareSource(SourceDeclaration{
		Key: "input.sequence", Successive: true, Checkpoint: &cfg, OpenStore: b.store.open,
	})
	require.NoError(b.t, err)
	return new(counter), seat
}

// sequence declares a stream whose first input is a child of a sequence, and starts it.
func (b *bench) sequence() (*counter, *Seat) {
	first, seat := b.child()
	var err error
	b.sink = &ledger{pool: Pool{Prefix: "p", Size: 3}}
	b.sinkSeat, err = b.stream.DeclareSink(SinkDeclaration{Key: "output", Pool: b.sink.pool})
	require.NoError(b.t, err)
	b.src, b.srcSeat = first, seat
	srcErr, sinkErr := b.join()
	require.NoError(b.t, errors.Join(srcErr, sinkErr))
	return first, seat
}

func TestChildrenOfASequenceKeepTheirPositionsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		_, seat := b.sequence()
		b.move(5)
		require.NoError(t, seat.Close(t.Context(), false))
		second, seat := b.child()
		assert.Equal(t, "input.sequence#2", seat.Key())
		require.NoError(t, seat.JoinSource(t.Context(), second, 1))
		second.advance(2)
		b.sink.write(2)
		require.NoError(t, seat.Close(t.Context(), false))
		b.sinkSeat.Leave()

		// The next process begins with the first child again.
		first, seat := b.sequence()
		assert.EqualValues(t, 5, first.at)
		require.NoError(t, seat.Close(t.Context(), false))
		second, seat = b.child()
		require.NoError(t, seat.JoinSource(t.Context(), second, 1))
		assert.EqualValues(t, 2, second.at)
		assert.True(t, second.verified, "what the record says of it is compared with the cluster")
		require.NoError(t, seat.Close(t.Context(), false))
		b.sinkSeat.Leave()
		assert.Empty(t, b.fatal)
	})
}

func TestLateChildThatDoesNotVerifyEndsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for i := range 2 {
			_, seat := b.sequence()
			require.NoError(t, seat.Close(t.Context(), false))
			second, seat := b.child()
			second.refused = errors.New("the topic was deleted and made anew")
			err := seat.JoinSource(t.Context(), second, 1)
			if i == 0 {
				require.NoError(t, err, "there was nothing to compare")
			} else {
				require.ErrorContains(t, err, "made anew")
			}
			require.NoError(t, seat.Close(t.Context(), false))
			b.sinkSeat.Leave()
		}
		assert.ErrorContains(t, <-b.fatal, "made anew")
	})
}

func TestTwoSourcesThatFollowTogetherBothJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		require.NoError(t, b.srcSeat.Close(t.Context(), false))
		var late []*Seat
		for _, key := range []string{"left", "right"} {
			seat, err := b.stream.DeclareSource(SourceDeclaration{Key: key, Checkpoint: b.srcSeat.source.Checkpoint, OpenStore: b.store.open})
			require.NoError(t, err)
			late = append(late, seat)
		}
		for _, seat := range late {
			src := new(counter)
			require.NoError(t, seat.JoinSource(t.Context(), src, 1))
			src.advance(1)
			b.sink.write(1)
		}
		for _, seat := range late {
			require.NoError(t, seat.Close(t.Context(), false))
		}
		b.sinkSeat.Leave()
		assert.EqualValues(t, 2, b.sink.visible)
		assert.Len(t, b.store.record(t).Positions, 3)
	})
}

func TestStartsAtTheEndArePublishedThoughOthersAreOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		require.NoError(t, b.srcSeat.Close(t.Context(), false))
		slow := make(chan struct{})
		var seats []*Seat
		var late []*counter
		for i, key := range []string{"slow", "second", "third"} {
			seat, err := b.stream.DeclareSource(SourceDeclaration{Key: key, Checkpoint: b.srcSeat.source.Checkpoint, OpenStore: b.store.open})
			require.NoError(t, err)
			seats, late = append(seats, seat), append(late, &counter{at: int64(7 + i), publish: true})
		}
		late[0].commits = slow
		for i, seat := range seats {
			require.NoError(t, seat.JoinSource(t.Context(), late[i], 1))
		}
		synctest.Wait()
		close(slow)
		synctest.Wait()
		for i, src := range late {
			assert.EqualValues(t, 7+i, src.committed, "nothing was read, and no checkpoint was due")
		}
		for _, seat := range seats {
			require.NoError(t, seat.Close(t.Context(), false))
		}
		b.sinkSeat.Leave()
	})
}

func TestFirstChildOfASequenceWaitsForTheSinksOfItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		first, seat := b.child()
		joined := make(chan error, 1)
		go func() { joined <- seat.JoinSource(t.Context(), first, 1) }()
		synctest.Wait()
		b.sink = &ledger{pool: Pool{Prefix: "p", Size: 3}}
		sinkSeat, err := b.stream.DeclareSink(SinkDeclaration{Key: "output", Pool: b.sink.pool})
		require.NoError(t, err)
		require.NoError(t, sinkSeat.JoinSink(t.Context(), "cluster", b.sink))
		require.NoError(t, <-joined)
		assert.Equal(t, 1, b.sink.starts)
		require.NoError(t, seat.Close(t.Context(), false))
		sinkSeat.Leave()
	})
}

func TestChildOfARebuiltSequenceIsNotTakenForTheNextOfTheOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		old, oldSeat := b.sequence()
		oldSink := b.sinkSeat
		old.hold = make(chan struct{})
		closed := make(chan error, 1)
		go func() { closed <- oldSeat.Close(t.Context(), false) }()
		synctest.Wait() // The engine has waited long enough and builds the stream anew.
		_, seat := b.sequence()
		assert.Equal(t, "input.sequence", seat.Key())
		close(old.hold)
		require.NoError(t, <-closed)
		oldSink.Leave()
		require.NoError(t, seat.Close(t.Context(), false))
		b.sinkSeat.Leave()
		assert.Empty(t, b.fatal)
	})
}

func TestStreamWhoseConstructionFailedIsBuiltAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		cfg := benchConfig
		for range 3 { // The output's constructor fails, and a watched config is tried again and again.
			_, err := b.stream.DeclareSource(SourceDeclaration{Key: "input", Checkpoint: &cfg, OpenStore: b.store.open})
			require.NoError(t, err)
		}
		b.start()
		b.move(3)
		b.stop()
		assert.EqualValues(t, 3, b.sink.visible)
	})
}

func TestSourceClosedDuringARecoveryDoesNotEndTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		cfg := benchConfig
		open := func(ctx context.Context) (Store, error) {
			<-time.After(time.Second)
			return b.store, nil
		}
		brief, err := b.stream.DeclareSource(SourceDeclaration{Key: "brief", Checkpoint: &cfg, OpenStore: open})
		require.NoError(t, err)
		b.srcSeat, err = b.stream.DeclareSource(SourceDeclaration{Key: "input", Checkpoint: &cfg, OpenStore: open})
		require.NoError(t, err)
		b.src, b.sink = new(counter), &ledger{pool: Pool{Prefix: "p", Size: 3}}
		b.sinkSeat, err = b.stream.DeclareSink(SinkDeclaration{Key: "output", Pool: b.sink.pool})
		require.NoError(t, err)
		ended := make(chan error, 2)
		go func() { ended <- brief.JoinSource(t.Context(), new(counter), 1) }()
		go func() { // read_until has nothing to wait for
			synctest.Wait()
			ended <- brief.Close(t.Context(), false)
		}()
		srcErr, sinkErr := b.join()
		require.NoError(t, errors.Join(srcErr, sinkErr))
		_ = errors.Join(<-ended, <-ended) // that it was stopped
		b.move(4)
		b.stop()
		assert.EqualValues(t, 4, b.sink.visible)
		assert.Empty(t, b.fatal)
	})
}

func TestRecordsAreDeletedOnlyAtTheEndOfASequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		cfg := benchConfig
		cfg.DeleteOnStop = true
		b.declare(&cfg, Pool{Prefix: "p", Size: 3})
		srcErr, sinkErr := b.join()
		require.NoError(t, errors.Join(srcErr, sinkErr))
		require.NoError(t, b.srcSeat.Close(t.Context(), false))
		assert.NotEmpty(t, b.store.records, "another source may follow")
		second, err := b.stream.DeclareSource(SourceDeclaration{Key: "second", Checkpoint: &cfg, OpenStore: b.store.open})
		require.NoError(t, err)
		require.NoError(t, second.JoinSource(t.Context(), new(counter), 1))
		require.NoError(t, second.Close(t.Context(), false))
		b.sinkSeat.Leave()
		assert.Empty(t, b.store.records)
	})
}

// A sequence whose first input is another plugin's: the sinks have joined, without checkpoints, before the source comes.
func TestCheckpointedSourceBehindAnotherInputFindsItsSinksThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		sinkSeat, err := b.stream.DeclareSink(SinkDeclaration{Key: "output"})
		require.NoError(t, err)
		require.NoError(t, sinkSeat.JoinSink(t.Context(), "cluster", new(ledger)))
		src, seat := b.child()
		require.NoError(t, seat.JoinSource(t.Context(), src, 1))
		src.advance(3)
		require.NoError(t, seat.Close(t.Context(), false))
		sinkSeat.Leave()
		assert.EqualValues(t, 3, b.store.record(t).Positions[0].Splits[0].Offset)
		assert.Empty(t, b.fatal)
	})
}

func TestSourceThatFollowsAnotherBelongsToItsIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		_, seat := b.sequence()
		require.Equal(t, 1, seat.Incarnation())
		require.NoError(t, seat.Close(t.Context(), false))
		second, seat := b.child()
		require.Equal(t, 1, seat.Incarnation(), "nothing was reloaded")
		require.NoError(t, seat.JoinSource(t.Context(), second, 1))
		require.NoError(t, seat.Close(t.Context(), false))
		b.sinkSeat.Leave()
	})
}

// The first of two sinks may have joined before the second claims its ids.
func TestSamePrefixIsRefusedHoweverLateItIsClaimed(t *testing.T) {
	b := newBench(t)
	pool := Pool{Prefix: "p", Size: 3}
	first, err := b.stream.DeclareSink(SinkDeclaration{Key: "first", Pool: pool})
	require.NoError(t, err)
	second, err := b.stream.DeclareSink(SinkDeclaration{Key: "second", Pool: pool})
	require.NoError(t, err)
	require.NoError(t, first.ClaimIDs("cluster"))
	require.NoError(t, first.JoinSink(t.Context(), "cluster", new(ledger)))
	require.ErrorContains(t, second.ClaimIDs("cluster"), "would fence each other")
	require.ErrorContains(t, <-b.fatal, "would fence each other")
}

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRunningStreamCommitsEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		b.move(5)
		<-time.After(1100 * time.Millisecond) // The bubble's clock: it moves when every goroutine is idle.
		synctest.Wait()
		assert.EqualValues(t, 5, b.sink.visible)
		assert.EqualValues(t, 5, b.src.committed)
		b.move(2)
		b.stop()
		assert.EqualValues(t, 7, b.sink.visible, "the stop runs a last checkpoint")
		assert.EqualValues(t, 7, b.src.committed)
		assert.Empty(t, b.store.record(t).Entries, "after a stop the newest record names no transaction")
		assert.EqualValues(t, 7, b.store.record(t).Positions[0].Splits[0].Offset)
		assert.Empty(t, b.fatal)
		assert.EqualValues(t, 2, b.counts.get("checkpoint_transactions committed"))
		assert.EqualValues(t, 2, b.counts.get("checkpoint_committed"))
		assert.Positive(t, b.counts.get("checkpoint_duration_ns"))
	})
}

func TestDeletedRecordsDoNotGiveTheirNumbersBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		cfg := benchConfig
		cfg.DeleteOnStop = true
		for range 2 {
			b.declare(&cfg, Pool{Prefix: "p", Size: 3})
			srcErr, sinkErr := b.join()
			require.NoError(t, errors.Join(srcErr, sinkErr))
			b.move(5)
			b.stop()
			assert.Empty(t, b.store.records)
			assert.EqualValues(t, 5, b.src.committed, "the group has the position before the record goes")
		}
		assert.Empty(t, b.fatal)
	})
}

func TestHardCloseEndsNoTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		b.move(5)
		require.NoError(t, b.srcSeat.Close(t.Context(), true))
		b.sinkSeat.Leave()
		assert.Zero(t, b.sink.visible)
		assert.EqualValues(t, 0, b.store.record(t).Positions[0].Splits[0].Offset)
	})
}

func TestFailoverRewindsAndUsesANewAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		b.move(5)
		first := b.src.tag
		b.srcSeat.Failed(first, errors.New("nack"))
		b.srcSeat.Failed(first, errors.New("another nack of the same attempt"))
		<-time.After(3 * time.Second)
		synctest.Wait()
		assert.Equal(t, 2, b.src.starts)
		assert.EqualValues(t, 0, b.src.at, "nothing was checkpointed")
		assert.Equal(t, first.Attempt+1, b.sink.tag.Attempt)
		b.sinkSeat.Failed(first, errors.New("a late failure of the old attempt"))
		<-time.After(3 * time.Second)
		synctest.Wait()
		assert.Equal(t, 2, b.src.starts)
		assert.EqualValues(t, 1, b.counts.get("checkpoint_failovers input"))
		b.stop()
	})
}

func TestLostTransactionIsReplayedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		b.move(5)
		b.sink.mu.Lock()
		b.sink.verdict = Aborted
		b.sink.mu.Unlock()
		<-time.After(1100 * time.Millisecond)
		synctest.Wait()
		b.sink.mu.Lock()
		b.sink.verdict = 0
		b.sink.mu.Unlock()
		<-time.After(3 * time.Second)
		synctest.Wait()
		assert.EqualValues(t, 0, b.src.at, "the records are read again")
		assert.EqualValues(t, 1, b.counts.get("checkpoint_transactions aborted"))
		assert.EqualValues(t, 1, b.counts.get("checkpoint_transactions replayed"))
		assert.EqualValues(t, 1, b.counts.get("checkpoint_failovers lost_transaction"))
		assert.Zero(t, b.counts.get("checkpoint_lost_records"))
		b.stop()
		assert.Empty(t, b.fatal)
	})
}

func TestWriteOfUnknownOutcomeIsResolvedBeforeAnythingIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		b.move(5)
		b.store.failWith(errors.New("i/o error"))
		<-time.After(1100 * time.Millisecond)
		synctest.Wait()
		require.Len(t, b.fatal, 1, "no record can be written at all")
		assert.ErrorContains(t, <-b.fatal, "i/o error")
		assert.Zero(t, b.sink.visible)
		b.stop()
	})
}

func TestWriteThatNeverReturnsEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		b.move(5)
		b.store.hold()
		<-time.After(5 * time.Minute)
		synctest.Wait()
		require.Len(t, b.fatal, 1)
		assert.ErrorContains(t, <-b.fatal, "did not end within checkpoint.timeout")
		assert.Zero(t, b.sink.visible)
		b.store.release()
		b.stop()
	})
}

func TestNewestRecordThatDoesNotVerifyStopsTheStart(t *testing.T) {
	good := EncodeRecord(&Record{Number: 4})
	tests := map[string]struct {
		data []byte
		want string
	}{
		"damaged":       {append(good[:len(good)-1:len(good)-1], good[len(good)-1]^1), "checksum"},
		"foreign":       {[]byte("hello"), "not a checkpoint record"},
		"other number":  {EncodeRecord(&Record{Number: 3}), "it says it is number 3"},
		"later version": {append([]byte("TGCR\x00\x09"), good[6:]...), "format version 9"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.store.records, b.store.newest = map[uint64][]byte{3: EncodeRecord(&Record{Number: 3}), 4: tc.data}, 4
				cfg := benchConfig
				b.declare(&cfg, Pool{Prefix: "p", Size: 3})
				srcErr, sinkErr := b.join()
				assert.ErrorContains(t, srcErr, tc.want)
				assert.ErrorContains(t, sinkErr, tc.want)
				assert.ErrorContains(t, <-b.fatal, "never used in its place")
				b.stop()
			})
		})
	}
}

func TestComponentsThatDoNotFitAreRefused(t *testing.T) {
	cfg := benchConfig
	other := benchConfig
	other.Interval = 2 * time.Second
	concurrent := benchConfig
	concurrent.MaxConcurrent = 3
	atLeastOnce := benchConfig
	atLeastOnce.AtLeastOnce = true
	pool := Pool{Prefix: "p", Size: 3}
	type seat struct {
		source *Config
		solo   bool // a source without checkpoints
		index  int32
		pool   Pool
	}
	tests := map[string]struct {
		seats []seat
		want  string
	}{
		"differing checkpoint blocks":      {[]seat{{source: &cfg}, {source: &other}, {pool: pool}}, "checkpoint.interval: 1s and 2s"},
		"checkpoints in some only":         {[]seat{{source: &cfg}, {solo: true}, {pool: pool}}, "checkpoint.interval: 1s and unset"},
		"two modes":                        {[]seat{{source: &atLeastOnce}, {pool: pool}}, "make the two equal"},
		"a pool too small":                 {[]seat{{source: &concurrent}, {pool: pool}}, "needs at least 5"},
		"one prefix twice":                 {[]seat{{source: &cfg}, {pool: pool}, {pool: pool}}, "same transactional_id_prefix: \"p\""},
		"sources that are two processes":   {[]seat{{source: &cfg, index: 1}, {source: &cfg, index: 2}, {pool: pool}}, `"in0" and "in1" have index 1 and 2`},
		"a sink of another process":        {[]seat{{source: &cfg, index: 1}, {pool: Pool{Prefix: "p", Index: 2, Size: 3}}}, `output "out" has index 2, and input "in0" index 1`},
		"one prefix twice, no checkpoints": {[]seat{{pool: pool}, {pool: pool}}, "same transactional_id_prefix: \"p\""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				var seats []*Seat
				for i, s := range tc.seats {
					var seat *Seat
					var err error
					if s.source != nil || s.solo {
						seat, err = b.stream.DeclareSource(SourceDeclaration{Key: fmt.Sprint("in", i), Index: s.index, Checkpoint: s.source, OpenStore: b.store.open})
					} else {
						seat, err = b.stream.DeclareSink(SinkDeclaration{Key: "out", Pool: s.pool})
					}
					require.NoError(t, err)
					seats = append(seats, seat)
				}
				for i, s := range seats {
					go func() {
						if tc.seats[i].source != nil || tc.seats[i].solo {
							_ = s.JoinSource(t.Context(), new(counter), 0)
						} else {
							_ = s.JoinSink(t.Context(), "", new(ledger))
						}
					}()
				}
				assert.ErrorContains(t, <-b.fatal, tc.want)
			})
		})
	}
}

func TestSinkHasTheIndexOfItsSources(t *testing.T) {
	b := newBench(t)
	cfg := benchConfig
	_, err := b.stream.DeclareSource(SourceDeclaration{Key: "in", Index: 2, Checkpoint: &cfg, OpenStore: b.store.open})
	require.NoError(t, err)
	sink, err := b.stream.DeclareSink(SinkDeclaration{Key: "out", Pool: Pool{Prefix: "p", Index: SourcesIndex, Size: 3}})
	require.NoError(t, err)
	require.Equal(t, "p-2-0", sink.Pool().TransactionalID(0))

	alone, err := newBench(t).stream.DeclareSink(SinkDeclaration{Key: "out", Pool: Pool{Prefix: "p", Index: SourcesIndex, Size: 3}})
	require.NoError(t, err)
	require.Equal(t, "p-0-0", alone.Pool().TransactionalID(0), "behind inputs that have none")
}

func TestTransactionTimeoutBelowOneCheckpointIsRefused(t *testing.T) {
	b := newBench(t)
	cfg := benchConfig
	b.declare(&cfg, Pool{Prefix: "p", Size: 3})
	require.NoError(t, b.sinkSeat.CheckTransactionTimeout(61*time.Second))
	require.ErrorContains(t, b.sinkSeat.CheckTransactionTimeout(60*time.Second), "checkpoint.timeout")
}

func TestBuildThatNobodyStartsBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		cfg := benchConfig
		b.declare(&cfg, Pool{Prefix: "p", Size: 3}) // As a connection test builds them.
		b.start()
		b.move(3)
		b.stop()
		assert.EqualValues(t, 3, b.sink.visible)
	})
}

func TestSourceThatFollowsAnotherJoinsTheRunningStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		b.move(5)
		require.NoError(t, b.srcSeat.Close(t.Context(), false))
		next := &counter{at: 40}
		seat, err := b.stream.DeclareSource(SourceDeclaration{Key: "second", Checkpoint: b.srcSeat.source.Checkpoint, OpenStore: b.store.open})
		require.NoError(t, err)
		require.NoError(t, seat.JoinSource(t.Context(), next, 0))
		next.advance(2)
		b.sink.write(2)
		require.NoError(t, seat.Close(t.Context(), false))
		b.sinkSeat.Leave()
		assert.EqualValues(t, 7, b.sink.visible)
		assert.Equal(t, 1, b.sink.starts)
		require.Len(t, b.store.record(t).Positions, 2, "the first source's position stays")
		assert.EqualValues(t, 42, stateOf(b.store.record(t).Positions, "second").Splits[0].Offset)
	})
}

// Without checkpoints nobody waits for anybody: a sink may come with the first record, or go on for another input when
// the source has ended.
func TestWithoutCheckpointsNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.declare(nil, Pool{})
		require.False(t, b.sinkSeat.Checkpointed())
		require.NoError(t, b.srcSeat.JoinSource(t.Context(), b.src, 0))
		require.NoError(t, b.srcSeat.Close(t.Context(), false))
		require.NoError(t, b.sinkSeat.Life().Err(), "the source has ended, the stream has not")
		require.NoError(t, b.sinkSeat.JoinSink(t.Context(), "cluster", b.sink))

		seat, err := b.stream.DeclareSource(SourceDeclaration{Key: "second"}) // as from a sequence
		require.NoError(t, err)
		require.NoError(t, seat.JoinSource(t.Context(), new(counter), 0))
		require.NoError(t, seat.Close(t.Context(), false))
		b.sinkSeat.Leave()
		assert.Zero(t, b.src.starts, "it starts by itself")
		assert.Zero(t, b.sink.starts)
		assert.Empty(t, b.fatal)
	})
}

// An output that is added to a running stream (dynamic) is declared, and before it connects, the next input of a sequence.
func TestWithoutCheckpointsABuildThatWasReplacedJoins(t *testing.T) {
	for name, cfg := range map[string]*Config{"none": nil, "checkpoints": &benchConfig} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.declare(cfg, Pool{})
				srcErr, sinkErr := b.join()
				require.NoError(t, errors.Join(srcErr, sinkErr))
				added, err := b.stream.DeclareSink(SinkDeclaration{Key: "added"})
				require.NoError(t, err)
				next, err := b.stream.DeclareSource(SourceDeclaration{Key: "next", Checkpoint: cfg, OpenStore: b.store.open})
				require.NoError(t, err)
				err = added.JoinSink(t.Context(), "cluster", new(ledger))
				if cfg != nil {
					require.ErrorContains(t, err, "another one has replaced")
				} else {
					require.NoError(t, err)
					require.NoError(t, next.JoinSource(t.Context(), new(counter), 0))
				}
				require.NoError(t, next.Close(t.Context(), true))
				added.Leave()
				require.NoError(t, b.srcSeat.Close(t.Context(), true))
				b.sinkSeat.Leave()
			})
		})
	}
}

func TestRebuiltStreamEndsItsPredecessorAndGoesOnFromItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		b.move(5)
		<-time.After(1100 * time.Millisecond)
		synctest.Wait()
		oldSrc, oldSink, oldSrcSeat, oldSinkSeat := b.src, b.sink, b.srcSeat, b.sinkSeat
		b.start()
		assert.EqualValues(t, 5, b.src.at)
		assert.Greater(t, b.src.tag.Attempt, oldSrc.tag.Attempt, "an attempt number is never used twice")
		assert.Equal(t, 1, oldSink.halts)
		oldSrcSeat.Failed(oldSrc.tag, errors.New("late"))
		require.NoError(t, oldSrcSeat.Close(t.Context(), false))
		oldSinkSeat.Leave()
		b.move(1)
		b.stop()
		assert.EqualValues(t, 5+1, b.sink.visible, "the recovery asks again for what the newest record holds")
	})
}

func TestSinkThatWaitsForAStreamThatIsOverStopsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		cfg := benchConfig
		b.declare(&cfg, Pool{Prefix: "p", Size: 3})
		joined := make(chan error, 1)
		go func() { joined <- b.sinkSeat.JoinSink(t.Context(), "cluster", b.sink) }()
		synctest.Wait()
		require.NoError(t, b.srcSeat.Close(t.Context(), false), "the source never reached its cluster")
		require.ErrorIs(t, <-joined, ErrLeft)
		<-b.sinkSeat.Life().Done()
		require.NoError(t, b.sinkSeat.Failure())
		require.ErrorIs(t, b.sinkSeat.JoinSink(t.Context(), "cluster", b.sink), ErrLeft)
		b.sinkSeat.Leave()
	})
}

func TestStopEndsAStartThatNothingAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		cfg := benchConfig
		b.declare(&cfg, Pool{Prefix: "p", Size: 3})
		b.srcSeat.source.OpenStore = func(ctx context.Context) (Store, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		ctx, cancel := context.WithCancel(t.Context())
		joined := make(chan error, 2)
		go func() { joined <- b.srcSeat.JoinSource(ctx, b.src, 0) }()
		go func() { joined <- b.sinkSeat.JoinSink(ctx, "cluster", b.sink) }()
		synctest.Wait()
		cancel() // Benthos ends Connect, then closes.
		require.NoError(t, b.srcSeat.Close(t.Context(), false))
		b.sinkSeat.Leave()
		require.Error(t, <-joined)
		require.Error(t, <-joined)
		assert.Empty(t, b.fatal, "a stop is no failure")
	})
}

func TestJoinEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		cfg := benchConfig
		b.declare(&cfg, Pool{Prefix: "p", Size: 3})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		require.ErrorIs(t, b.srcSeat.JoinSource(ctx, b.src, 0), context.Canceled)
		b.stop()
	})
}

func TestRestartDelayGrowsToAMinute(t *testing.T) {
	for n, want := range map[uint64]time.Duration{1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second, 7: time.Minute, 90: time.Minute} {
		for range 50 {
			d := RestartDelay(n)
			assert.GreaterOrEqual(t, d, want*8/10)
			assert.LessOrEqual(t, d, want*12/10)
		}
	}
}

package kafkasink

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/txn"
	"github.com/tidegate/tidegate/tests/realkafka"
)

func TestTransactionsAreCommittedWithTheirCheckpoints(t *testing.T) {
	r := realRig(t, realkafka.Shared(t))
	require.NoError(t, r.InitIDs(t.Context(), []checkpoint.Pool{r.cfg.pool(r.clusterID)}))
	r.Start(tag(1), 0)
	var want []string
	for n, values := range [][]string{{"a", "b"}, {"c"}, {"d"}, {"e", "f", "g"}} {
		r.write(t, tag(1), values...)
		c := r.barrier(t, int32(n+1)%3)
		require.NotNil(t, c)
		require.Equal(t, txn.ID(r.cfg.Pool, int32(n)%3), c.TransactionalID)
		require.Equal(t, int64(len(values)), c.Records)
		require.Equal(t, r.clusterID, c.ClusterID)
		want = append(want, values...)
		require.Equal(t, want, r.values(t))
	}
}

// TestEmptyTransactionKeepsItsID: rule 4, and the coordinator gets the id it had reserved back.
func TestEmptyTransactionKeepsItsID(t *testing.T) {
	r := realRig(t, realkafka.Shared(t))
	r.Start(tag(1), 0)
	require.Nil(t, r.barrier(t, 1))
	r.write(t, tag(1), "a")
	c := r.barrier(t, 1)
	require.Equal(t, txn.ID(r.cfg.Pool, 0), c.TransactionalID)
	require.Nil(t, r.barrier(t, 2))
	require.Equal(t, []string{"a"}, r.values(t))
}

func TestWriteWaitsForAFreeID(t *testing.T) {
	var waits []time.Duration
	r := realRig(t, realkafka.Shared(t), func(c *Config, _ *seat) {
		c.Metrics.IDWait = func(d time.Duration) { waits = append(waits, d) }
	})
	r.Start(tag(1), 0)
	r.write(t, tag(1), "a")
	idless := time.Now()
	require.NotNil(t, r.barrier(t, -1))
	require.Nil(t, r.barrier(t, 2), "nothing is open, nothing is sealed")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, r.WriteBatch(ctx, r.batch(tag(1), "given up")), context.DeadlineExceeded)
	done := blocked(t, func() error { return r.WriteBatch(soon(t), r.batch(tag(1), "b")) })
	require.Empty(t, waits, "it is not over")
	r.Open(1)
	require.NoError(t, <-done)
	require.Len(t, waits, 1)
	require.GreaterOrEqual(t, waits[0], 20*time.Millisecond, "the write above has waited so long for an id")
	require.Less(t, waits[0], time.Since(idless))
	require.Equal(t, txn.ID(r.cfg.Pool, 1), r.barrier(t, 2).TransactionalID)
	require.Equal(t, []string{"a", "b"}, r.values(t))
	require.Len(t, waits, 1, "there was an id")
	require.NotNil(t, func() *checkpoint.Committable { r.write(t, tag(1), "c"); return r.barrier(t, -1) }())
	require.NoError(t, r.Halt(t.Context()))
	r.Start(tag(2), 0)
	require.Len(t, waits, 1, "a restart ends the wait without an id that was waited for")
}

// TestSealedTransactionSurvivesFailover: what is recorded is committed though the attempt that wrote it is over, and
// what was open is not.
func TestSealedTransactionSurvivesFailover(t *testing.T) {
	r := realRig(t, realkafka.Shared(t))
	r.Start(tag(1), 0)
	r.write(t, tag(1), "sealed")
	require.NoError(t, r.Flush(t.Context()))
	sealed, err := r.Seal(1)
	require.NoError(t, err)
	r.write(t, tag(1), "open")
	require.NoError(t, r.Halt(t.Context()))
	r.Open(3) // may come after the halt; the coordinator aborts the id
	require.NoError(t, r.Abort(t.Context(), 1))
	r.Start(tag(2), 2)
	r.write(t, tag(1), "late")
	r.write(t, tag(2), "again")
	verdict, err := r.Commit(t.Context(), *sealed)
	require.NoError(t, err)
	require.Equal(t, checkpoint.Committed, verdict)
	r.barrier(t, 1)
	require.Equal(t, []string{"again", "sealed"}, r.values(t))
	require.Empty(t, r.seat.failures())
}

// TestNextProcessCommitsWhatWasSealed: Close ends no transaction, and recovery does.
func TestNextProcessCommitsWhatWasSealed(t *testing.T) {
	for _, next := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(next.String(), func(t *testing.T) {
			r := realRig(t, realkafka.Shared(t))
			r.Start(tag(1), 0)
			r.write(t, tag(1), "sealed")
			require.NoError(t, r.Flush(t.Context()))
			sealed, err := r.Seal(1)
			require.NoError(t, err)
			r.write(t, tag(1), "open")
			require.NoError(t, r.Flush(t.Context()))
			r.Close()

			n := newRig(t, r.addrs, r.topic, exactlyOnce(r.cfg.Pool.Prefix), guarantee(next))
			_, err = n.Connect(t.Context())
			require.NoError(t, err)
			state := checkpoint.SinkState{Sink: "out", Pools: []checkpoint.Pool{r.cfg.pool(r.clusterID)}}
			require.NoError(t, n.Verify(t.Context(), state, []checkpoint.Committable{*sealed}))
			verdict, err := n.Describe(t.Context(), *sealed)
			require.NoError(t, err)
			require.Zero(t, verdict)
			verdict, err = n.Commit(t.Context(), *sealed)
			require.NoError(t, err)
			require.Equal(t, checkpoint.Committed, verdict)
			require.NoError(t, n.InitIDs(t.Context(), state.Pools))
			require.Equal(t, []string{"sealed"}, n.values(t))
		})
	}
}

func TestAnotherClusterIsRefused(t *testing.T) {
	r, _ := fakeRig(t)
	const says = "correct `bootstrap_servers`"
	require.ErrorContains(t, r.Verify(t.Context(), checkpoint.SinkState{Pools: []checkpoint.Pool{{ClusterID: "other", Prefix: "p"}}}, nil), says)
	require.ErrorContains(t, r.Verify(t.Context(), checkpoint.SinkState{}, []checkpoint.Committable{{ClusterID: "other"}}), says)
	require.NoError(t, r.Verify(t.Context(), checkpoint.SinkState{Pools: []checkpoint.Pool{{ClusterID: r.clusterID}}}, nil))
}

// TestFencedByAnotherOwnerIsFatal: a failover would take the id back from its rightful owner, so Flush must not return
// before the coordinator has heard of it.
func TestFencedByAnotherOwnerIsFatal(t *testing.T) {
	r := realRig(t, realkafka.Shared(t))
	r.Start(tag(1), 0)
	r.write(t, tag(1), "ours")
	require.NoError(t, r.Flush(t.Context()))
	other := newRig(t, r.addrs, r.topic, exactlyOnce(r.cfg.Pool.Prefix))
	_, err := other.Connect(t.Context())
	require.NoError(t, err)
	require.NoError(t, other.InitIDs(t.Context(), []checkpoint.Pool{r.cfg.Pool}))
	r.write(t, tag(1), "late")
	err = r.Flush(soon(t))
	var fenced *txn.FencedError
	require.ErrorAs(t, err, &fenced)
	require.Len(t, r.seat.fatals(), 1)
	require.Empty(t, r.seat.failures())
	require.Empty(t, r.values(t))
}

// TestFencedBetweenTransactionsIsFatal: the first that hears of it is the next transaction on a kept client.
func TestFencedBetweenTransactionsIsFatal(t *testing.T) {
	r := realRig(t, realkafka.Shared(t))
	r.Start(tag(1), 0)
	r.write(t, tag(1), "ours")
	r.barrier(t, -1)
	other := newRig(t, r.addrs, r.topic, exactlyOnce(r.cfg.Pool.Prefix))
	_, err := other.Connect(t.Context())
	require.NoError(t, err)
	require.NoError(t, other.InitIDs(t.Context(), []checkpoint.Pool{r.cfg.Pool}))
	r.Open(0)
	r.write(t, tag(1), "late")
	var fenced *txn.FencedError
	require.ErrorAs(t, r.Flush(soon(t)), &fenced)
	require.Len(t, r.seat.fatals(), 1)
	require.Empty(t, r.seat.failures())
}

func TestOwnTimeoutIsAFailover(t *testing.T) {
	r := realRig(t, realkafka.Shared(t), func(c *Config, _ *seat) { c.TransactionTimeout = 2 * time.Second })
	r.Start(tag(1), 0)
	r.write(t, tag(1), "early")
	require.NoError(t, r.Flush(t.Context()))
	c := checkpoint.Committable{TransactionalID: txn.ID(r.cfg.Pool, 0)}
	require.Eventually(t, func() bool { // the coordinator has aborted it
		v, err := r.Describe(t.Context(), c)
		return err == nil && v == checkpoint.Unknown && r.state(t, c.TransactionalID) == "CompleteAbort"
	}, 30*time.Second, 50*time.Millisecond)
	r.write(t, tag(1), "late")
	require.Error(t, r.Flush(soon(t)))
	require.Empty(t, r.seat.fatals())
	require.Len(t, r.seat.failures(), 1)
	require.NoError(t, r.Halt(t.Context()))
	require.NoError(t, r.Abort(t.Context(), 0))
	r.Start(tag(2), 0)
	r.write(t, tag(2), "again")
	r.barrier(t, 1)
	require.Equal(t, []string{"again"}, r.values(t))
}

// TestSilentBrokerHoldsUpNeitherHaltNorFailover: connections are open and nothing is answered.
func TestSilentBrokerHoldsUpNeitherHaltNorFailover(t *testing.T) {
	cluster := realkafka.Start(t, realkafka.Options{})
	r := realRig(t, cluster, window4)
	r.Start(tag(1), 0)
	r.write(t, tag(1), "a")
	require.NoError(t, r.Flush(t.Context()))
	require.NoError(t, cluster.Pause(0))
	r.write(t, tag(1), "b", "c", "d")
	full := blocked(t, func() error { return r.WriteBatch(soon(t), r.batch(tag(1), "e", "f")) })
	flush := blocked(t, func() error { return r.Flush(soon(t)) })
	r.writersInside(t, 1)
	require.NoError(t, r.Halt(soon(t)))
	require.NoError(t, <-full)
	require.Error(t, <-flush)
	aborted := blocked(t, func() error { return r.Abort(t.Context(), 0) })
	r.Start(tag(2), 1)
	begin := blocked(t, func() error { return r.WriteBatch(t.Context(), r.batch(tag(2), "x")) })
	r.writersInside(t, 1)
	require.NoError(t, r.Halt(soon(t)), "a transaction that cannot begin is halted too")
	require.NoError(t, <-begin)
	require.NoError(t, cluster.Continue(0))
	require.NoError(t, <-aborted)
	require.NoError(t, r.Abort(t.Context(), 1))
	r.Start(tag(3), 0)
	r.write(t, tag(3), "again")
	r.barrier(t, 1)
	require.Equal(t, []string{"again"}, r.values(t))
	require.Empty(t, r.seat.failures())
	require.Empty(t, r.seat.fatals())
}

// TestBrokerAwayIsWaitedFor: records are sent when it is back, and nothing fails.
func TestBrokerAwayIsWaitedFor(t *testing.T) {
	cluster := realkafka.Start(t, realkafka.Options{})
	r := realRig(t, cluster)
	r.Start(tag(1), 0)
	r.write(t, tag(1), "a")
	require.NoError(t, r.Flush(t.Context()))
	require.NoError(t, cluster.Kill(0))
	r.write(t, tag(1), "b")
	flush := blocked(t, func() error { return r.Flush(t.Context()) })
	require.NoError(t, cluster.Restart(0))
	require.NoError(t, <-flush)
	r.barrier(t, 1)
	require.Equal(t, []string{"a", "b"}, r.values(t))
	require.Empty(t, r.seat.failures())
}

// TestSealRefusesAndFlushWaitsWhileABatchIsBeingWritten: its record would be committed though its position is not.
func TestSealRefusesAndFlushWaitsWhileABatchIsBeingWritten(t *testing.T) {
	r := realRig(t, realkafka.Shared(t))
	r.Start(tag(1), 0)
	r.write(t, tag(1), "a")
	out, err := r.enter(t.Context(), write{attempt: 1})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, r.Flush(ctx), context.DeadlineExceeded)
	flushed := blocked(t, func() error { return r.Flush(soon(t)) })
	_, err = r.Seal(1)
	require.ErrorContains(t, err, "while a batch is being written")
	r.leave(out)
	require.NoError(t, <-flushed)
	require.NotNil(t, r.barrier(t, 1))
}

func TestForeignMessageFailsAnExactlyOnceSink(t *testing.T) {
	r := realRig(t, realkafka.Shared(t))
	r.Start(tag(1), 0)
	for _, foreign := range []checkpoint.Tag{{}, {Stream: theirs, Attempt: 1}} {
		batch := append(r.batch(tag(1), "ours"), r.batch(foreign, "foreign")...)
		require.ErrorIs(t, r.WriteBatch(t.Context(), batch), ErrForeign)
	}
	require.Nil(t, r.barrier(t, 1), "nothing of the batch was written")
}

func TestSettingsThatNothingHealsEndTheProcess(t *testing.T) {
	cluster := realkafka.Shared(t)
	topic := cluster.Topic(t, 1)
	t.Run("timeout below the commit interval", func(t *testing.T) {
		r := newRig(t, cluster.Bootstrap(), topic, exactlyOnce(realkafka.Name(t)), unchecked,
			func(c *Config, _ *seat) { c.TransactionTimeout, c.CommitInterval = 2*time.Second, 2*time.Second })
		_, err := r.Connect(t.Context())
		require.ErrorContains(t, err, "transactions.commit_interval is 2s, and transactions.timeout 2s")
		require.Len(t, r.seat.fatals(), 1)
	})
	t.Run("too few ids", func(t *testing.T) {
		r := newRig(t, cluster.Bootstrap(), topic, exactlyOnce(realkafka.Name(t)), unchecked,
			func(c *Config, _ *seat) { c.Pool.Size = 1 })
		_, err := r.Connect(t.Context())
		require.ErrorContains(t, err, "transactions.pool_size is 1")
		require.Len(t, r.seat.fatals(), 1)
	})
	t.Run("timeout above the broker's maximum", func(t *testing.T) {
		r := newRig(t, cluster.Bootstrap(), topic, exactlyOnce("p"),
			func(c *Config, _ *seat) { c.TransactionTimeout = 16 * time.Minute })
		_, err := r.Connect(t.Context())
		var refused *txn.TimeoutError
		require.ErrorAs(t, err, &refused)
		require.Len(t, r.seat.fatals(), 1)
	})
	t.Run("timeout below a checkpoint", func(t *testing.T) {
		r := newRig(t, cluster.Bootstrap(), topic, exactlyOnce("p"),
			func(_ *Config, s *seat) { s.tooShort = context.DeadlineExceeded })
		_, err := r.Connect(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Len(t, r.seat.fatals(), 1)
	})
	t.Run("but a broker that is away does not", func(t *testing.T) {
		r := newRig(t, []string{"127.0.0.1:1"}, topic, exactlyOnce("p"))
		_, err := r.Connect(t.Context())
		require.ErrorContains(t, err, "127.0.0.1:1")
		require.Empty(t, r.seat.fatals())
	})
}

// TestLargestRecordsAreTaken: what check lets through fits the broker's default message.max.bytes, alone and among
// others.
func TestLargestRecordsAreTaken(t *testing.T) {
	r := realRig(t, realkafka.Shared(t))
	r.Start(tag(1), 0)
	largest := kgo.Record{Topic: r.topic, Value: make([]byte, r.limit-100)}
	_, _ = rand.Read(largest.Value)
	largest.Value = append(largest.Value, make([]byte, r.limit-batchLength(&largest))...)
	require.Equal(t, r.limit, batchLength(&largest))
	require.NoError(t, r.WriteBatch(t.Context(), []Record{{Record: largest, Tag: tag(1)}}))
	for range 20 {
		batch := r.batch(tag(1), "1", "2", "3")
		for i := range batch {
			batch[i].Key = []byte("all to one partition")
			batch[i].Value = largest.Value[:100_000]
		}
		require.NoError(t, r.WriteBatch(t.Context(), batch))
	}
	c := r.barrier(t, 1)
	require.Equal(t, int64(61), c.Records)
	require.Len(t, c.Topics, 1)
	require.NotEmpty(t, c.Topics[0].Partitions)
}

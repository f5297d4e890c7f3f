package txn

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/tests/kafkaproxy"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// ownerAbortsWhatIsOpen: an abort of one's own, with a transaction open, sealed, or none at all, is never taken for
// somebody else's, and the id can be used again.
func ownerAbortsWhatIsOpen(t *testing.T, b *bench) {
	b = b.withTopic(t)
	p := b.pool(t, realkafka.Name(t))
	_, err := p.Init(t.Context(), []checkpoint.Pool{p.cfg.Pool}, nil)
	require.NoError(t, err)
	require.NoError(t, p.Abort(t.Context(), 0), "nothing is open")
	for range 3 {
		var e errs
		tx := p.Begin(0, e.done)
		require.NoError(t, tx.Ready(t.Context()))
		tx.Produce(b.records("aborted"))
		require.NoError(t, tx.Flush(t.Context()))
		require.NoError(t, p.Abort(t.Context(), 0), "open")
		b.seal(t, p, 0, "aborted")
		require.NoError(t, p.Abort(t.Context(), 0), "sealed")
		_, c := b.seal(t, p, 0, "kept")
		verdict, err := p.Commit(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, checkpoint.Committed, verdict)
		require.NoError(t, p.Abort(t.Context(), 0), "committed")
	}
	require.Equal(t, []string{"kept", "kept", "kept"}, b.committed(t))
}

// sleeperTakesNothingBack: a process sleeps after its recovery, another takes its ids over and seals a transaction, and
// the first wakes. Neither an abort nor the first record on an id may touch what the new owner has sealed: the broker
// would abort it, since it compares epochs only while no transaction is open.
func sleeperTakesNothingBack(t *testing.T, b *bench) {
	b = b.withTopic(t)
	prefix := realkafka.Name(t)
	sleeper, owner := b.pool(t, prefix), b.pool(t, prefix)
	pools := []checkpoint.Pool{sleeper.cfg.Pool}
	_, err := sleeper.Init(t.Context(), pools, nil)
	require.NoError(t, err)
	_, err = owner.Init(t.Context(), pools, nil)
	require.NoError(t, err)
	_, sealed := b.seal(t, owner, 0, "of the new owner")

	var fenced *FencedError
	require.ErrorAs(t, sleeper.Abort(t.Context(), 0), &fenced)
	var e errs
	require.ErrorAs(t, sleeper.Begin(0, e.done).Ready(t.Context()), &fenced)
	require.ErrorAs(t, sleeper.Begin(1, e.done).Ready(t.Context()), &fenced, "an id that nobody has used since")

	verdict, err := owner.Commit(t.Context(), sealed)
	require.NoError(t, err)
	require.Equal(t, checkpoint.Committed, verdict)
	require.Equal(t, []string{"of the new owner"}, b.committed(t))
	_, sealed = b.seal(t, owner, 1, "goes on")
	verdict, err = owner.Commit(t.Context(), sealed)
	require.NoError(t, err)
	require.Equal(t, checkpoint.Committed, verdict)
}

// sleeperBeforeItsClient: a process sleeps after it has made sure that it owns the id, and before its client's own
// InitProducerId, which the broker takes from everybody.
func sleeperBeforeItsClient(t *testing.T, b *bench) {
	b = b.withTopic(t)
	sleeper, proxy := b.proxied(t)
	sleeper.cfg.Broker = b.Broker // which does not go through the proxy
	pools := []checkpoint.Pool{sleeper.cfg.Pool}
	_, err := sleeper.Init(t.Context(), pools, nil)
	require.NoError(t, err)
	proxy.Set(kafkaproxy.Rule{Key: kmsg.InitProducerID, Side: kafkaproxy.Request, Effect: kafkaproxy.Delay, Delay: 3 * time.Second, Times: 1})
	var e errs
	tx := sleeper.Begin(0, e.done)
	woken := make(chan error, 1)
	go func() { woken <- tx.Ready(t.Context()) }()
	require.Eventually(t, func() bool { return proxy.Hits() == 1 }, 20*time.Second, time.Millisecond)
	owner := b.pool(t, sleeper.cfg.Pool.Prefix)
	_, err = owner.Init(t.Context(), pools, nil)
	require.NoError(t, err)
	requireFenced(t, <-woken)
}

// lateCommitEndsNothingElse: the request that is to commit a transaction is held up on its way, the client sends it again,
// and the first one arrives when the id's next transaction is open.
func lateCommitEndsNothingElse(t *testing.T, b *bench) {
	b = b.withTopic(t)
	p, proxy := b.proxied(t, kgo.RequestTimeoutOverhead(time.Second))
	_, err := p.Init(t.Context(), []checkpoint.Pool{p.cfg.Pool}, nil)
	require.NoError(t, err)
	_, c := b.seal(t, p, 0, "committed")
	const late = 5 * time.Second
	arrived := time.After(late + time.Second)
	proxy.Set(kafkaproxy.Rule{Key: kmsg.EndTxn, Side: kafkaproxy.Request, Effect: kafkaproxy.Delay, Delay: late, Times: 1})
	verdict, err := p.Commit(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, checkpoint.Committed, verdict)
	require.Equal(t, 1, proxy.Clear())
	_, c = b.seal(t, p, 0, "open")
	<-arrived
	require.Equal(t, "Ongoing", b.seen(t, c.TransactionalID))
	require.Equal(t, []string{"committed"}, b.committed(t))
}

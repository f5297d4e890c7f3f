package txn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// ownerAbortsWhatIsOpen: an abort of one's own, with a transaction open, sealed, or none at all, is never taken for
// somebody else's, and the id can be used again.
func ownerAbortsWhatIsOpen(t *testing.T, b *bench) {
	b = b.withTopic(t)
	p := b.pool(t, realkafka.Name(t))
	_, err := p.Init(t.Context(), []checkpoint.Pool{p.cfg.Pool})
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
	_, err := sleeper.Init(t.Context(), pools)
	require.NoError(t, err)
	_, err = owner.Init(t.Context(), pools)
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

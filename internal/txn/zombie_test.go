package txn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/tests/realkafka"
)

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

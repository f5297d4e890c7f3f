package txn

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// tracesAreOpenTransactions: what an id has to be open for is a trace of an earlier run, what is over is none.
func tracesAreOpenTransactions(t *testing.T, b *bench) {
	for name, tc := range map[string]struct {
		n    int32 // which id of the pool is brought into the state
		end  func(*testing.T, *kgo.Client)
		want bool
	}{
		"never used":                {n: -1},
		"open":                      {n: 0, want: true},
		"open, the pool's last":     {n: 2, want: true},
		"open, beyond the pool":     {n: 3},
		"committed by its producer": {n: 0, end: func(t *testing.T, cl *kgo.Client) { require.NoError(t, cl.EndTransaction(t.Context(), kgo.TryCommit)) }},
		"aborted by its producer":   {n: 0, end: func(t *testing.T, cl *kgo.Client) { require.NoError(t, cl.EndTransaction(t.Context(), kgo.TryAbort)) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := b.withTopic(t)
			pool := checkpoint.Pool{Prefix: realkafka.Name(t), Size: 3}
			id := ID(pool, max(tc.n, 0))
			if tc.n >= 0 {
				cl := b.writer(t, id, time.Minute)
				b.open(t, cl, id, time.Minute)
				if tc.end != nil {
					tc.end(t, cl)
					// The coordinator answers before the markers are written, and until then the transaction is a trace.
					require.Eventually(t, func() bool {
						state := b.seen(t, id)
						return state == "CompleteCommit" || state == "CompleteAbort"
					}, 20*time.Second, 20*time.Millisecond)
				}
			}
			found, err := b.Traces(t.Context(), pool)
			require.NoError(t, err)
			if !tc.want {
				require.Empty(t, found)
				return
			}
			require.Contains(t, found, `"`+id+`"`, "the id is named")
			require.Contains(t, found, "transactional_id_prefix")
			require.Contains(t, found, "Ongoing")
		})
	}
}

package kafkasink

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/tests/leak"
)

// TestAttemptsLeaveNothingBehind goes through failovers, each with an open transaction and some with a sealed one that is
// committed or given up.
func TestAttemptsLeaveNothingBehind(t *testing.T) {
	for _, g := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(g.String(), func(t *testing.T) {
			options := []option{guarantee(g)}
			if g == ExactlyOnce {
				options = append(options, exactlyOnce("leak"))
			}
			r, _ := fakeRig(t, options...)
			if g == ExactlyOnce {
				require.NoError(t, r.InitIDs(t.Context(), []checkpoint.Pool{r.cfg.pool(r.clusterID)}))
			}
			leak.Repeat(t, 200, func(i int) {
				now := tag(uint64(i + 1))
				r.Start(now, 0)
				r.write(t, now, "a")
				require.NoError(t, r.Flush(t.Context()))
				sealed, err := r.Seal(1)
				require.NoError(t, err)
				if sealed != nil && i%2 == 0 {
					verdict, err := r.Commit(t.Context(), *sealed)
					require.NoError(t, err)
					require.Equal(t, checkpoint.Committed, verdict)
				}
				r.write(t, now, "b")
				require.NoError(t, r.Halt(t.Context()))
				if g == ExactlyOnce {
					require.NoError(t, r.Abort(t.Context(), 0))
					require.NoError(t, r.Abort(t.Context(), 1))
				}
			})
			require.Empty(t, r.seat.failures())
			require.Empty(t, r.seat.fatals())
		})
	}
}

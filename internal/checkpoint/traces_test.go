package checkpoint

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLostStateIsRefusedUnlessItIsToBeIgnored(t *testing.T) {
	for _, ignore := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.traces = "transaction p-0-1 is open"
			cfg := benchConfig
			cfg.IgnoreMissingState = ignore
			b.declare(&cfg, Pool{Prefix: "p", Size: 3})
			srcErr, sinkErr := b.join()
			if ignore {
				require.NoError(t, errors.Join(srcErr, sinkErr))
				assert.False(t, b.sink.noted, "the ids are taken from whoever has them")
			} else {
				require.ErrorContains(t, srcErr, "transaction p-0-1 is open")
				require.ErrorContains(t, <-b.fatal, "startup.ignore_missing_state")
				assert.Empty(t, b.store.records)
			}
			b.stop()
			if ignore {
				b.start() // Now there are records, and nobody is asked.
				assert.True(t, b.sink.noted, "who has taken the ids since is another owner")
				b.stop()
			}
		})
	}
}

func TestOldStateIsRefusedUnlessItIsToBeIgnored(t *testing.T) {
	for _, ignore := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.start()
			b.move(1)
			<-time.After(1100 * time.Millisecond)
			b.stop()
			before := b.store.record(t)

			cfg := benchConfig
			cfg.IgnoreMissingState = ignore
			b.declare(&cfg, Pool{Prefix: "p", Size: 3})
			b.src.overtaken = "the group is at 5"
			srcErr, sinkErr := b.join()
			if ignore {
				require.NoError(t, errors.Join(srcErr, sinkErr))
				assert.Contains(t, b.log.String(), "is older than what the cluster shows")
			} else {
				require.ErrorContains(t, srcErr, "input: checkpoint 1, the newest in test store, is older than what this store has held: the group is at 5")
				require.ErrorContains(t, <-b.fatal, "startup.ignore_missing_state")
				assert.Equal(t, before, b.store.record(t), "nothing is written")
			}
			b.stop()
		})
	}
}

// TestRemovedOutputIsNamed: nobody ends the transaction that such an output may have left open.
func TestRemovedOutputIsNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		pool  Pool
		warns bool
	}{
		"another prefix":                {pool: Pool{Prefix: "q", Size: 3}, warns: true},
		"the same prefix, a small pool": {pool: Pool{Prefix: "p", Size: 3}, warns: true},
		"the same prefix":               {pool: Pool{Prefix: "p", Size: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				cfg := benchConfig
				b.declare(&cfg, Pool{Prefix: "p", Size: 4})
				_, err := b.join()
				require.NoError(t, err)
				b.stop()
				b.sinkKey = "renamed"
				b.declare(&cfg, tc.pool)
				srcErr, sinkErr := b.join()
				require.NoError(t, errors.Join(srcErr, sinkErr))
				b.stop()
				assert.Equal(t, tc.warns, strings.Contains(b.log.String(), "an output of the checkpoint is no longer in the config"))
				assert.Equal(t, tc.warns, strings.Contains(b.log.String(), `output=output transactional_ids="p-0-0 to p-0-3"`))
			})
		})
	}
}

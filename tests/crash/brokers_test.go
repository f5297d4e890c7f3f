package crash

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/tests/realkafka"
)

// parallel acknowledges each batch by itself, many at a time, and keeps its positions in the group alone.
var parallel = scenario{
	name: "uncheckpointed", startup: fromGroup, solo: "auto_commit: { interval: 200ms }", processors: asIs, perSecond: 100,
	repeats: true, threads: 4, brokerToo: true, sink: `
    delivery_guarantee: at-least-once
    max_in_flight: 16`,
}

// brokers kills brokers with SIGKILL and starts them again, every few seconds, under a pipeline that runs on.
func (w *ward) brokers(t *testing.T) {
	for i, tc := range []struct {
		scenario scenario
		count    int
	}{{patient, 1}, {patient, 3}, {parallel, 3}} {
		t.Run(fmt.Sprintf("%s one of %d", tc.scenario.name, tc.count), func(t *testing.T) { w.killBrokers(t, tc.scenario, tc.count, uint64(i)) })
	}
}

func (w *ward) killBrokers(t *testing.T, s scenario, count int, stream uint64) {
	options := optionsOf(t, w.tv)
	options.Brokers = count
	cluster := realkafka.Start(t, options)
	su := w.newSufferer(t, s, cluster, stream)
	coordinators, n := 0, w.times(10)
	su.begin()
	for i := range n {
		require.NoError(t, su.goOn())
		victim := su.rng.IntN(count)
		if i%2 == 0 && s.solo == "" {
			var err error
			victim, err = coordinatorOf(t.Context(), cluster, su.names.Prefix+"-0-0")
			require.NoError(t, err)
			coordinators++
		}
		require.NoError(t, cluster.Kill(victim))
		if count > 1 { // they do without it, for a while
			require.NoError(t, su.goOn())
		}
		require.NoError(t, cluster.Restart(victim))
		require.NoError(t, su.heal())
		require.NoError(t, su.followFor(su.p, time.Duration(su.rng.Int64N(int64(2*time.Second)))))
	}
	what := fmt.Sprintf("brokers, %s: one of %d killed %d times, the coordinator %d times", s.name, count, n, coordinators)
	fmt.Printf("%s, transaction.version %d: %s, longest pause %v\n", what, w.tv, su.line(), su.longestPause.Round(time.Millisecond))
	if !s.repeats {
		require.False(t, su.dirty(), "first %v", su.checker.found.first)
	}
	require.Empty(t, su.words, "the pipeline goes on by itself")
	su.end(t, what)
}

// coordinatorOf is the broker that has a transactional id.
func coordinatorOf(ctx context.Context, cluster *realkafka.Cluster, id string) (int, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Bootstrap()...))
	if err != nil {
		return 0, fmt.Errorf("asking for the coordinator of %s: %w", id, err)
	}
	defer client.Close()
	found := kadm.NewClient(client).FindTxnCoordinators(ctx, id)[id]
	return max(0, int(found.NodeID)-1), found.Err
}

package crash

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/child"
	"github.com/tidegate/tidegate/internal/devbroker"
	"github.com/tidegate/tidegate/tests/binary"
	"github.com/tidegate/tidegate/tests/realkafka"
)

var flagRecovery = flag.Int("crash.recovery", 2, "how often the time from a SIGKILL to the first new record is taken")

// recovery is how long a reader waited, from the SIGKILL on.
type recovery struct {
	// visible is when the first record came that nobody could see at the kill: as a rule of a transaction that the
	// killed process had sealed.
	visible time.Duration
	// fresh is when the first record came that was written to the input after the kill, so that the new process has
	// taken it through a whole checkpoint of its own.
	fresh time.Duration
}

// TestRecoveryAfterAKillIsTimed takes, for a reader with isolation.level=read_committed, the time from a SIGKILL to the
// first new record where the pipeline is started again at once. It prints the times and asserts none: make
// bench-recovery has them without the race detector.
func TestRecoveryAfterAKillIsTimed(t *testing.T) {
	connect := binary.Connect(t)
	eachVersion(t, func(t *testing.T, tv int) {
		cluster, seed := clusterOf(t, tv), seedOf(t)
		tr, err := newTrial(scenarios[0], namesOf(t, cluster, tv), cluster, connect, rand.New(rand.NewPCG(seed, 0)))
		require.NoError(t, err)
		defer tr.close()
		p, err := tr.start()
		require.NoError(t, err)
		defer func() { p.Kill() }()
		var all []recovery
		for range *flagRecovery {
			var took recovery
			took, p, err = tr.timeRecovery(p)
			require.NoError(t, err)
			all = append(all, took)
		}
		v, err := tr.finishWith(p)
		require.NoError(t, err)
		require.True(t, v.clean(false), v)
		fmt.Printf("recovery, transaction.version %d, interval 100ms, %d records/s, %d times, seed %d: %v\n",
			tv, partitions*tr.scenario.rate(), len(all), seed, v)
		spread("from kill -9 to the first record that was not visible before", all, func(r recovery) time.Duration { return r.visible })
		spread("from kill -9 to the first record that was written after it", all, func(r recovery) time.Duration { return r.fresh })
	})
}

func spread(what string, all []recovery, of func(recovery) time.Duration) {
	times := make([]time.Duration, len(all))
	for i, r := range all {
		times[i] = of(r).Round(time.Millisecond)
	}
	slices.Sort(times)
	if len(times) == 0 {
		return
	}
	fmt.Printf("  %s: min %v, median %v, worst %v\n", what, times[0], times[len(times)/2], times[len(times)-1])
}

// timeRecovery kills a pipeline after a while, starts another one at once, which it returns, and waits for what comes
// out.
func (tr *trial) timeRecovery(p *child.Process) (took recovery, next *child.Process, err error) {
	if err = tr.progress(p); err == nil {
		err = tr.followFor(p, 300*time.Millisecond+time.Duration(tr.rng.Int64N(int64(300*time.Millisecond))))
	}
	if err != nil {
		return took, p, tr.brokenRun(p, err)
	}
	tr.kills++
	began := time.Now()
	p.Kill()
	if next, err = tr.start(); err != nil {
		return took, p, err
	}
	// What was written by now the killed process may have read, and what is visible by now it has committed.
	written := tr.producer.soFar()
	visible, err := committedEnds(tr.cluster, tr.names.Out)
	if err != nil {
		return took, next, err
	}
	err = tr.followWith(next, tr.stall, func() bool { return took.visible > 0 && took.fresh > 0 }, func(r *kgo.Record) {
		tr.see(r)
		if took.visible == 0 && r.Offset >= visible[r.Partition] {
			took.visible = time.Since(began)
		}
		partition, n, err := numberOf(r)
		if err == nil && took.fresh == 0 && n >= written[partition] {
			took.fresh = time.Since(began)
		}
	})
	if err != nil {
		return took, next, tr.brokenRun(next, err)
	}
	return took, next, nil
}

// committedEnds is how far a read_committed reader sees each partition of a topic now.
func committedEnds(cluster *realkafka.Cluster, topic string) (devbroker.Fence, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stallLimit)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Bootstrap()...))
	if err != nil {
		return nil, fmt.Errorf("asking for the visible end of topic %q: %w", topic, err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("asking for the visible end of topic %q: %w", topic, err)
	}
	visible := devbroker.Fence{}
	ends.Each(func(o kadm.ListedOffset) { visible[o.Partition] = o.Offset })
	return visible, nil
}

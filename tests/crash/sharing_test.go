package crash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/child"
	"github.com/tidegate/tidegate/internal/devbroker"
	"github.com/tidegate/tidegate/internal/splits"
	"github.com/tidegate/tidegate/tests/binary"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// crew is a pipeline of several processes, each with a share of the partitions and a state of its own, all with one group,
// one prefix and one output.
type crew struct {
	// trial is what all of them read and write; it has no process itself.
	*trial
	hands []*hand
	// wrote are the producer ids that the output shows, each with the processes whose partitions it has written.
	wrote map[int64]map[int32]bool
	stops int
}

// hand is one process of a crew.
type hand struct {
	*trial
	share splits.Share
	p     *child.Process
}

// TestCrashKeepsSharesApart kills the processes of a pipeline that share its partitions, one at a time and all at once.
func TestCrashKeepsSharesApart(t *testing.T) {
	picked, kills := pickKind(sharing, *flagScenario), cmp.Or(*flagN, 20)
	if *flagScenario == "" {
		picked, kills = sharing[:1], 5
	}
	if len(picked) == 0 {
		t.Skip("the scenarios that are asked for are none of this test's")
	}
	connect := binary.Connect(t)
	eachVersion(t, func(t *testing.T, tv int) {
		cluster := clusterOf(t, tv)
		for _, s := range picked {
			t.Run(s.name, func(t *testing.T) { shareUnderKills(t, s, cluster, tv, connect, kills) })
		}
		if *flagScenario == "" {
			t.Run("would be noticed", func(t *testing.T) { overlap(t, newCrew(t, sharing[0], cluster, tv, connect, 1)) })
		}
	})
}

func shareUnderKills(t *testing.T, s scenario, cluster *realkafka.Cluster, tv int, connect string, kills int) {
	seed := seedOf(t)
	c := newCrew(t, s, cluster, tv, connect, seed)
	began := time.Now()
	require.NoError(t, c.startAll())
	for c.kills < kills {
		require.NoError(t, c.strike(), "%d of %d, seed %d", c.kills+1, kills, seed)
	}
	v, err := c.finish()
	fmt.Printf("%s: seed %d, transaction.version %d, SIGKILL %d times (%d while starting), SIGTERM %d times, %d producer ids, %v, longest pause %v, took %v\n",
		s.name, seed, tv, c.kills, c.early, c.stops, len(c.wrote), v, c.longestPause.Round(time.Millisecond), time.Since(began).Round(time.Second))
	require.NoError(t, err, "seed %d", seed)
	require.True(t, v.clean(false), "seed %d: %v", seed, v)
	require.Positive(t, v.in)
	require.NoError(t, c.keepApart(), "seed %d", seed)
}

func newCrew(t *testing.T, s scenario, cluster *realkafka.Cluster, tv int, connect string, seed uint64) *crew {
	tr, err := newTrial(s, namesOf(t, cluster, tv), cluster, connect, rand.New(rand.NewPCG(seed, 0)))
	require.NoError(t, err)
	c := &crew{trial: tr, wrote: map[int64]map[int32]bool{}}
	t.Cleanup(func() {
		for _, h := range c.hands {
			if h.p != nil {
				h.p.Kill()
			}
		}
		tr.close()
	})
	for i := range s.processes {
		one := *tr
		h := &hand{trial: &one, share: splits.Share{Parallelism: int32(s.processes), Index: int32(i)}}
		require.NoError(t, h.take(h.share))
		c.hands = append(c.hands, h)
	}
	return c
}

// take writes the config of a process with a share.
func (h *hand) take(share splits.Share) error {
	h.scenario.share = fmt.Sprintf("parallelism: %d, index: %d", share.Parallelism, share.Index)
	return h.moved(h.scenario, filepath.Join(h.names.Dir, fmt.Sprint(share.Index)))
}

func (h *hand) owns(p int32) bool {
	return h.share.Owns(splits.Partition{Topic: h.names.In, Partition: p})
}

func (h *hand) run() (err error) {
	h.p, err = h.start()
	return err
}

func (c *crew) startAll() error {
	for _, h := range c.hands {
		if err := h.run(); err != nil {
			return err
		}
	}
	return nil
}

// see takes a record of the output, and notes who has written it.
func (c *crew) see(r *kgo.Record) {
	c.trial.see(r)
	in, _, err := numberOf(r)
	if err != nil {
		return // the checker says so
	}
	if c.wrote[r.ProducerID] == nil {
		c.wrote[r.ProducerID] = map[int32]bool{}
	}
	for _, h := range c.hands {
		if h.owns(in) {
			c.wrote[r.ProducerID][h.share.Index] = true
		}
	}
}

// watch reads the output for a while, and fails where one of the processes ends.
func (c *crew) watch(limit time.Duration, done func() bool) error {
	end := time.Now().Add(limit)
	for !done() {
		step := min(100*time.Millisecond, time.Until(end))
		if step <= 0 {
			return errTimeUp
		}
		if err := c.followWith(c.hands[0].p, step, done, c.see); err != nil && !errors.Is(err, errTimeUp) && !errors.Is(err, errEnded) {
			return err
		}
		for _, h := range c.hands {
			if h.p.Ended() {
				return h.brokenRun(h.p, fmt.Errorf("process %d: %w", h.share.Index, errEnded))
			}
		}
	}
	return nil
}

func (c *crew) watchFor(d time.Duration) error {
	if err := c.watch(d, func() bool { return false }); !errors.Is(err, errTimeUp) {
		return err
	}
	return nil
}

// strike kills one process, or now and then all at once, or stops one, and starts it again. That comes while it starts up
// and recovers, or when something new of its partitions has come out.
func (c *crew) strike() error {
	struck := []*hand{c.hands[c.rng.IntN(len(c.hands))]}
	if c.rng.IntN(5) == 0 {
		struck = c.hands
	}
	if c.rng.IntN(3) == 0 {
		c.early++
		if err := c.watchFor(time.Duration(c.rng.Int64N(int64(700 * time.Millisecond)))); err != nil {
			return err
		}
	} else {
		for _, h := range struck {
			if err := c.progress(h); err != nil {
				return err
			}
		}
		if err := c.watchFor(time.Duration(c.rng.Int64N(int64(300 * time.Millisecond)))); err != nil {
			return err
		}
		if c.rng.IntN(5) == 0 {
			c.stops++
			if err := c.stop(struck[0]); err != nil {
				return err
			}
			return struck[0].run()
		}
	}
	for _, h := range struck {
		c.kills++
		h.p.Kill()
		if killedBy(h.p.Err()) != syscall.SIGKILL {
			return h.brokenRun(h.p, errEnded)
		}
	}
	for _, h := range struck {
		if err := h.run(); err != nil {
			return err
		}
	}
	return nil
}

// progress waits until a process runs and something new of its partitions has come out.
func (c *crew) progress(h *hand) error {
	if err := awaitWords(h.p, h.log(), h.logBefore, "sources and sinks are running"); err != nil {
		return err
	}
	seen := func() (n int) {
		for p, sights := range c.checker.sights {
			if h.owns(int32(p)) {
				n += len(sights)
			}
		}
		return n
	}
	before := seen()
	err := c.watch(c.stall, func() bool { return seen() > before })
	if errors.Is(err, errTimeUp) {
		return h.failed(fmt.Errorf("nothing new of process %d has come out for %s", h.share.Index, c.stall))
	}
	return err
}

// stop ends one process by SIGTERM: nothing of its is pending then, and the group is where its part of the output ends.
func (c *crew) stop(h *hand) error {
	h.p.Signal(syscall.SIGTERM)
	if err := c.followWith(h.p, exitLimit, func() bool { return false }, c.see); !errors.Is(err, errEnded) {
		return h.failed(fmt.Errorf("process %d goes on %s after SIGTERM", h.share.Index, exitLimit))
	}
	if err := h.p.Err(); err != nil {
		return h.failed(fmt.Errorf("a graceful stop: %w", err))
	}
	ctx, cancel := context.WithTimeout(context.Background(), stallLimit)
	defer cancel()
	if err := nothingPending(ctx, c.cluster.Bootstrap(), fmt.Sprintf("%s-%d", c.names.Prefix, h.share.Index)); err != nil {
		return h.failed(err)
	}
	offsets, err := c.committed(ctx)
	if err != nil {
		return err
	}
	if err := c.readOn(ctx); err != nil {
		return err
	}
	for p, offset := range offsets {
		if !h.owns(int32(p)) {
			continue
		}
		if err := c.checker.agrees(int32(p), offset); err != nil {
			return h.failed(fmt.Errorf("process %d after a graceful stop: %w", h.share.Index, err))
		}
	}
	return nil
}

// readOn reads the output up to where it ends now. The others go on writing.
func (c *crew) readOn(ctx context.Context) error {
	fence, err := devbroker.FenceOf(ctx, c.cluster.Bootstrap(), c.names.Out)
	if err != nil {
		return err
	}
	return c.observer.PollTo(ctx, fence, c.see)
}

// finish lets the processes copy all that was written, and stops them.
func (c *crew) finish() (verdict, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stallLimit)
	defer cancel()
	written, err := c.producer.end(ctx)
	if err != nil {
		return verdict{}, err
	}
	expected := c.checker.expected(written)
	for before := int64(-1); before < c.checker.distinct && c.checker.distinct < expected; {
		before = c.checker.distinct
		if err := c.watch(c.stall, func() bool { return c.checker.distinct > before }); err != nil {
			return c.checker.result(written), fmt.Errorf("after %d of %d records: %w", before, expected, err)
		}
	}
	for _, h := range c.hands {
		if err := c.stop(h); err != nil {
			return c.checker.result(written), err
		}
	}
	return c.checker.result(written), c.checkStopped()
}

// keepApart checks that each transactional id has one process's number, and that a producer id has written only what its
// process reads.
func (c *crew) keepApart() error {
	ctx, cancel := context.WithTimeout(context.Background(), stallLimit)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.cluster.Bootstrap()...))
	if err != nil {
		return fmt.Errorf("listing transactions: %w", err)
	}
	defer client.Close()
	all, err := kadm.NewClient(client).ListTransactions(ctx, nil, nil)
	if err != nil {
		return fmt.Errorf("listing transactions: %w", err)
	}
	ids := make([]int, len(c.hands))
	for _, tx := range all.Sorted() {
		rest, ours := strings.CutPrefix(tx.TxnID, c.names.Prefix+"-")
		if !ours {
			continue
		}
		i := slices.IndexFunc(c.hands, func(h *hand) bool { return strings.HasPrefix(rest, fmt.Sprintf("%d-", h.share.Index)) })
		if i < 0 {
			return fmt.Errorf("transactional id %s is no process's", tx.TxnID)
		}
		ids[i]++
		for index := range c.wrote[tx.ProducerID] {
			if index != c.hands[i].share.Index {
				return fmt.Errorf("transactional id %s, producer id %d, has written records of process %d", tx.TxnID, tx.ProducerID, index)
			}
		}
	}
	if slices.Contains(ids, 0) {
		return fmt.Errorf("the processes have %v transactional ids", ids)
	}
	for id, by := range c.wrote {
		if len(by) != 1 {
			return fmt.Errorf("producer id %d has written for %d processes", id, len(by))
		}
	}
	return nil
}

// overlap has one process read all partitions, beside the one that reads some of them: the trial notices.
func overlap(t *testing.T, c *crew) {
	h := c.hands[1]
	// By the prefix and the group of the other one it would be refused.
	h.names.Prefix += "-other"
	h.names.Group += "-other"
	require.NoError(t, h.take(splits.Whole()))
	require.NoError(t, c.startAll())
	require.NoError(t, c.watch(c.stall, func() bool { return c.checker.found.doubled > 0 }))
}

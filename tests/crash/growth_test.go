package crash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/child"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// pointWait is how long a moment after a new partition is waited for.
const pointWait = 5 * time.Second

// points are moments between a discovery and the checkpoint that holds its partitions.
func (g *grower) points() []string {
	switch {
	case g.scenario.solo != "":
		return soloPoints
	case g.scenario.stumbles:
		return slices.Concat(restartPoints, discoveryPoints)
	}
	return discoveryPoints
}

var discoveryPoints = []string{
	"discovery/found", "discovery/taken up", "discovery/taken up>running/event/Drained", "discovery/taken up>running/action/Seal",
	"discovery/taken up>running/action/Write", "discovery/taken up>running/event/WriteDone", "discovery/taken up>running/action/Commit",
}

// restartPoints are around the failover that follows a discovery.
var restartPoints = []string{
	"discovery/taken up>restart/action/Write", "discovery/taken up>restart/event/WriteDone", "restart/event/WriteDone>discovery/found",
	"restart/event/WriteDone>discovery/taken up",
}

var soloPoints = []string{"discovery/found", "discovery/committed", "discovery/taken up"}

// TestCrashKeepsNewPartitions adds partitions to the input while the pipeline runs, while it is down, and while it is killed
// between their discovery and the checkpoint that holds them.
func TestCrashKeepsNewPartitions(t *testing.T) {
	picked, kills, stops := pickGrowing(*flagScenario), cmp.Or(*flagN, 20), (cmp.Or(*flagN, 20)+1)/2
	if *flagScenario == "" {
		picked, kills, stops = growing[:1], 4, 2
	}
	if len(picked) == 0 {
		t.Skip("the scenarios that are asked for are none of this test's")
	}
	connect := killable(t)
	eachVersion(t, func(t *testing.T, tv int) {
		cluster := clusterOf(t, tv)
		for _, s := range picked {
			t.Run(s.name, func(t *testing.T) { growUnderKills(t, s, cluster, tv, connect, kills, stops) })
		}
	})
}

func growUnderKills(t *testing.T, s scenario, cluster *realkafka.Cluster, tv int, connect string, kills, stops int) {
	seed := seedOf(t)
	n := namesOf(t, cluster, tv)
	commitBeginnings(t, cluster, n)
	tr, err := newTrial(s, n, cluster, connect, rand.New(rand.NewPCG(seed, 0)))
	require.NoError(t, err)
	defer tr.close()
	g := &grower{trial: tr, hits: map[string]int{}}
	began := time.Now()
	// Before anything is durable the start has not happened: what is there then is no new partition.
	require.NoError(t, g.settle())
	for i := range kills + stops {
		require.NoError(t, g.strike(i, i >= kills), "%d of %d, seed %d", i+1, kills+stops, seed)
	}
	v, err := tr.finish()
	tr.summarize(syscall.SIGKILL, seed, v, time.Since(began))
	text, _ := os.ReadFile(tr.log())
	found := strings.Count(string(text), "new partitions discovered") + strings.Count(string(text), "from their beginning again")
	fmt.Printf("%s: %d partitions in the end, %d discoveries logged, killed at %v\n", s.name, tr.producer.open.Load(), found, g.hits)
	require.NoError(t, err, "seed %d", seed)
	require.True(t, v.clean(s.repeats), "seed %d: %v", seed, v)
	require.Greater(t, tr.producer.open.Load(), int32(partitions))
	require.Positive(t, found)
	require.NotEmpty(t, g.hits)
}

// commitBeginnings commits the beginning of the first partitions.
func commitBeginnings(t *testing.T, cluster *realkafka.Cluster, n names) {
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Bootstrap()...))
	require.NoError(t, err)
	defer client.Close()
	var os kadm.Offsets
	for p := range int32(partitions) {
		os.AddOffset(n.In, p, 0, -1)
	}
	require.NoError(t, kadm.NewClient(client).CommitAllOffsets(t.Context(), n.Group, os))
}

// sourcesRun is what the pipeline says when its source knows where it begins, with checkpoints or without.
const sourcesRun = "sources and sinks are running"

// grower is a trial whose input gets partitions.
type grower struct {
	*trial
	// hits counts the points at which the pipeline was killed.
	hits map[string]int
}

// settle runs the pipeline until a checkpoint has been committed, and kills it.
func (g *grower) settle() error {
	p, err := g.start()
	if err != nil {
		return err
	}
	defer p.Kill()
	if err := g.progress(p); err != nil {
		return g.brokenRun(p, err)
	}
	return nil
}

func (g *grower) grow() error {
	ctx, cancel := context.WithTimeout(context.Background(), stallLimit)
	defer cancel()
	return g.producer.grow(ctx)
}

// strike adds a partition before a run, or in it, and ends the run: by SIGTERM, by a kill at a random moment, or by one at a
// point of the discovery.
func (g *grower) strike(i int, gracefully bool) error {
	point := ""
	if !gracefully && i%2 == 0 {
		point = g.points()[(i/2)%len(g.points())]
	}
	early := g.rng.IntN(3) == 0
	if early {
		if err := g.grow(); err != nil {
			return err
		}
	}
	p, err := g.start("TIDEGATE_KILL_AT=" + point)
	if err != nil {
		return err
	}
	defer p.Kill()
	g.kills++
	// What comes out may be of the process before, and so is no sign that this one has looked at the partitions.
	if err = awaitWords(p, g.log(), g.logBefore, sourcesRun); err == nil {
		err = g.progress(p)
	}
	if err == nil && (!early || point != "") {
		err = g.grow()
	}
	switch {
	case point != "" && (err == nil || errors.Is(err, errEnded)):
		return g.awaitPoint(p, point)
	case err != nil:
		return g.brokenRun(p, err)
	}
	// Before the next discovery, or after it, before the checkpoint, or after it.
	if err := g.followFor(p, time.Duration(g.rng.Int64N(int64(600*time.Millisecond)))); err != nil {
		return g.brokenRun(p, err)
	}
	if gracefully {
		return g.stop(p)
	}
	return nil
}

// awaitPoint waits until the pipeline dies at a point. One that does not come has it killed anyway.
func (g *grower) awaitPoint(p *child.Process, point string) error {
	if err := g.followFor(p, pointWait); err != nil && !errors.Is(err, errEnded) {
		return g.failed(err)
	}
	switch {
	case !p.Ended():
	case killedBy(p.Err()) == syscall.SIGKILL:
		g.hits[point]++
	default:
		return g.brokenRun(p, errEnded)
	}
	return nil
}

func TestScenariosThatGrowAreKnownByName(t *testing.T) {
	require.Len(t, pickGrowing("discovery"), len(growing))
	require.Len(t, pickGrowing("copy,discovery/failover"), 1)
	require.Empty(t, pickGrowing("copy"))
	for _, s := range pickGrowing("all") {
		picked, _, _, err := split(s.name)
		require.NoError(t, err)
		require.Empty(t, picked)
		text, err := s.config(names{Dir: "/tmp/x", Prefix: "p"})
		require.NoError(t, err)
		require.Contains(t, string(text), "discovery_interval: 200ms")
	}
}

package crash

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/tests/realkafka"
)

var flagSteps = flag.String("crash.steps", "", "kill at every step of the protocol whose name matches this, or all; empty: at a few of them")

// Where no steps are asked for, so many are tried, each with one outcome.
const fewSteps = 4

// The scenarios of the steps: each adds the steps that those before it do not have.
var (
	stepsOfCopy  = scenario{name: "copy", store: pebbleStore, checkpoint: everySome, sink: exactlyOnce, processors: asIs}
	stepsOfFiles = scenario{
		name: "files", store: filesStore, checkpoint: everySome, sink: exactlyOnce, processors: asIs,
	}
	// In every process of this one, one message is refused, which ends the attempt.
	stepsOfFailover = scenario{
		name: "failover", store: pebbleStore, checkpoint: everySome, sink: exactlyOnce, refusing: true,
		processors: `
    - mapping: 'root = if count("messages") == 300 { throw("refused once") } else { content() }'`,
	}
)

// ways of dying at a step.
type outcome uint8

const (
	// once is a restart at once.
	once outcome = iota
	// twice is a second kill, somewhere else, before the pipeline comes to itself.
	twice
	// down is a restart only after the broker has aborted what was open.
	down
)

var outcomes = []outcome{once, twice, down}

func (o outcome) String() string { return [...]string{"once", "twice", "down past timeout"}[o] }

// workers is how many pipelines go through the steps at a time: those of down mostly wait.
func (o outcome) workers() int {
	if o == down {
		return 6
	}
	return 2
}

// shaped is the scenario with what the outcome needs.
func (o outcome) shaped(s scenario) scenario {
	if o == down {
		s.checkpoint += "\n      timeout: 4s"
		s.sink += "\n    transactions: { timeout: 6s, on_lost_transaction: replay }"
		s.perSecond = 50
	}
	return s
}

func TestCrashAtEveryStepLosesAndDoublesNothing(t *testing.T) {
	expression := *flagSteps
	if expression == "all" {
		expression = ""
	}
	matching, err := regexp.Compile(expression)
	require.NoError(t, err)
	connect := killable(t)
	eachVersion(t, func(t *testing.T, tv int) {
		seed := seedOf(t)
		b := &stepBench{
			t: t, cluster: clusterOf(t, tv), tv: tv, connect: connect, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)),
			table: newTable(),
		}
		began := time.Now()
		b.run(matching)
		fmt.Printf("\nSIGKILL at every step, transaction.version %d, seed %d, took %v\n%s\n", tv, seed, time.Since(began).Round(time.Second), b.table)
		require.Empty(t, b.table.failures(), "seed %d", seed)
		require.Positive(t, b.table.hits(), "seed %d", seed)
	})
}

// stepBench goes through the steps on one cluster.
type stepBench struct {
	t       *testing.T
	cluster *realkafka.Cluster
	tv      int
	connect string
	seed    uint64
	rng     *rand.Rand
	table   *table
}

func (b *stepBench) run(matching *regexp.Regexp) {
	known := map[string]bool{}
	list := []scenario{stepsOfCopy, stepsOfFiles, stepsOfFailover}
	if *flagSteps == "" {
		list = list[:1]
	}
	for _, s := range list {
		points := slices.DeleteFunc(b.explore(s), func(p point) bool { return known[p.name] || !matching.MatchString(p.name) })
		for _, p := range points {
			known[p.name] = true
		}
		if *flagSteps == "" {
			b.rng.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
			b.all(s, once, points[:fewSteps])
			b.all(s, down, points[fewSteps:fewSteps+1])
			return
		}
		for _, o := range outcomes {
			b.all(s, o, points)
		}
	}
}

// all kills at each point.
func (b *stepBench) all(s scenario, o outcome, points []point) {
	if len(points) == 0 {
		return
	}
	queue := make(chan point, len(points))
	for _, p := range points {
		queue <- p
	}
	close(queue)
	var wg sync.WaitGroup
	for i := range min(o.workers(), len(points)) {
		rng := rand.New(rand.NewPCG(b.seed, uint64(i)+1))
		wg.Go(func() { b.work(o.shaped(s), o, points, queue, rng) })
	}
	wg.Wait()
}

// work takes points from the queue. After a finding it goes on with a new pipeline, so that one fault does not hide others.
func (b *stepBench) work(s scenario, o outcome, points []point, queue <-chan point, rng *rand.Rand) {
	var st *steps
	defer func() {
		if st != nil {
			st.close()
		}
	}()
	for p := range queue {
		if st == nil {
			var err error
			if st, err = newSteps(b, s, rng); err != nil {
				b.t.Errorf("%s, %s: %v", p.name, o, err)
				return
			}
		}
		c := st.try(o, p, points)
		b.table.set(p.name, o, c)
		if c.err != nil || !c.clean() {
			fmt.Printf("FAILED %s, %s, transaction.version %d: %v %v\n", p.name, o, b.tv, c, c.err)
			st.close()
			st = nil
		}
	}
}

// explore has a pipeline note its steps: a first start and a stop, a start after it and a kill, a start after that and
// a stop. Those after the request to stop are points of their own.
func (b *stepBench) explore(s scenario) []point {
	st, err := newSteps(b, s, b.rng)
	require.NoError(b.t, err)
	defer st.close()
	list := filepath.Join(st.names.Dir, "steps")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM} {
		require.NoError(b.t, st.exploreRun(list, sig))
	}
	text, err := os.ReadFile(list)
	require.NoError(b.t, err)
	var points []point
	stopping := false
	for line := range strings.SplitSeq(string(bytes.TrimSpace(text)), "\n") {
		points = append(points, stepPoint(line))
		switch {
		case line == closing:
			stopping = true
		case strings.HasPrefix(line, "new/"):
			stopping = false
		case stopping:
			points = append(points, stopPoint(line))
		}
	}
	if s.name == stepsOfCopy.name {
		points = append(points, sentPoints(b.tv)...)
	}
	slices.SortFunc(points, func(a, b point) int { return strings.Compare(a.name, b.name) })
	return slices.CompactFunc(points, func(a, b point) bool { return a.name == b.name })
}

func (st *steps) exploreRun(list string, sig syscall.Signal) error {
	p, err := st.start("TIDEGATE_KILL_LIST=" + list)
	if err != nil {
		return err
	}
	defer p.Kill()
	// Long enough for what comes only after a while, such as the failover.
	for range 3 {
		if err := st.progress(p); err != nil {
			return st.brokenRun(p, err)
		}
	}
	if err := st.followFor(p, stepWait); err != nil {
		return st.brokenRun(p, err)
	}
	if sig == syscall.SIGKILL {
		p.Kill()
		return nil
	}
	p.Signal(sig)
	if err := st.followFor(p, exitLimit); !errors.Is(err, errEnded) {
		return st.failed(fmt.Errorf("the pipeline goes on after %v: %w", sig, err))
	}
	return nil
}

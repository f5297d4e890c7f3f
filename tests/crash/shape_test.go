package crash

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/tests/binary"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// fewShapes are those that `make test` runs.
var fewShapes = []string{"switch", "input-broker", "ending/refused-at-the-end"}

// TestShapesKeepTheirPromise kills pipelines of every shape at random.
func TestShapesKeepTheirPromise(t *testing.T) {
	picked := pickShapes(*flagScenario)
	kills := cmp.Or(*flagN, 10)
	if *flagScenario == "" {
		kills = 1
		for _, name := range fewShapes {
			picked = append(picked, pickShapes(name)...)
		}
	}
	if len(picked) == 0 {
		t.Skip("the scenarios that are asked for are none of this test's")
	}
	signals := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}
	switch *flagSignal {
	case "KILL":
		signals = signals[:1]
	case "TERM":
		signals = signals[1:]
	}
	connect := binary.Connect(t)
	eachVersion(t, func(t *testing.T, tv int) {
		b := &shapeBench{cluster: clusterOf(t, tv), elsewhere: sync.OnceValue(func() *realkafka.Cluster {
			return realkafka.Start(t, optionsOf(t, tv))
		}), tv: tv, connect: connect, signals: signals, kills: kills, seed: seedOf(t)}
		t.Run("all", func(t *testing.T) {
			for i, s := range picked {
				t.Run(s.name, func(t *testing.T) {
					t.Parallel()
					b.try(t, s, uint64(i))
				})
			}
		})
		fmt.Print(b.table())
		for _, r := range b.rows {
			require.NoError(t, r.err, "%s", r.scenario.name)
		}
	})
}

// shapeBench tries shapes on one cluster.
type shapeBench struct {
	cluster *realkafka.Cluster
	// elsewhere starts another cluster, once.
	elsewhere func() *realkafka.Cluster
	tv        int
	connect   string
	// signals are what pipelines are ended by, in turn.
	signals []syscall.Signal
	kills   int
	seed    uint64

	mu   sync.Mutex
	rows []shapeRow // guarded by mu
}

// shapeRow is what has become of one shape.
type shapeRow struct {
	scenario scenario
	order    uint64
	kills    int
	verdict  verdict
	sides    []string
	pause    time.Duration
	err      error
}

// try kills pipelines of one shape and notes what has become of the records.
func (b *shapeBench) try(t *testing.T, s scenario, order uint64) {
	row := shapeRow{scenario: s, order: order}
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.rows = append(b.rows, row)
		if row.err != nil {
			fmt.Printf("FAILED %s, seed %d: %v\n", s.name, b.seed, row.err)
		}
	}()
	if s.bounded != "" && s.refusal == "" {
		row.err = b.tryBounded(t, s, &row)
		fmt.Printf("%s: seed %d, transaction.version %d, SIGKILL %d times, %v, %v\n", s.name, b.seed, b.tv, row.kills, row.verdict, row.sides)
		return
	}
	n := b.namesOf(t, s)
	called := s.calls(&n)
	defer called.close()
	tr, err := newTrial(s, n, b.cluster, b.connect, rand.New(rand.NewPCG(b.seed, order)))
	if row.err = err; err != nil {
		return
	}
	defer tr.close()
	tr.callee = called
	began := time.Now()
	if s.refusal != "" {
		row.err = tr.refusedAtStart()
		return
	}
	for i := range b.kills {
		if err := tr.strike(b.signals[i%len(b.signals)]); err != nil {
			row.err = fmt.Errorf("start %d of %d: %w", i+1, b.kills, err)
			break
		}
	}
	row.kills = tr.kills
	if row.err == nil {
		row.verdict, row.err = tr.finishRunning()
	} else {
		row.verdict = tr.checker.found
	}
	switch {
	case row.err != nil:
		row.err = fmt.Errorf("%w\nuntil then: %v", row.err, row.verdict)
	case !s.kept(row.verdict):
		row.err = tr.failed(fmt.Errorf("promised %s, and came: %v", s.promise(), row.verdict))
	case row.verdict.in == 0:
		row.err = tr.failed(errors.New("nothing was written"))
	}
	if row.err == nil {
		row.sides, row.err = tr.lookAside()
	}
	if s.ends {
		row.sides = append(row.sides, fmt.Sprintf("ended by itself %d times, %d times with its last checkpoint",
			tr.endedWhole+tr.endedEarly, tr.endedWhole))
		if row.err == nil && tr.endedWhole == 0 {
			row.err = tr.failed(errors.New("it never ended by itself with its last checkpoint"))
		}
	}
	row.pause = tr.longestPause
	tr.summarize(b.signals[0], b.seed, row.verdict, time.Since(began))
}

// finishRunning is finish after the last pipeline has run for a while.
func (tr *trial) finishRunning() (verdict, error) {
	p, err := tr.start()
	if err != nil {
		return verdict{}, err
	}
	defer p.Kill()
	if err := tr.progress(p); err != nil && !tr.endedWell(p) {
		return tr.checker.found, tr.brokenRun(p, err)
	}
	if err := tr.followFor(p, time.Second); err != nil && !tr.endedWell(p) {
		return tr.checker.found, tr.brokenRun(p, err)
	}
	return tr.finishWith(p)
}

func (b *shapeBench) namesOf(t *testing.T, s scenario) names {
	n := namesOf(t, b.cluster, b.tv)
	n.In2, n.Out2 = b.cluster.Topic(t, partitions), b.cluster.Topic(t, partitions)
	if strings.Contains(s.output, "abroad") {
		other := b.elsewhere()
		n.Elsewhere, n.Abroad = connectionTo(other), other.Topic(t, partitions)
	}
	return n
}

// table is a line for each shape.
func (b *shapeBench) table() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.SortFunc(b.rows, func(a, b shapeRow) int { return cmp.Compare(a.order, b.order) })
	var out strings.Builder
	line := "%-30s %-45s %6v %8v %8v %6v %8v %8v %8v %s\n"
	fmt.Fprintf(&out, "\ntransaction.version %d, seed %d\n", b.tv, b.seed)
	fmt.Fprintf(&out, line, "shape", "promise", "killed", "in", "out", "lost", "doubled", "disorder", "pause", "")
	kept := 0
	for _, r := range b.rows {
		v, words := r.verdict, strings.Join(r.sides, ", ")
		if r.err != nil {
			words = "FAILED"
		} else {
			kept++
		}
		fmt.Fprintf(&out, line, r.scenario.name, r.scenario.promise(), r.kills, v.in, v.out, v.lost, v.doubled, v.disordered,
			r.pause.Round(10*time.Millisecond), words)
	}
	fmt.Fprintf(&out, "%d of %d shapes kept their promise\n", kept, len(b.rows))
	return out.String()
}

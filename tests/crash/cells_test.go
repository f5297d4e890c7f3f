package crash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/tests/binary"
)

// usually are the cells that are tried where none is asked for by name: those whose parts no other test puts together.
var usually = []string{"exactly-once/at-least-once/mixed", "at-least-once/none/ours", "unset/exactly-once/mixed"}

// TestCrashKeepsWhatTheTableOfGuaranteesSays kills and stops the job of each cell of the table in docs/guarantees.md.
// A kill may take and repeat what the cell says; a stop takes nothing.
func TestCrashKeepsWhatTheTableOfGuaranteesSays(t *testing.T) {
	all := slices.Contains(strings.Split(*flagScenario, ","), "table") || *flagScenario == "all"
	if *flagScenario != "" && !all {
		t.Skip("the scenarios that are asked for do not include table")
	}
	kills, stops := 2, 1
	if *flagN > 0 {
		kills, stops = *flagN, (*flagN+2)/3
	}
	connect := binary.Connect(t)
	eachVersion(t, func(t *testing.T, tv int) {
		for _, g := range guarantees() {
			if !all && g.refusal == "" && !slices.Contains(usually, g.name()) {
				continue
			}
			t.Run(g.name(), func(t *testing.T) {
				t.Parallel()
				c := newCellTrial(t, g, tv, connect)
				if g.refusal != "" {
					c.isRefused(t)
					return
				}
				c.suffer(t, kills, stops)
			})
		}
	})
}

// TestTableOfGuaranteesIsWhatTheTestsHold: the page says of each cell what its test holds.
func TestTableOfGuaranteesIsWhatTheTestsHold(t *testing.T) {
	page, err := os.ReadFile("../../docs/guarantees.md")
	require.NoError(t, err)
	require.Contains(t, string(page), guaranteeTable())
	require.Len(t, guarantees(), 21)
}

// TestJudgeOfACellFindsWhatBreaksItsPromise gives the judges a record that is lost, there twice, or there in part.
func TestJudgeOfACellFindsWhatBreaksItsPromise(t *testing.T) {
	count := func(g guarantee, safe int64, seen map[string]int) cellCount {
		return judgeOurs(g.ours, []int64{4}, []int64{safe}, seen)
	}
	strict, lossy := promised(onceOnly, onceOnly, oursAlone), promised(unset, none, oursAlone)
	four := map[string]int{"ours/0/0": 1, "ours/0/1": 1, "ours/0/2": 1, "ours/0/3": 1}
	require.Equal(t, cellCount{due: 4}, count(strict, 2, four))
	require.Equal(t, cellCount{due: 4, lost: 1, broken: 1}, count(strict, 2, map[string]int{"ours/0/0": 1, "ours/0/2": 1, "ours/0/3": 1}))
	require.Equal(t, cellCount{due: 4, lost: 1}, count(lossy, 2, map[string]int{"ours/0/0": 1, "ours/0/2": 1, "ours/0/3": 1}))
	require.Equal(t, cellCount{due: 4, lost: 1, broken: 1}, count(lossy, 1, map[string]int{"ours/0/0": 1, "ours/0/2": 1, "ours/0/3": 1}),
		"what was written after the last kill may not be lost")
	four["ours/0/3"] = 2
	require.Equal(t, cellCount{due: 4, doubled: 1, broken: 1}, count(strict, 2, four))
	require.Equal(t, cellCount{due: 4, doubled: 1}, count(lossy, 2, four))

	sent := map[string]*request{"a": {times: 1, answered: true}}
	others := func(sink string, safe map[string]bool, seen map[string]int) int64 {
		return judgeOthers(promised(unset, sink, othersAlone).others, sent, safe, seen).broken
	}
	require.Zero(t, others(onceOnly, nil, map[string]int{"a/0": 1, "a/1": 1, "a/2": 1}))
	require.NotZero(t, others(onceOnly, nil, nil), "lost")
	require.NotZero(t, others(atLeastOnce, nil, map[string]int{"a/0": 1, "a/1": 1}), "lost in part")
	require.NotZero(t, others(atLeastOnce, nil, map[string]int{"a/0": 2, "a/1": 2, "a/2": 2}), "more often than it was sent")
	require.NotZero(t, others(none, nil, nil), "answered after the last kill")
	require.Zero(t, others(none, map[string]bool{"a": true}, nil))
	sent["a"].answered = false
	require.Zero(t, others(atLeastOnce, nil, map[string]int{"a/0": 1}))
	require.NotZero(t, others(onceOnly, nil, map[string]int{"a/0": 1}), "there in part")
}

// cellTrial is the job of a cell under way.
type cellTrial struct {
	cell     guarantee
	w        *writes
	seed     uint64
	producer *producer
	senders  *sender
	// Taken after the last kill: how much was written by then, and what was answered.
	written  []int64
	answered map[string]bool
}

func newCellTrial(t *testing.T, g guarantee, tv int, connect string) *cellTrial {
	cluster := clusterOf(t, tv)
	n := namesOf(t, cluster, tv)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	c := &cellTrial{cell: g, seed: seedOf(t)}
	c.w, err = newWrites(n, cluster, connect, address, guaranteeText(g), rand.New(rand.NewPCG(c.seed, 0)))
	require.NoError(t, err)
	t.Cleanup(c.w.observer.Close)
	return c
}

func (c *cellTrial) isRefused(t *testing.T) {
	p, err := c.w.start()
	require.NoError(t, err)
	defer p.Kill()
	require.ErrorIs(t, c.w.pass(p, exitLimit, func() bool { return false }), errEnded)
	code, _ := lastWords(p, c.w.log())
	require.Equal(t, 1, code)
	text, err := os.ReadFile(c.w.log())
	require.NoError(t, err)
	require.Contains(t, string(text), c.cell.refusal)
}

// suffer kills the job, then stops it, runs it once more, and counts.
func (c *cellTrial) suffer(t *testing.T, kills, stops int) {
	var err error
	if c.cell.input != othersAlone {
		c.producer, err = startProducer(c.w.cluster.Bootstrap(), []string{c.w.names.In}, partitions, 500, nil)
		require.NoError(t, err)
		defer c.producer.stop()
	}
	if c.cell.input != oursAlone {
		c.senders = newSender("http://"+c.w.address+"/in", 0)
		defer c.senders.stop()
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	watched := make(chan error, 1)
	go func() { watched <- c.w.watch(ctx) }()
	for i := range kills {
		require.NoError(t, c.w.strike(syscall.SIGKILL, false), "kill %d of %d, seed %d", i+1, kills, c.seed)
	}
	c.noteWhatKillsMayHaveTaken()
	for i := range stops {
		require.NoError(t, c.w.strike(syscall.SIGTERM, false), "stop %d of %d, seed %d", i+1, stops, c.seed)
	}
	p, err := c.w.start()
	require.NoError(t, err)
	defer p.Kill()
	require.NoError(t, c.w.progress(p))
	due := c.end(t)
	require.NoError(t, c.w.pass(p, stallLimit, func() bool { return c.through(due) }), "seed %d", c.seed)
	require.NoError(t, c.w.stop(p))
	cancel()
	if err := <-watched; !errors.Is(err, context.Canceled) {
		require.NoError(t, err)
	}
	require.NoError(t, c.w.readToEnd())
	c.judge(t, due)
}

func (c *cellTrial) noteWhatKillsMayHaveTaken() {
	c.answered = map[string]bool{}
	if c.producer != nil {
		c.written = c.producer.soFar()
	}
	if c.senders == nil {
		return
	}
	c.senders.mu.Lock()
	defer c.senders.mu.Unlock()
	for name, r := range c.senders.sent {
		c.answered[name] = r.answered
	}
}

// end lets every sender get its last answer, and returns how many records of our source each partition has.
func (c *cellTrial) end(t *testing.T) (due []int64) {
	if c.senders != nil {
		c.senders.stop()
	}
	if c.producer != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stallLimit)
		defer cancel()
		var err error
		due, err = c.producer.end(ctx)
		require.NoError(t, err)
	}
	return due
}

// through tells whether the last record of each partition has come out. It was written after the last kill.
func (c *cellTrial) through(due []int64) bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	for partition, n := range due {
		if c.w.seen[ours(partition, n-1)] == 0 {
			return false
		}
	}
	return true
}

func ours(partition int, n int64) string { return fmt.Sprintf("ours/%d/%d", partition, n) }

func (c *cellTrial) judge(t *testing.T, due []int64) {
	var ours, others cellCount
	if c.producer != nil {
		ours = judgeOurs(c.cell.ours, due, c.written, c.w.seen)
		require.Positive(t, ours.due)
	}
	if c.senders != nil {
		others = judgeOthers(c.cell.others, c.senders.sent, c.answered, c.w.seen)
		require.Positive(t, others.due)
	}
	fmt.Printf("%s: seed %d, transaction.version %d, %d kills and stops; ours: %v; others: %v\n",
		c.cell.name(), c.seed, c.w.names.TransactionVersion, c.w.kills, ours, others)
	require.Zero(t, ours.broken+others.broken, "seed %d", c.seed)
}

// cellCount is what became of the records of one input. broken is how many did not get what was promised to them.
type cellCount struct{ due, lost, doubled, broken int64 }

func (o cellCount) String() string {
	return fmt.Sprintf("due %d, lost %d, twice %d, against the promise %d", o.due, o.lost, o.doubled, o.broken)
}

// judgeOurs looks at the records of our source, of which those from written on came after the last kill.
func judgeOurs(p promise, due, written []int64, seen map[string]int) (o cellCount) {
	for partition, count := range due {
		for n := range count {
			o.due++
			switch times := seen[ours(partition, n)]; {
			case times == 0:
				o.lost++
				if p.lost == nothing || n >= written[partition] {
					o.broken++
				}
			case times > 1:
				o.doubled++
				if p.twice == nothing {
					o.broken++
				}
			}
		}
	}
	return o
}

// judgeOthers looks at requests of three records each, of which those in before were answered before the last kill.
func judgeOthers(p promise, sent map[string]*request, before map[string]bool, seen map[string]int) (o cellCount) {
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		r := sent[name]
		least, most := seen[name+"/0"], seen[name+"/0"]
		for _, piece := range []string{"/1", "/2"} {
			least, most = min(least, seen[name+piece]), max(most, seen[name+piece])
		}
		if r.answered {
			o.due++
		}
		lost := r.answered && least == 0
		if lost {
			o.lost++
		}
		if most > 1 {
			o.doubled++
		}
		if lost && (p.lost == nothing || !before[name]) || most > r.times || p.whole && least != most {
			o.broken++
		}
	}
	return o
}

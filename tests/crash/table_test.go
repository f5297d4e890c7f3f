package crash

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// cell is what became of the records after one way of dying at one point.
type cell struct {
	tried, hit bool
	// second is where the pipeline was killed again.
	second               string
	lost, doubled, wrong int64
	err                  error
}

func (c cell) clean() bool { return c.lost == 0 && c.doubled == 0 && c.wrong == 0 && c.err == nil }

func (c cell) String() string {
	switch {
	case !c.tried:
		return ""
	case c.err != nil:
		return fmt.Sprintf("%d / %d failed", c.lost, c.doubled)
	case c.wrong > 0:
		return fmt.Sprintf("%d / %d wrong %d", c.lost, c.doubled, c.wrong)
	case !c.hit:
		return "did not come"
	}
	return fmt.Sprintf("%d / %d", c.lost, c.doubled)
}

// table has a row for each point and a column for each outcome. Several goroutines fill it.
type table struct {
	mu   sync.Mutex
	rows map[string]*[3]cell // guarded by mu
}

func newTable() *table { return &table{rows: map[string]*[3]cell{}} }

func (tb *table) set(point string, o outcome, c cell) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if tb.rows[point] == nil {
		tb.rows[point] = &[3]cell{}
	}
	c.tried = true
	tb.rows[point][o] = c
}

func (tb *table) names() []string {
	names := make([]string, 0, len(tb.rows))
	for name := range tb.rows {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// failures are the cells that are not as they should be.
func (tb *table) failures() []string {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	var failed []string
	for _, name := range tb.names() {
		for _, o := range outcomes {
			if c := tb.rows[name][o]; c.tried && !c.clean() {
				failed = append(failed, fmt.Sprintf("%s, %s: %v %v", name, o, c, c.err))
			}
		}
	}
	return failed
}

func (tb *table) hits() (n int) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	for _, row := range tb.rows {
		for _, c := range row {
			if c.hit {
				n++
			}
		}
	}
	return n
}

// String is the table, and under it how often each way of dying came, and what it cost.
func (tb *table) String() string {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	width := len("kill point, lost / doubled")
	for name := range tb.rows {
		width = max(width, len(name))
	}
	var b strings.Builder
	line := func(first string, cells func(o outcome) string) {
		fmt.Fprintf(&b, "%-*s", width, first)
		for _, o := range outcomes {
			fmt.Fprintf(&b, "  %-18s", cells(o))
		}
		b.WriteByte('\n')
	}
	line("kill point, lost / doubled", func(o outcome) string { return o.String() })
	var hits [3]int
	var sums [3]cell
	for _, name := range tb.names() {
		row := tb.rows[name]
		line(name, func(o outcome) string { return row[o].String() })
		for _, o := range outcomes {
			sums[o].tried, sums[o].hit = sums[o].tried || row[o].tried, true
			sums[o].lost += row[o].lost
			sums[o].doubled += row[o].doubled
			if row[o].hit {
				hits[o]++
			}
		}
	}
	line(fmt.Sprintf("all %d", len(tb.rows)), func(o outcome) string { return sums[o].String() })
	line("killed there", func(o outcome) string { return fmt.Sprint(hits[o]) })
	return b.String()
}

func TestTableShowsAndFindsWhatIsLostAndDoubled(t *testing.T) {
	tb := newTable()
	tb.set("a", once, cell{hit: true})
	tb.set("a", down, cell{hit: true, lost: 2, doubled: 1})
	tb.set("b", once, cell{})
	tb.set("b", twice, cell{hit: true, wrong: 3})
	require.Equal(t, 3, tb.hits())
	require.Equal(t, []string{"a, down past timeout: 2 / 1 <nil>", "b, twice: 0 / 0 wrong 3 <nil>"}, tb.failures())
	var lines []string
	for line := range strings.Lines(tb.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	require.Equal(t, []string{
		"kill point, lost / doubled once twice down past timeout",
		"a 0 / 0 2 / 1",
		"b did not come 0 / 0 wrong 3",
		"all 2 0 / 0 0 / 0 2 / 1",
		"killed there 1 1 1",
	}, lines)
}

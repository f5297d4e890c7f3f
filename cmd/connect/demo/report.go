package demo

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/internal/devbroker"
)

// progress is a line that is written again and again.
type progress struct {
	out      io.Writer
	terminal bool
	began    time.Time
}

// every is how often a line is worth showing: a log of lines should stay short.
func (p *progress) every() time.Duration {
	if p.terminal {
		return 100 * time.Millisecond
	}
	return time.Second
}

func (p *progress) show(status string) {
	line := fmt.Sprintf("  %5.1f s  %s", time.Since(p.began).Seconds(), status)
	if p.terminal {
		fmt.Fprintf(p.out, "\r%s\x1b[K", line)
		return
	}
	fmt.Fprintln(p.out, line)
}

// end leaves the line as it stands.
func (p *progress) end() {
	if p.terminal {
		fmt.Fprintln(p.out)
	}
}

// result is the table's content.
type result struct {
	In int64
	devbroker.Counts
	Kills        int
	LongestPause time.Duration
}

func (r result) print(out io.Writer) {
	fmt.Fprintln(out)
	for _, row := range []struct{ name, value string }{
		{"records in", thousands(r.In)},
		{"expected out", thousands(r.Expected)},
		{"seen (read_committed)", thousands(r.Seen)},
		{"lost", thousands(r.Lost)},
		{"doubled", thousands(r.Doubled)},
		{"not expected", thousands(r.Foreign)},
		{"out of order", thousands(r.Disordered)},
		{"altered", thousands(r.Altered)},
		{"kills (SIGKILL)", strconv.Itoa(r.Kills)},
		{"longest pause", fmt.Sprintf("%.2f s", r.LongestPause.Seconds())},
	} {
		fmt.Fprintf(out, "  %-22s %12s\n", row.name, row.value)
	}
	fmt.Fprintln(out)
}

// thousands writes 200000 as 200,000.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

package crash

import (
	"fmt"
	"slices"
	"strings"
)

// measure is a number of a pulse that is to be flat: at the end not much more than soon after the start.
type measure struct {
	name string
	of   func(pulse) float64
	// factor and slack are how much more: start × factor + slack.
	factor, slack float64
	// slow is set where half a minute tells nothing: a heap is still finding its size.
	slow bool
	// filling is how much more it may be in a life of seconds, in which pools still fill.
	filling float64
}

const mb = 1 << 20

// measures are all that is looked at. The collector lets memory swing. Each transactional id has a client with a connection
// to each broker once it has needed it, and loses that with the broker: such come and go by a score.
var measures = []measure{
	{"RSS MB", func(p pulse) float64 { return float64(p.rss) / mb }, 1.2, 24, true, 0},
	{"goroutines", func(p pulse) float64 { return float64(p.goroutines) }, 1, 24, false, 64}, // an output starts up to 64 writers, each when it is needed
	{"files", func(p pulse) float64 { return float64(p.files) }, 1, 24, false, 0},
	{"connections", func(p pulse) float64 { return float64(p.connections) }, 1, 24, false, 0},
	{"state MB", func(p pulse) float64 { return float64(p.state) / mb }, 1.2, 6, false, 0},
}

// minPulses is how many pulses tell anything.
const minPulses = 10

// trend is what has become of one measure of a process.
type trend struct {
	measure
	// start is the median of the second fifth of its life, since the first one warms up; middle and end are those of the
	// third fifth and of the last tenth, peak is the highest.
	start, middle, end, peak float64
}

func (t trend) limit() float64 { return t.start*t.factor + t.slack }
func (t trend) flat() bool     { return t.end <= t.limit() }

// trendsOf are those of one process.
func trendsOf(pulses []pulse) (trends []trend) {
	n := len(pulses)
	for _, m := range measures {
		values := make([]float64, n)
		for i, p := range pulses {
			values[i] = m.of(p)
		}
		trends = append(trends, trend{
			measure: m, start: median(values[n/5 : 2*n/5]), middle: median(values[2*n/5 : 3*n/5]),
			end: median(values[n-max(1, n/10):]), peak: slices.Max(values),
		})
	}
	return trends
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}

// judgeFlat returns a table of a process's measures, and what is not flat among them; short tells that it lived for seconds.
func judgeFlat(job string, pulses []pulse, short bool) (table string, rising []string) {
	if len(pulses) < minPulses {
		return "", []string{fmt.Sprintf("%s: only %d pulses, which tell nothing; let it run longer", job, len(pulses))}
	}
	var out strings.Builder
	for _, t := range trendsOf(pulses) {
		if short {
			t.slack += t.filling
		}
		verdict := "flat"
		switch {
		case short && t.slow:
			verdict = "too short to tell"
		case !t.flat():
			verdict = "RISING"
			rising = append(rising, fmt.Sprintf("%s: %s rose from %.1f to %.1f, and %.1f is the limit", job, t.name, t.start, t.end, t.limit()))
		}
		fmt.Fprintf(&out, flatLine, job, t.name, num(t.start), num(t.middle), num(t.end), num(t.peak), num(t.limit()), verdict)
	}
	return out.String(), rising
}

const flatLine = "%-18s %-12s %9s %9s %9s %9s %9s  %s\n"

func num(v float64) string {
	if v == float64(int64(v)) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// flatHead is the first line of such tables.
func flatHead() string {
	return fmt.Sprintf(flatLine, "job", "", "start", "middle", "end", "peak", "limit", "")
}

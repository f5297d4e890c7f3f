package parity

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// parityCase is one job and what happens around it.
type parityCase struct {
	// file is the golden's, and name tells what the case is about; together they are unique.
	file, name string
	// ids are those of the reference's cases that it decides.
	ids string
	// Exactly one of topics, pattern and partitions. All name topics as the table does; a partition is topic:number.
	topics     []string
	pattern    string
	partitions []string
	// group is one of groups, or empty for none.
	group         string
	start, stop   position
	readCommitted bool
	// checkpoints turns them on; committed asks for the group's offsets at the end.
	checkpoints, committed bool
	// discovery is the interval; 0 for none given, less than 0 for off.
	discovery time.Duration
	// own gives the case topics and a group of its own, since it changes them: those it reads, or those of made.
	own   bool
	made  []string
	steps []step
	// differs says why we do not do as Flink does, and ours what we do instead.
	differs string
	ours    *outcome
}

// position is a start or a stop, in Flink's words.
type position struct {
	mode      string
	timestamp int64
	// specific is Flink's string, offsets the map of its API, by topic:number.
	specific string
	offsets  map[string]int64
	// reset replaces what is not there; empty for Flink's default.
	reset string
	// keepRunning is Flink's setUnbounded.
	keepRunning bool
}

var (
	earliest, latest = position{mode: "earliest-offset"}, position{mode: "latest-offset"}
	groupOffsets     = position{mode: "group-offsets"}
)

func timestamp(ms int64) position       { return position{mode: "timestamp", timestamp: ms} }
func specific(s string) position        { return position{mode: "specific-offsets", specific: s} }
func (p position) or(r string) position { p.reset = r; return p }
func (p position) running() position    { p.keepRunning = true; return p }

func at(offsets map[string]int64) position {
	return position{mode: "specific-offsets", offsets: offsets}
}

// every is Flink's string with an offset for each of the partitions 0 to n-1.
func every(n int, offset func(p int) int) position {
	parts := make([]string, n)
	for p := range parts {
		parts[p] = fmt.Sprintf("partition:%d,offset:%d", p, offset(p))
	}
	return specific(strings.Join(parts, ";"))
}

// outcome is what a job did, with the table's names of topics.
type outcome struct {
	// End is "ended", "failed" or "running".
	End string `json:"end"`
	// Kind is the kind of a failure, Cause the engine's own words, which are for people and not compared.
	Kind  string `json:"kind,omitempty"`
	Cause string `json:"cause,omitempty"`
	// Rows are the offsets that came, by partition, in the order in which they came; since the restart, where there is one.
	Rows map[string]string `json:"rows,omitempty"`
	// Committed are the group's offsets at the end, where they are asked for.
	Committed map[string]int64 `json:"committed,omitempty"`
	// Steps are the steps that did not come about, and what happened instead.
	Steps []string `json:"steps,omitempty"`
}

// same tells whether two engines did the same.
func (o outcome) same(p outcome) bool {
	return o.End == p.End && o.Kind == p.Kind && maps.Equal(o.Rows, p.Rows) && maps.Equal(o.Committed, p.Committed) &&
		slices.Equal(o.Steps, p.Steps)
}

func (o outcome) String() string {
	var b strings.Builder
	b.WriteString(o.End)
	if o.Kind != "" {
		fmt.Fprintf(&b, " (%s)", o.Kind)
	}
	for _, of := range []struct {
		name string
		in   map[string]string
	}{{"", o.Rows}, {" committed", text(o.Committed)}} {
		if len(of.in) > 0 {
			b.WriteString(of.name)
		}
		for _, p := range slices.Sorted(maps.Keys(of.in)) {
			fmt.Fprintf(&b, " %s:%s", p, of.in[p])
		}
	}
	for _, s := range o.Steps {
		fmt.Fprintf(&b, " [%s]", s)
	}
	return b.String()
}

func text(m map[string]int64) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = strconv.FormatInt(v, 10)
	}
	return out
}

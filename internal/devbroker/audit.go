package devbroker

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Expectation says which of the numbered records are to be seen, and how they are to look.
type Expectation struct {
	// Records is how many were loaded; their numbers are 0 to Records-1.
	Records int64
	// Wanted tells whether record n is to come out; nil: every one.
	Wanted func(n int64) bool
	// Intact tells what is wrong with a copy of record n; nil: nothing is checked.
	Intact func(n int64, r *kgo.Record) error
}

// Counts is what an Audit found.
type Counts struct {
	// Expected is how many different records were to come out, Seen how many records came.
	Expected, Seen int64
	// Lost is how many wanted records were never seen, Doubled how many sights were not the first of their number.
	Lost, Doubled int64
	// Foreign counts records without a number, with one that was never loaded, or with one that was to be left out.
	Foreign int64
	// Disordered counts records that came, for the first time, after one of the same key with a higher number.
	Disordered int64
	// Altered counts records that Intact objected to.
	Altered int64
}

// Audit compares the records it sees with an Expectation. It is for one goroutine.
type Audit struct {
	want     Expectation
	expected int64
	sights   []uint8 // of each number; stops counting at 255, Doubled has the exact sum
	last     map[string]int64
	counts   Counts
	first    map[string]string // kind of finding → its first instance, for the error
}

// NewAudit returns an audit that has seen nothing.
func NewAudit(want Expectation) *Audit {
	a := &Audit{
		want:   want,
		sights: make([]uint8, want.Records),
		last:   make(map[string]int64),
		first:  make(map[string]string),
	}
	for n := range want.Records {
		if a.wanted(n) {
			a.expected++
		}
	}
	return a
}

// Expected is how many different records are to come out.
func (a *Audit) Expected() int64 { return a.expected }

// Seen is how many records have come so far.
func (a *Audit) Seen() int64 { return a.counts.Seen }

// See takes one record of the output, in the order of its partition.
func (a *Audit) See(r *kgo.Record) {
	a.counts.Seen++
	n, err := Number(r)
	switch {
	case err != nil:
		a.found(&a.counts.Foreign, "foreign", r, err.Error())
		return
	case n < 0 || n >= a.want.Records:
		a.found(&a.counts.Foreign, "foreign", r, fmt.Sprintf("record %d was never loaded", n))
		return
	case !a.wanted(n):
		a.found(&a.counts.Foreign, "foreign", r, fmt.Sprintf("record %d was to be left out", n))
		return
	}
	if a.sights[n] > 0 {
		a.found(&a.counts.Doubled, "doubled", r, fmt.Sprintf("record %d", n))
	} else if last, ok := a.last[string(r.Key)]; ok && n < last {
		a.found(&a.counts.Disordered, "disordered", r, fmt.Sprintf("record %d after %d", n, last))
	} else {
		a.last[string(r.Key)] = n
	}
	if a.sights[n] < math.MaxUint8 {
		a.sights[n]++
	}
	if a.want.Intact != nil {
		if err := a.want.Intact(n, r); err != nil {
			a.found(&a.counts.Altered, "altered", r, fmt.Sprintf("record %d: %v", n, err))
		}
	}
}

// Counts is the account of everything seen so far; Lost holds what has not come yet.
func (a *Audit) Counts() Counts {
	c := a.counts
	c.Expected = a.expected
	for n, sights := range a.sights {
		if sights == 0 && a.wanted(int64(n)) {
			c.Lost++
			if c.Lost == 1 {
				a.first["lost"] = fmt.Sprintf("record %d", n)
			}
		}
	}
	return c
}

// Err returns nil where every wanted record was seen exactly once, in order and intact and nothing else was, and else
// an error with each count and its first instance.
func (a *Audit) Err() error {
	c := a.Counts()
	var bad []string
	for _, f := range []struct {
		kind  string
		count int64
	}{
		{"lost", c.Lost},
		{"doubled", c.Doubled},
		{"foreign", c.Foreign},
		{"disordered", c.Disordered},
		{"altered", c.Altered},
	} {
		if f.count > 0 {
			bad = append(bad, fmt.Sprintf("%d %s (first: %s)", f.count, f.kind, a.first[f.kind]))
		}
	}
	if len(bad) > 0 {
		return errors.New(strings.Join(bad, "; "))
	}
	return nil
}

func (a *Audit) wanted(n int64) bool { return a.want.Wanted == nil || a.want.Wanted(n) }

func (a *Audit) found(count *int64, kind string, r *kgo.Record, what string) {
	*count++
	if *count == 1 {
		a.first[kind] = fmt.Sprintf("%s, at partition %d offset %d", what, r.Partition, r.Offset)
	}
}

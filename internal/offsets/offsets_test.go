package offsets

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/splits"
)

var (
	p0 = splits.Partition{Topic: "orders", Partition: 0}
	p1 = splits.Partition{Topic: "orders", Partition: 1}
)

// answers has p0 from 10 to 100 and p1 from 0 to 50, and the group's committed offsets as given.
func answers(committed map[splits.Partition]int64) Answers {
	a := Answers{
		Earliest:  map[splits.Partition]Position{p0: {10, 1}, p1: {0, 2}},
		Latest:    map[splits.Partition]Position{p0: {100, 5}, p1: {50, 6}},
		Committed: map[splits.Partition]Position{},
		AtTime:    map[int64]map[splits.Partition]Position{2001: {p0: {60, 4}}},
	}
	for p, o := range committed {
		a.Committed[p] = Position{o, 3}
	}
	return a
}

func specific(reset Reset, at Specific) Start {
	return Start{Mode: SpecificStart, Group: "g", Reset: reset, Offsets: at}
}

func group(reset Reset) Start { return Start{Mode: GroupStart, Group: "g", Reset: reset} }

func TestStartDecide(t *testing.T) {
	type m = map[splits.Partition]int64
	for name, tc := range map[string]struct {
		start     Start
		committed m
		want      map[splits.Partition]Resolved
		replaced  []OutOfRange
		err       string
	}{
		"earliest": {
			start: Start{Mode: EarliestStart},
			want:  map[splits.Partition]Resolved{p0: {Position{10, 1}, FromEarliest}, p1: {Position{0, 2}, FromEarliest}},
		},
		"latest": {
			start: Start{Mode: LatestStart},
			want:  map[splits.Partition]Resolved{p0: {Position{100, 5}, FromLatest}, p1: {Position{50, 6}, FromLatest}},
		},
		"all committed": {
			start: group(ResetNone), committed: m{p0: 10, p1: 50}, // both ends of the range are valid
			want: map[splits.Partition]Resolved{p0: {Position{10, 3}, FromCommitted}, p1: {Position{50, 3}, FromCommitted}},
		},
		"half committed, reset earliest": {
			start: group(ResetEarliest), committed: m{p0: 42},
			want: map[splits.Partition]Resolved{p0: {Position{42, 3}, FromCommitted}, p1: {Position{0, 2}, FromResetEarliest}},
		},
		"half committed, reset latest": {
			start: group(ResetLatest), committed: m{p1: 7},
			want: map[splits.Partition]Resolved{p0: {Position{100, 5}, FromResetLatest}, p1: {Position{7, 3}, FromCommitted}},
		},
		"before the start and past the end, reset earliest": {
			start: group(ResetEarliest), committed: m{p0: 9, p1: 51},
			want:     map[splits.Partition]Resolved{p0: {Position{10, 1}, FromResetEarliest}, p1: {Position{0, 2}, FromResetEarliest}},
			replaced: []OutOfRange{{p0, 9, 10, 100}, {p1, 51, 0, 50}},
		},
		"nothing committed, no reset": {
			start: group(ResetNone),
			err:   `group "g" has no committed offset for partitions orders 0, 1, and startup.offset_reset is none; set startup.offset_reset`,
		},
		"before the start, no reset": {
			start: group(ResetNone), committed: m{p0: 9, p1: 0},
			err: `committed offsets of group "g" are not in the log any more (orders-0 at 9, log starts at 10)`,
		},
		"past the end, no reset": {
			start: group(ResetNone), committed: m{p0: 10, p1: 51},
			err: `(orders-1 at 51, log ends at 50)`,
		},
		"timestamp": {
			start: Start{Mode: TimestampStart, TimestampMS: 2001},
			want:  map[splits.Partition]Resolved{p0: {Position{60, 4}, FromTimestamp}, p1: {Position{50, 6}, FromTimestampEnd}},
		},
		"specific": {
			start: specific(ResetNone, Specific{p0: 10, p1: 50}),
			want:  map[splits.Partition]Resolved{p0: {Position{10, -1}, FromSpecific}, p1: {Position{50, -1}, FromSpecific}},
		},
		"specific, markers": {
			start: specific(ResetNone, Specific{p0: MarkEarliest, p1: MarkLatest}),
			want:  map[splits.Partition]Resolved{p0: {Position{10, 1}, FromSpecific}, p1: {Position{50, 6}, FromSpecific}},
		},
		"specific, marked as committed": {
			start: specific(ResetLatest, Specific{p0: MarkCommitted, p1: MarkCommitted}), committed: m{p0: 42},
			want: map[splits.Partition]Resolved{p0: {Position{42, 3}, FromCommitted}, p1: {Position{50, 6}, FromResetLatest}},
		},
		"specific, unlisted with a commit": {
			start: specific(ResetEarliest, Specific{p0: 42}), committed: m{p0: 11, p1: 7},
			want: map[splits.Partition]Resolved{p0: {Position{42, -1}, FromSpecific}, p1: {Position{7, 3}, FromCommitted}},
		},
		"specific, unlisted without a commit": {
			start: specific(ResetEarliest, Specific{p1: 42}),
			want:  map[splits.Partition]Resolved{p0: {Position{10, 1}, FromResetEarliest}, p1: {Position{42, -1}, FromSpecific}},
		},
		"specific, unlisted without a commit, latest": {
			start: specific(ResetLatest, Specific{p1: 42}),
			want:  map[splits.Partition]Resolved{p0: {Position{100, 5}, FromResetLatest}, p1: {Position{42, -1}, FromSpecific}},
		},
		// Flink's initialiser throws here although there is a commit.
		"specific, unlisted with a commit, no reset": {
			start: specific(ResetNone, Specific{p0: 42}), committed: m{p1: 7},
			err: `no offset is listed for partitions orders 1, and startup.offset_reset is none`,
		},
		"specific, beyond the end: all is read again": {
			start:    specific(ResetEarliest, Specific{p0: 105, p1: 0}),
			want:     map[splits.Partition]Resolved{p0: {Position{10, 1}, FromResetEarliest}, p1: {Position{0, -1}, FromSpecific}},
			replaced: []OutOfRange{{p0, 105, 10, 100}},
		},
		"specific, before the start, latest": {
			start:    specific(ResetLatest, Specific{p0: 3, p1: 0}),
			want:     map[splits.Partition]Resolved{p0: {Position{100, 5}, FromResetLatest}, p1: {Position{0, -1}, FromSpecific}},
			replaced: []OutOfRange{{p0, 3, 10, 100}},
		},
		"specific, beyond the end, no reset": {
			start: specific(ResetNone, Specific{p0: 105, p1: 0}),
			err:   `startup.specific_offsets are not in the log (orders-0 at 105, log ends at 100): they are beyond its end`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, tc.start.Validate())
			got, err := tc.start.Decide([]splits.Partition{p0, p1}, answers(tc.committed))
			require.Equal(t, tc.replaced, got.Replaced)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got.At)
		})
	}
}

func TestGroupStartReportsMissingAndInvalidOffsetsTogether(t *testing.T) {
	_, err := group(ResetNone).Decide([]splits.Partition{p0, p1}, answers(map[splits.Partition]int64{p1: 99}))
	var none *NoCommittedOffsetError
	require.ErrorAs(t, err, &none)
	require.Equal(t, "g", none.Group)
	require.Equal(t, []splits.Partition{p0}, none.Partitions)
	var outside *OutOfRangeError
	require.ErrorAs(t, err, &outside)
	require.Equal(t, []OutOfRange{{p1, 99, 0, 50}}, outside.Partitions)
}

func TestStopDecide(t *testing.T) {
	type m = map[splits.Partition]int64
	for name, tc := range map[string]struct {
		stop      Stop
		committed m
		want      m
		err       string
	}{
		"unbounded":                    {stop: Stop{Mode: Unbounded}, want: m{p0: checkpoint.NoStop, p1: checkpoint.NoStop}},
		"latest":                       {stop: Stop{Mode: LatestStop}, want: m{p0: 100, p1: 50}},
		"timestamp, end where none":    {stop: Stop{Mode: TimestampStop, TimestampMS: 2001}, want: m{p0: 60, p1: 50}},
		"group":                        {stop: Stop{Mode: GroupStop, Group: "g"}, committed: m{p0: 20, p1: 0}, want: m{p0: 20, p1: 0}},
		"group, none for one":          {stop: Stop{Mode: GroupStop, Group: "g"}, committed: m{p0: 20}, err: `group "g" has no committed offset for orders-1`},
		"specific, beyond the end":     {stop: Stop{Mode: SpecificStop, Offsets: Specific{p0: 1000, p1: MarkLatest}}, want: m{p0: 1000, p1: 50}},
		"specific, unlisted":           {stop: Stop{Mode: SpecificStop, Offsets: Specific{p1: 4}}, want: m{p0: 10, p1: 4}},
		"specific, unlisted, a commit": {stop: Stop{Mode: SpecificStop, Group: "g", Offsets: Specific{p1: 4}}, committed: m{p0: 30}, want: m{p0: 30, p1: 4}},
		"specific, marked, none":       {stop: Stop{Mode: SpecificStop, Group: "g", Offsets: Specific{p0: MarkCommitted}}, err: `bounded.mode specific-offsets: group "g" has no committed offset for orders-0`},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, tc.stop.Validate())
			got, err := m{}, error(nil)
			for _, p := range []splits.Partition{p0, p1} {
				var e error
				got[p], e = tc.stop.Decide(p, answers(tc.committed))
				err = errors.Join(err, e)
			}
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
	require.True(t, Stop{Mode: LatestStop}.Bounded())
	require.False(t, Stop{Mode: Unbounded}.Bounded())
	require.False(t, Stop{Mode: LatestStop, KeepRunning: true}.Bounded())
	require.True(t, Stop{Mode: LatestStop, KeepRunning: true}.Stops())
}

func TestRestoreDecide(t *testing.T) {
	type ends = map[splits.Partition]int64
	for name, tc := range map[string]struct {
		policy    OnOutOfRange
		at        int64 // of p0, whose log is 10 to 100
		epochEnds ends
		want      Resolved
		outside   []OutOfRange
		err       string
	}{
		"inside":       {policy: FailOutOfRange, at: 42, want: Resolved{Position{42, 4}, FromCheckpoint}},
		"at the start": {policy: FailOutOfRange, at: 10, want: Resolved{Position{10, 4}, FromCheckpoint}},
		"at the end":   {policy: FailOutOfRange, at: 100, want: Resolved{Position{100, 4}, FromCheckpoint}},
		"epoch ends beyond the position": {
			policy: FailOutOfRange, at: 42, epochEnds: ends{p0: 60}, want: Resolved{Position{42, 4}, FromCheckpoint}},
		"epoch unknown to the cluster": {
			policy: FailOutOfRange, at: 42, epochEnds: ends{p0: -1}, want: Resolved{Position{42, 4}, FromCheckpoint}},
		"epoch ended before the log's start": {
			policy: FailOutOfRange, at: 10, epochEnds: ends{p0: 5}, want: Resolved{Position{10, 4}, FromCheckpoint}},
		"before the start, fail": {
			policy: FailOutOfRange, at: 9, outside: []OutOfRange{{p0, 9, 10, 100}},
			want: Resolved{Position{10, 1}, FromOutOfRange},
			err:  "restored positions are not in the log any more (orders-0 at 9, log starts at 10)"},
		"past the end, fail": {
			policy: FailOutOfRange, at: 101, outside: []OutOfRange{{p0, 101, 10, 100}},
			want: Resolved{Position{10, 1}, FromOutOfRange},
			err:  "set checkpoint.on_restore_out_of_range to earliest"},
		"log cut below the position, fail": {
			policy: FailOutOfRange, at: 42, epochEnds: ends{p0: 30}, outside: []OutOfRange{{p0, 42, 10, 30}},
			want: Resolved{Position{10, 1}, FromOutOfRange}, err: "orders-0 at 42, log ends at 30"},
		"before the start, earliest": {
			policy: EarliestOutOfRange, at: 4, outside: []OutOfRange{{p0, 4, 10, 100}},
			want: Resolved{Position{10, 1}, FromOutOfRange}},
		"past the end, earliest": {
			policy: EarliestOutOfRange, at: 200, outside: []OutOfRange{{p0, 200, 10, 100}},
			want: Resolved{Position{10, 1}, FromOutOfRange}},
	} {
		t.Run(name, func(t *testing.T) {
			r := Restore{Policy: tc.policy}
			require.NoError(t, r.Validate())
			got, outside, err := r.Decide(map[splits.Partition]Position{p0: {tc.at, 4}}, answers(nil), tc.epochEnds)
			if tc.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.err)
			}
			require.Equal(t, map[splits.Partition]Resolved{p0: tc.want}, got)
			require.Equal(t, tc.outside, outside)
		})
	}
	require.EqualValues(t, 6, OutOfRange{p0, 4, 10, 100}.Skipped())
	require.EqualValues(t, 0, OutOfRange{p0, 200, 10, 100}.Skipped())
}

func TestValidateNamesTheField(t *testing.T) {
	require.ErrorContains(t, Start{Mode: "tomorrow"}.Validate(), `startup.mode: "tomorrow"`)
	require.ErrorContains(t, Start{Mode: GroupStart}.Validate(), "needs group_id")
	require.ErrorContains(t, group("sometimes").Validate(), `startup.offset_reset: "sometimes"`)
	require.ErrorContains(t, specific(ResetNone, nil).Validate(), "needs startup.specific_offsets")
	require.ErrorContains(t, specific(ResetNone, Specific{p1: -7}).Validate(), "startup.specific_offsets: orders-1 has the offset -7")
	require.ErrorContains(t, Start{Mode: SpecificStart, Offsets: Specific{p0: MarkCommitted}, Reset: ResetNone}.Validate(), "orders-0 is to begin at its committed offset, which needs group_id")
	require.ErrorContains(t, Stop{Mode: "never"}.Validate(), `bounded.mode: "never"`)
	require.ErrorContains(t, Stop{Mode: GroupStop}.Validate(), "bounded.mode: group-offsets needs group_id")
	require.ErrorContains(t, Stop{Mode: SpecificStop}.Validate(), "needs bounded.specific_offsets")
	require.ErrorContains(t, Stop{Mode: SpecificStop, Offsets: Specific{p0: MarkEarliest}}.Validate(), "means the earliest: nothing ends there")
	require.ErrorContains(t, Stop{Mode: SpecificStop, Offsets: Specific{p0: MarkCommitted}}.Validate(), "orders-0 is to end at its committed offset, which needs group_id")
	require.ErrorContains(t, Stop{Mode: Unbounded, KeepRunning: true}.Validate(), "bounded.keep_running has no effect")
	require.ErrorContains(t, Restore{Policy: "shrug"}.Validate(), "checkpoint.on_restore_out_of_range")
}

// asked records which questions were put.
type asked struct {
	Lookup
	questions []string
	fail      string
}

func (l *asked) answer(q string) (map[splits.Partition]Position, error) {
	l.questions = append(l.questions, q)
	if q == l.fail {
		return nil, errors.New(q + " failed")
	}
	return nil, nil
}

func (l *asked) Earliest(context.Context, []splits.Partition) (map[splits.Partition]Position, error) {
	return l.answer("earliest")
}

func (l *asked) Latest(context.Context, []splits.Partition) (map[splits.Partition]Position, error) {
	return l.answer("latest")
}

func (l *asked) AtTime(_ context.Context, ms int64, _ []splits.Partition) (map[splits.Partition]Position, error) {
	return l.answer(fmt.Sprintf("at %d", ms))
}

func (l *asked) Committed(_ context.Context, group string, _ []splits.Partition) (map[splits.Partition]Position, error) {
	return l.answer("committed " + group)
}

func TestFetchAsksOnlyForWhatIsNeeded(t *testing.T) {
	for name, tc := range map[string]struct {
		needs Needs
		want  []string
	}{
		"earliest, unbounded":         {Start{Mode: EarliestStart}.Needs().And(Stop{Mode: Unbounded}.Needs()), []string{"earliest"}},
		"earliest, bounded":           {Start{Mode: EarliestStart}.Needs().And(Stop{Mode: LatestStop}.Needs()), []string{"earliest", "latest"}},
		"latest, bounded: one answer": {Start{Mode: LatestStart}.Needs().And(Stop{Mode: LatestStop}.Needs()), []string{"latest"}},
		"group":                       {Stop{Mode: LatestStop}.Needs().And(group(ResetNone).Needs()), []string{"committed g", "earliest", "latest"}},
		"times after the ends":        {Start{Mode: TimestampStart, TimestampMS: 7}.Needs().And(Stop{Mode: TimestampStop, TimestampMS: 9}.Needs()), []string{"latest", "at 7", "at 9"}},
		"one time":                    {Start{Mode: TimestampStart, TimestampMS: 7}.Needs().And(Stop{Mode: TimestampStop, TimestampMS: 7}.Needs()), []string{"latest", "at 7"}},
		"restore":                     {Restore{}.Needs(), []string{"earliest", "latest"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &asked{}
			_, err := Fetch(t.Context(), l, tc.needs, []splits.Partition{p0})
			require.NoError(t, err)
			require.Equal(t, tc.want, l.questions)
			for _, q := range tc.want {
				_, err := Fetch(t.Context(), &asked{fail: q}, tc.needs, []splits.Partition{p0})
				require.ErrorContains(t, err, q+" failed")
			}
		})
	}
	l := &asked{}
	_, err := Fetch(t.Context(), l, Restore{}.Needs(), nil)
	require.NoError(t, err)
	require.Empty(t, l.questions, "no partitions, no questions")
}

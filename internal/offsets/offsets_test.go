package offsets

import (
	"context"
	"errors"
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
	}
	for p, o := range committed {
		a.Committed[p] = Position{o, 3}
	}
	return a
}

func group(reset Reset) Start { return Start{Mode: GroupStart, Group: "g", Reset: reset} }

func TestStartDecide(t *testing.T) {
	type m = map[splits.Partition]int64
	for name, tc := range map[string]struct {
		start     Start
		committed m
		want      map[splits.Partition]Resolved
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
			want: map[splits.Partition]Resolved{p0: {Position{10, 1}, FromResetEarliest}, p1: {Position{0, 2}, FromResetEarliest}},
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
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, tc.start.Validate())
			got, err := tc.start.Decide([]splits.Partition{p0, p1}, answers(tc.committed))
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
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
	a := answers(nil)
	require.EqualValues(t, 100, Stop{Mode: LatestStop}.Decide(p0, a))
	require.Equal(t, checkpoint.NoStop, Stop{Mode: Unbounded}.Decide(p0, a))
	require.True(t, Stop{Mode: LatestStop}.Bounded())
	require.False(t, Stop{Mode: Unbounded}.Bounded())
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
	require.ErrorContains(t, Stop{Mode: "never"}.Validate(), `bounded.mode: "never"`)
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

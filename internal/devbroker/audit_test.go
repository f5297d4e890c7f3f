package devbroker

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// history makes the records of an output from words such as "a3": key a, number 3. A word "-" has no number, and "!"
// at the end marks a record that was altered.
func history(words string) []*kgo.Record {
	var out []*kgo.Record
	for i, w := range strings.Fields(words) {
		r := &kgo.Record{Offset: int64(i)}
		if w != "-" {
			w, altered := strings.CutSuffix(w, "!")
			r.Key = []byte(w[:1])
			r.Headers = []kgo.RecordHeader{{Key: NumberHeader, Value: []byte(w[1:])}}
			if altered {
				r.Value = []byte("altered")
			}
		}
		out = append(out, r)
	}
	return out
}

func TestAuditCountsWhatIsWrongWithAHistory(t *testing.T) {
	// Of records 0 to 5, record 2 is to be left out. Keys: a has the even numbers, b the odd ones.
	want := Expectation{
		Records: 6,
		Wanted:  func(n int64) bool { return n != 2 },
		Intact: func(_ int64, r *kgo.Record) error {
			if r.Value != nil {
				return errors.New("value changed")
			}
			return nil
		},
	}
	for _, tc := range []struct {
		name, history string
		want          Counts
		err           string
	}{
		{name: "exactly once", history: "a0 b1 b3 a4 b5", want: Counts{Seen: 5}},
		{name: "keys may interleave in any way", history: "b1 b3 b5 a0 a4", want: Counts{Seen: 5}},
		{name: "nothing came", history: "", want: Counts{Lost: 5}, err: "5 lost (first: record 0)"},
		{name: "one lost in the middle", history: "a0 b1 a4 b5", want: Counts{Seen: 4, Lost: 1}, err: "1 lost (first: record 3)"},
		{name: "the end is lost", history: "a0 b1 b3 a4", want: Counts{Seen: 4, Lost: 1}, err: "1 lost (first: record 5)"},
		{name: "one doubled at once", history: "a0 b1 b1 b3 a4 b5", want: Counts{Seen: 6, Doubled: 1}, err: "1 doubled (first: record 1, at partition 0 offset 2)"},
		{name: "a replay doubles a stretch and is not called disorder", history: "a0 b1 b3 b1 b3 a4 b5", want: Counts{Seen: 7, Doubled: 2}, err: "2 doubled"},
		{name: "three sights are two too many", history: "a0 a0 a0 b1 b3 a4 b5", want: Counts{Seen: 7, Doubled: 2}, err: "2 doubled"},
		{name: "as many doubled as lost, so the sum is right", history: "a0 b1 b1 a4 b5", want: Counts{Seen: 5, Lost: 1, Doubled: 1}, err: "1 lost (first: record 3); 1 doubled"},
		{name: "two of a key swapped", history: "a0 b3 b1 a4 b5", want: Counts{Seen: 5, Disordered: 1}, err: "1 disordered (first: record 1 after 3, at partition 0 offset 2)"},
		{name: "one that was to be left out", history: "a0 b1 a2 b3 a4 b5", want: Counts{Seen: 6, Foreign: 1}, err: "1 foreign (first: record 2 was to be left out"},
		{name: "one that was never loaded", history: "a0 b1 b3 a4 b5 a6", want: Counts{Seen: 6, Foreign: 1}, err: "record 6 was never loaded"},
		{name: "one with a negative number", history: "a0 b1 b3 a4 b5 a-1", want: Counts{Seen: 6, Foreign: 1}, err: "record -1 was never loaded"},
		{name: "one without a number", history: "a0 - b1 b3 a4 b5", want: Counts{Seen: 6, Foreign: 1}, err: `no header "n"`},
		{name: "one whose number is no number", history: "a0 ax b1 b3 a4 b5", want: Counts{Seen: 6, Foreign: 1}, err: `parsing "x"`},
		{name: "one altered", history: "a0 b1! b3 a4 b5", want: Counts{Seen: 5, Altered: 1}, err: "1 altered (first: record 1: value changed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := NewAudit(want)
			for _, r := range history(tc.history) {
				a.See(r)
			}
			tc.want.Expected = 5
			if diff := cmp.Diff(tc.want, a.Counts()); diff != "" {
				t.Error(diff)
			}
			if tc.err == "" {
				require.NoError(t, a.Err())
			} else {
				require.ErrorContains(t, a.Err(), tc.err)
			}
		})
	}
}

func TestAuditCountsMoreSightsThanItsCellsHold(t *testing.T) {
	a := NewAudit(Expectation{Records: 1})
	for range 1000 {
		a.See(&kgo.Record{Key: []byte("a"), Headers: []kgo.RecordHeader{{Key: NumberHeader, Value: []byte("0")}}})
	}
	require.Equal(t, Counts{Expected: 1, Seen: 1000, Doubled: 999}, a.Counts())
}

func TestSameEnvelopeTellsEachDifference(t *testing.T) {
	l := Load{Topic: "orders", Partitions: 4, Records: 10}
	for _, tc := range []struct {
		name   string
		change func(*kgo.Record)
		err    string
	}{
		{"nothing", func(*kgo.Record) {}, ""},
		{"key", func(r *kgo.Record) { r.Key = []byte("x") }, `key is "x", not "customer-00007"`},
		{"null key", func(r *kgo.Record) { r.Key = nil }, "key is null"},
		{"timestamp", func(r *kgo.Record) { r.Timestamp = r.Timestamp.Add(1e6) }, "timestamp is"},
		{"header lost", func(r *kgo.Record) { r.Headers = r.Headers[1:] }, "4 headers, not 5"},
		{"headers swapped", func(r *kgo.Record) { r.Headers[1], r.Headers[2] = r.Headers[2], r.Headers[1] }, `header 1 is hop="gateway", not hop="shop"`},
		{"empty header value became null", func(r *kgo.Record) { r.Headers[3].Value = nil }, `header 3 is empty=null, not empty=""`},
		{"null header value became empty", func(r *kgo.Record) { r.Headers[4].Value = []byte{} }, `header 4 is null="", not null=null`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := l.Record(7)
			tc.change(r)
			if err := l.SameEnvelope(7, r); tc.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.err)
			}
		})
	}
}

func TestNumberedRecordsOfAKeyStayInOnePartition(t *testing.T) {
	for _, partitions := range []int32{1, 3, 4, 7} {
		t.Run(strconv.Itoa(int(partitions)), func(t *testing.T) {
			l := Load{Partitions: partitions}
			at := map[string]int32{}
			for n := range int64(5000) {
				r := l.Record(n)
				if p, ok := at[string(r.Key)]; ok {
					require.Equal(t, p, r.Partition, "record %d", n)
				}
				at[string(r.Key)] = r.Partition
			}
			require.Len(t, at, int(partitions)*keysPerPartition)
		})
	}
}

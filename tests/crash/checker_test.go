package crash

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

var epoch = time.UnixMilli(1_700_000_000_000)

func original(partition int32, n int64) *kgo.Record { return record("in", partition, n, epoch) }

func all(int64) bool { return true }

// history makes the records of an output from words such as "1:3>0": record 3 of partition 1, in partition 0 of the
// output. An exclamation mark at the end alters the record, a bare ">0" has no number.
func history(words string) []*kgo.Record {
	var out []*kgo.Record
	for i, word := range strings.Fields(words) {
		word, altered := strings.CutSuffix(word, "!")
		var partition, to int32
		var n int64
		r := &kgo.Record{}
		if _, err := fmt.Sscanf(word, "%d:%d>%d", &partition, &n, &to); err == nil {
			r = original(partition, n)
		} else if _, err := fmt.Sscanf(word, ">%d", &to); err != nil {
			panic(word)
		}
		if altered {
			r.Value = []byte("altered")
		}
		r.Topic, r.Partition, r.Offset = "out", to, int64(i)
		out = append(out, r)
	}
	return out
}

func TestCheckerFindsWhatIsWrongWithAHistory(t *testing.T) {
	// Written were records 0 to 2 of partition 0 and 0 to 1 of partition 1.
	written := []int64{3, 2}
	for _, tc := range []struct {
		name, history string
		wanted        func(int64) bool
		want          verdict
		first         string
		repeats       bool // clean where records may repeat
	}{
		{name: "exactly once", history: "0:0>0 0:1>0 0:2>0 1:0>1 1:1>1", want: verdict{in: 5, out: 5}, repeats: true},
		{name: "partitions may interleave and cross", history: "1:0>1 0:0>1 0:1>0 1:1>1 0:2>1", want: verdict{in: 5, out: 5}, repeats: true},
		{name: "nothing came", history: "", want: verdict{in: 5, lost: 5}, first: "lost: record 0:0"},
		{name: "one is lost in the middle", history: "0:0>0 0:2>0 1:0>1 1:1>1", want: verdict{in: 5, out: 4, lost: 1}, first: "lost: record 0:1"},
		{name: "the end is lost", history: "0:0>0 0:1>0 1:0>1 1:1>1", want: verdict{in: 5, out: 4, lost: 1}, first: "lost: record 0:2"},
		{name: "one is doubled", history: "0:0>0 0:1>0 0:1>0 0:2>0 1:0>1 1:1>1", want: verdict{in: 5, out: 6, doubled: 1},
			first: "doubled: record 0:1, at out/0 offset 2", repeats: true},
		{name: "a stretch is replayed, which is no disorder", history: "0:0>0 0:1>0 0:0>0 0:1>0 0:2>0 1:0>1 1:1>1",
			want: verdict{in: 5, out: 7, doubled: 2}, first: "doubled: record 0:0", repeats: true},
		{name: "one is doubled into another partition", history: "0:0>0 0:1>0 0:1>1 0:2>0 1:0>1 1:1>1",
			want: verdict{in: 5, out: 6, doubled: 1}, first: "at out/1", repeats: true},
		{name: "as many doubled as lost", history: "0:0>0 0:0>0 0:2>0 1:0>1 1:1>1", want: verdict{in: 5, out: 5, lost: 1, doubled: 1}, first: "lost: record 0:1"},
		{name: "two are swapped", history: "0:0>0 0:2>0 0:1>0 1:0>1 1:1>1", want: verdict{in: 5, out: 5, disordered: 1},
			first: "disordered: record 0:1 after 2, at out/0 offset 2"},
		{name: "one is altered", history: "0:0>0 0:1>0! 0:2>0 1:0>1 1:1>1", want: verdict{in: 5, out: 5, altered: 1}, first: `record 0:1: value is "altered"`},
		{name: "one without a number", history: "0:0>0 0:1>0 0:2>0 1:0>1 1:1>1 >0", want: verdict{in: 5, out: 6, foreign: 1}, first: "no header number"},
		{name: "one that was never written", history: "0:0>0 0:1>0 0:2>0 1:0>1 1:1>1 1:2>1", want: verdict{in: 5, out: 6, foreign: 1},
			first: "record 1:2 was never written"},
		{name: "one of a partition that is not there", history: "0:0>0 0:1>0 0:2>0 1:0>1 1:1>1 2:0>1", want: verdict{in: 5, out: 6, foreign: 1},
			first: "partition 2 was never written to"},
		{name: "what is to be left out is", history: "0:0>0 0:2>0 1:0>1", wanted: func(n int64) bool { return n != 1 },
			want: verdict{in: 3, out: 3}, repeats: true},
		{name: "what is to be left out is not", history: "0:0>0 0:1>0 0:2>0 1:0>1", wanted: func(n int64) bool { return n != 1 },
			want: verdict{in: 3, out: 4, foreign: 1}, first: "record 0:1 was to be left out"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wanted := tc.wanted
			if wanted == nil {
				wanted = all
			}
			c := newChecker(2, original, wanted)
			for _, r := range history(tc.history) {
				c.see(r)
			}
			got := c.result(written)
			require.Contains(t, strings.Join(got.first, "; "), tc.first)
			require.Equal(t, tc.first == "", len(got.first) == 0, got.first)
			require.Equal(t, tc.first == "", got.clean(false))
			require.Equal(t, tc.repeats, got.clean(true))
			got.first = nil
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.want.lost, c.missing(written))
		})
	}
}

func TestOrderOfRecordsWithoutAKeyCountsOnlyWhereNoneIsWrittenTwice(t *testing.T) {
	for _, tc := range []struct {
		history    string
		keyedOrder bool
		noOrder    bool
		want       int64
	}{
		{"0:8>0 0:7>0", false, false, 1}, // record 7 has no key, records 8 and 9 have one
		{"0:8>0 0:7>0", true, false, 0},
		{"0:8>0 0:7>0 0:9>0", true, false, 0},
		{"0:9>0 0:8>0", true, false, 1},
		{"0:9>0 0:8>0", false, true, 0},
	} {
		c := newChecker(1, original, all)
		c.keyedOrder, c.noOrder = tc.keyedOrder, tc.noOrder
		for _, r := range history(tc.history) {
			c.see(r)
		}
		require.Equal(t, tc.want, c.result([]int64{10}).disordered, tc)
	}
}

func TestRepeatsDoNotCountAsDistinct(t *testing.T) {
	c := newChecker(2, original, all)
	for _, r := range history("0:0>0 0:1>0 0:1>0 1:0>1") {
		c.see(r)
	}
	require.EqualValues(t, 3, c.distinct)
	require.EqualValues(t, 5, c.expected([]int64{3, 2}))
}

func TestGroupOffsetIsToBeTheEdgeOfWhatHasCome(t *testing.T) {
	notOne := func(n int64) bool { return n != 1 }
	for _, tc := range []struct {
		history string
		wanted  func(int64) bool
		offset  int64
		behind  bool
		want    string
	}{
		{"0:0>0 0:1>0", all, 2, false, ""},
		{"", all, 0, false, ""},
		{"0:0>0 0:1>0", all, 1, false, "record 1 has come"},
		{"0:0>0 0:1>0", all, 1, true, ""},
		{"0:0>0 0:1>0", all, 3, true, "record 2 has not come"},
		{"0:1>0", all, 2, false, "record 0 has not come"},
		{"0:0>0", notOne, 1, false, ""},
		{"0:0>0", notOne, 2, false, ""},
		{"0:0>0", notOne, 3, false, "record 2 has not come"},
	} {
		c := newChecker(1, original, tc.wanted)
		c.behind = tc.behind
		for _, r := range history(tc.history) {
			c.see(r)
		}
		if err := c.agrees(0, tc.offset); tc.want == "" {
			require.NoError(t, err, tc)
		} else {
			require.ErrorContains(t, err, tc.want, tc)
		}
	}
}

func TestDifferenceTellsNullFromEmptyAndSeesEveryPart(t *testing.T) {
	for name, tc := range map[string]struct {
		n      int64
		change func(*kgo.Record)
		want   string
	}{
		"nothing":                       {5, func(*kgo.Record) {}, ""},
		"a null key became empty":       {0, func(r *kgo.Record) { r.Key = []byte{} }, `key is "", not null`},
		"an empty key became null":      {1, func(r *kgo.Record) { r.Key = nil }, `key is null, not ""`},
		"a null value became empty":     {11, func(r *kgo.Record) { r.Value = []byte{} }, `value is "", not null`},
		"an empty value became null":    {12, func(r *kgo.Record) { r.Value = nil }, `value is null, not ""`},
		"a byte changed":                {13, func(r *kgo.Record) { r.Value[1000] ^= 1 }, "value is"},
		"the timestamp moved":           {5, func(r *kgo.Record) { r.Timestamp = r.Timestamp.Add(time.Millisecond) }, "timestamp is"},
		"a duplicate header is gone":    {5, func(r *kgo.Record) { r.Headers = append(r.Headers[:3], r.Headers[4:]...) }, "9 headers, not 10"},
		"headers swapped":               {5, func(r *kgo.Record) { r.Headers[1], r.Headers[2] = r.Headers[2], r.Headers[1] }, `header 1 is "hop"`},
		"an empty header value is null": {5, func(r *kgo.Record) { r.Headers[4].Value = nil }, `header 4 is "empty"=null`},
		"a null header value is empty":  {5, func(r *kgo.Record) { r.Headers[5].Value = []byte{} }, `header 5 is "null"=""`},
		"a header's name changed":       {5, func(r *kgo.Record) { r.Headers[6].Key = "x" }, `header 6 is "x"`},
		"metadata went over a header":   {5, func(r *kgo.Record) { r.Headers[7].Value = []byte("in") }, `header 7 is "kafka_topic"="in"`},
		"a header was added":            {5, func(r *kgo.Record) { r.Headers = append(r.Headers, kgo.RecordHeader{Key: "x"}) }, "11 headers, not 10"},
	} {
		t.Run(name, func(t *testing.T) {
			copied := original(0, tc.n)
			tc.change(copied)
			got := difference(original(0, tc.n), copied)
			if tc.want == "" {
				require.Empty(t, got)
			} else {
				require.Contains(t, got, tc.want)
			}
		})
	}
}

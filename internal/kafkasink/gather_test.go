package kafkasink

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTransactionIsCompleteWhen plays moments, in milliseconds, at which batches of two records and ten bytes come, and
// asks when the transaction is due. Three writers are there, the interval is a second, the limits are ten records and a
// hundred bytes.
func TestTransactionIsCompleteWhen(t *testing.T) {
	tests := map[string]struct {
		joins []int
		// before are writers of a transaction that is being committed; answered of them are, after the joins.
		before, answered int
		at, want         int // asked at, and what is left until due; -1 while it is empty
	}{
		"nothing has come":                             {at: 5, want: -1},
		"one sender, which waits for its answer":       {joins: []int{0}, at: 0, want: 10},
		"nothing came after it":                        {joins: []int{0}, at: 10, want: 0},
		"nothing came for longer":                      {joins: []int{0}, at: 3000, want: 0},
		"a second one came":                            {joins: []int{0, 6}, at: 6, want: 10},
		"they go on coming until the interval is over": {joins: []int{0, 995}, at: 996, want: 4},
		"every writer waits":                           {joins: []int{0, 1, 2}, at: 2, want: 0},
		"every writer waits, some for the one before":  {joins: []int{0}, before: 2, at: 0, want: 0},
		"it was so, and the others were answered":      {joins: []int{0}, before: 2, answered: 2, at: 1, want: 0},
		"writers of the one before were answered":      {joins: []int{0}, before: 1, answered: 1, at: 1, want: 9},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			zero := time.Now()
			at := func(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }
			g := newGather(Config{Writers: 3, CommitInterval: time.Second, MaxBufferedRecords: 10, MaxBufferedBytes: 100})
			for range tc.before {
				g.join(at(-1), 2, 10)
			}
			g.take()
			for i, ms := range tc.joins {
				look := g.join(at(ms), 2, 10)
				require.Equal(t, i == 0 || g.complete, look)
			}
			for range tc.answered {
				g.answered()
			}
			want := time.Duration(tc.want) * time.Millisecond
			if tc.want < 0 {
				want = -1
			}
			require.Equal(t, want, g.due(at(tc.at)))
		})
	}
}

func TestTransactionIsCompleteWhenItHoldsMuch(t *testing.T) {
	for name, big := range map[string]struct {
		records int
		bytes   int64
	}{"records": {10, 1}, "bytes": {1, 100}} {
		t.Run(name, func(t *testing.T) {
			g := newGather(Config{Writers: 64, CommitInterval: time.Second, MaxBufferedRecords: 10, MaxBufferedBytes: 100})
			now := time.Now()
			require.True(t, g.join(now, 1, 1))
			require.Positive(t, g.due(now))
			require.True(t, g.join(now, big.records, big.bytes))
			require.Zero(t, g.due(now))
			require.False(t, g.join(now, 1, 1), "whoever is to look knows")
			g.take()
			require.Negative(t, g.due(now))
		})
	}
}

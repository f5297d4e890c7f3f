package kafkasource

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/offsets"
	"github.com/tidegate/tidegate/internal/splits"
)

// board shows what a source tells of its partitions; records, bytes and errors are summed up.
type board struct {
	mu    sync.Mutex
	shown map[splits.Partition]Progress
	sums  map[splits.Partition]Progress
}

func newBoard() *board {
	return &board{shown: map[splits.Partition]Progress{}, sums: map[splits.Partition]Progress{}}
}

func (b *board) Show(topic string, partition int32, p Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := splits.Partition{Topic: topic, Partition: partition}
	sum := b.sums[at]
	sum.Records += p.Records
	sum.Bytes += p.Bytes
	sum.FetchErrors += p.FetchErrors
	b.sums[at] = sum
	p.Records, p.Bytes, p.FetchErrors = sum.Records, sum.Bytes, sum.FetchErrors
	b.shown[at] = p
}

func (b *board) Forget(topic string, partition int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.shown, splits.Partition{Topic: topic, Partition: partition})
}

func (b *board) all() map[splits.Partition]Progress {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[splits.Partition]Progress{}
	for at, p := range b.shown {
		all[at] = p
	}
	return all
}

func (b *board) Drop(topic string, partition int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sums, splits.Partition{Topic: topic, Partition: partition})
}

// shows waits until the board shows exactly this.
func (b *board) shows(t *testing.T, want map[splits.Partition]Progress) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.Equal(c, want, b.all()) }, patience, 20*time.Millisecond)
}

func measured(b *board) func(*Config) {
	return func(c *Config) {
		c.EndInterval, c.Metrics.Partitions = 50*time.Millisecond, b
	}
}

func TestLagGrowsWhileTheSourceStandsStillAndEndsAtZero(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produce("a", 0, "12", "345")
	shown := newBoard()
	cfg := baseConfig(b.servers, "a")
	measured(shown)(&cfg)
	s := newSource(t, cfg)
	state, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	s.Start(tag(1), state)
	s.read(2)
	at := splits.Partition{Topic: "a", Partition: 0}
	now := Progress{Position: 2, Committed: unknown, End: 2, Records: 2, Bytes: 5}
	shown.shows(t, map[splits.Partition]Progress{at: now})

	_, err = s.Pause(t.Context())
	require.NoError(t, err)
	b.produce("a", 0, "6", "7", "8")
	now.End, now.Lag = 5, 3
	shown.shows(t, map[splits.Partition]Progress{at: now})
	require.EqualValues(t, 3, s.Totals().Lag)

	s.Resume()
	s.read(3)
	require.NoError(t, s.CommitOffsets(t.Context(), checkpoint.SourceState{Splits: []checkpoint.Split{{Topic: "a", Offset: 4}}}))
	shown.shows(t, map[splits.Partition]Progress{at: {Position: 5, Committed: 4, End: 5, Records: 5, Bytes: 8}})
}

func TestLagOfABoundedPartitionCountsUpToItsStop(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produce("a", 0, "0", "1")
	shown := newBoard()
	cfg := baseConfig(b.servers, "a")
	cfg.Stop = offsets.Stop{Mode: offsets.LatestStop}
	measured(shown)(&cfg)
	s := newSource(t, cfg)
	state, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	b.produce("a", 0, "2", "3", "4")
	s.Start(tag(1), state)
	s.read(2)
	require.Eventually(t, func() bool {
		p, ok := shown.all()[splits.Partition{Topic: "a"}]
		return ok && p.Position == 2 && p.Lag == 0
	}, patience, 20*time.Millisecond)
}

func TestNumbersGoOnAcrossAttemptsAndEndWithTheirPartition(t *testing.T) {
	b := fakeBroker(t, 2, "a")
	b.produce("a", 0, "0")
	b.produce("a", 1, "0")
	shown := newBoard()
	cfg := baseConfig(b.servers, "a")
	measured(shown)(&cfg)
	s := newSource(t, cfg)
	state, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	s.Start(tag(1), state)
	s.read(2)
	require.NoError(t, s.Halt(t.Context()))
	require.Len(t, state.Splits, 2)
	state.Splits = state.Splits[:1] // as if the other were another process's now
	s.Start(tag(2), state)
	s.read(1)
	shown.shows(t, map[splits.Partition]Progress{
		{Topic: "a"}: {Position: 1, Committed: unknown, End: 1, Records: 2, Bytes: 2},
	})
	require.NoError(t, s.Close(t.Context()))
	require.Empty(t, shown.all(), "nothing is left of a source that was closed")
}

func TestSizeOfARecordIsThatOfItsKeyValueAndHeaders(t *testing.T) {
	require.EqualValues(t, 10, size(&kgo.Record{
		Key: []byte("k"), Value: []byte("val"), Headers: []kgo.RecordHeader{{Key: "ab", Value: []byte("cdef")}},
	}))
}

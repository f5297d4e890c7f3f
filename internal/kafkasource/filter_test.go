package kafkasource

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/headerexpr"
	"github.com/tidegate/tidegate/internal/offsets"
)

// filtering is a config that reads records with the header keep=yes, and what was counted of the others.
func filtering(t *testing.T, b *broker, topics ...string) (Config, func() map[string]int64) {
	t.Helper()
	cfg := baseConfig(b.servers, topics...)
	var err error
	cfg.Filter, err = headerexpr.Parse("keep:yes", headerexpr.VVR)
	require.NoError(t, err)
	var mu sync.Mutex
	counted := map[string]int64{}
	cfg.Metrics.FilteredRecords = func(topic string, n int64) {
		mu.Lock()
		defer mu.Unlock()
		counted[topic] += n
	}
	return cfg, func() map[string]int64 {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(counted)
	}
}

// produceKept writes records 0 to n-1, of which every kept-th has the header; 0 keeps none.
func (b *broker) produceKept(topic string, n, kept int) {
	b.t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		value := "no"
		if kept > 0 && i%kept == 0 {
			value = "yes"
		}
		records[i] = &kgo.Record{
			Topic: topic, Value: fmt.Append(nil, i), Headers: []kgo.RecordHeader{{Key: "keep"}, {Key: "keep", Value: []byte(value)}}}
	}
	require.NoError(b.t, b.client.ProduceSync(b.t.Context(), records...).FirstErr())
}

func TestFilterEmitsWhatMatchesAndMovesPastTheRest(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produceKept("a", 95, 10)
	cfg, counted := filtering(t, b, "a")
	s := newSource(t, cfg)
	s.resolve(nil)
	require.Equal(t, []string{"a-0@0=0", "a-0@10=10", "a-0@20=20", "a-0@30=30", "a-0@40=40", "a-0@50=50", "a-0@60=60",
		"a-0@70=70", "a-0@80=80", "a-0@90=90"}, s.read(10))
	waiting := s.background()
	require.Eventually(t, func() bool { return counted()["a"] == 85 }, patience, soon)
	stays(t, waiting)
	require.Equal(t, []int64{95}, offsetsOf(s.pause()), "past the last record, which does not match")
}

// Where nothing matches for hours the position moves all the same, through checkpoints and an attempt's end.
func TestFilterThatMatchesNothingMovesThePosition(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	cfg, counted := filtering(t, b, "a")
	s := newSource(t, cfg)
	s.resolve(nil)
	waiting := s.background()
	for round := range 3 {
		b.produceKept("a", 50, 0)
		require.Eventually(t, func() bool { return counted()["a"] == int64(50*(round+1)) }, patience, soon)
		require.Equal(t, []int64{int64(50 * (round + 1))}, offsetsOf(s.pause()))
		s.Start(tag(uint64(round+2)), s.pause())
	}
	stays(t, waiting)
	require.Empty(t, s.seat.failed)
}

func TestFilterAtABoundedEnd(t *testing.T) {
	for name, kept := range map[string]int{"nothing matches": 0, "the last does not": 7} {
		t.Run(name, func(t *testing.T) {
			b := fakeBroker(t, 1, "a")
			b.produceKept("a", 20, kept)
			cfg, _ := filtering(t, b, "a")
			cfg.Stop = offsets.Stop{Mode: offsets.LatestStop}
			s := newSource(t, cfg)
			s.resolve(nil)
			if kept > 0 {
				require.Len(t, s.read(3), 3)
			}
			waiting := s.background()
			receive(t, s.seat.atEnd, "the end")
			require.Equal(t, []int64{20}, offsetsOf(s.pause()))
			s.Finish()
			require.ErrorIs(t, receive(t, waiting, "the end of the input").err, ErrEndOfInput)
		})
	}
}

// A nack goes back to before the batch: what it held comes again, and so does what was filtered in between, uncounted by
// nobody and emitted by nobody.
func TestFilteredRecordsStayFilteredAfterAFailover(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produceKept("a", 10, 5)
	cfg, _ := filtering(t, b, "a")
	s := newSource(t, cfg)
	start := s.resolve(nil)
	require.Equal(t, []string{"a-0@0=0", "a-0@5=5"}, s.read(2))
	s.Start(tag(2), start)
	require.Equal(t, []string{"a-0@0=0", "a-0@5=5"}, s.read(2))
	require.Eventually(t, func() bool { return offsetsOf(s.pause())[0] == 10 }, patience, soon)
}

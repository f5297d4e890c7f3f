package kafkasource

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/tests/realkafka"
)

// collect reads and acknowledges until n records of a partition have come, and makes sure that each partition comes in
// order and without a gap.
func (s *source) collect(partition int32, n int, next map[int32]int64) {
	s.t.Helper()
	for got := 0; got < n; {
		b := s.next()
		for _, r := range b.Records {
			require.Equal(s.t, next[r.Partition], r.Offset, "partition %d", r.Partition)
			next[r.Partition]++
			if r.Partition == partition {
				got++
			}
		}
		b.Ack(s.t.Context(), nil)
	}
}

func TestDiscoveryOnARealBroker(t *testing.T) {
	kafka := realkafka.Shared(t)
	for name, run := range map[string]func(t *testing.T, s *source, b *broker, topic string){
		"while idle": func(t *testing.T, s *source, b *broker, topic string) {
			waiting := s.background()
			stays(t, waiting)
			b.grow(topic, 1)
			b.produce(topic, 1, "x0", "x1")
			got := receive(t, waiting, "the first records")
			got.Ack(t.Context(), nil)
			require.EqualValues(t, 0, got.Records[0].Offset)
			s.collect(1, 2-len(got.Records), map[int32]int64{1: int64(len(got.Records))})
			require.Equal(t, []int64{0, 2}, offsetsOf(s.pause()))
		},
		"while it reads": func(t *testing.T, s *source, b *broker, topic string) {
			b.produce(topic, 0, make([]string, 5000)...)
			next := map[int32]int64{}
			s.collect(0, 1000, next)
			b.grow(topic, 2)
			b.produce(topic, 0, make([]string, 5000)...)
			b.produce(topic, 2, make([]string, 3000)...)
			s.collect(2, 3000, next)
			s.collect(0, 10000-int(next[0]), next)
			require.Equal(t, []int64{10000, 0, 3000}, offsetsOf(s.pause()))
		},
		"while paused in a barrier": func(t *testing.T, s *source, b *broker, topic string) {
			b.produce(topic, 0, "x0")
			next := map[int32]int64{}
			s.collect(0, 1, next)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			state, err := s.Pause(ctx)
			require.NoError(t, err)
			b.grow(topic, 1)
			b.produce(topic, 1, "y0")
			s.awaitReading(2)
			require.Equal(t, []int64{1}, offsetsOf(state))
			waiting := s.background()
			stays(t, waiting)
			s.Resume()
			require.Equal(t, "y0", string(receive(t, waiting, "the record behind the barrier").Records[0].Value))
		},
		"with a failover right after": func(t *testing.T, s *source, b *broker, topic string) {
			before := s.pause()
			b.grow(topic, 1)
			b.produce(topic, 1, "x0", "x1", "x2")
			s.collect(1, 1, map[int32]int64{})
			require.NoError(t, s.Halt(t.Context()))
			s.Start(tag(2), before)
			next := map[int32]int64{}
			s.collect(1, 3, next)
			require.Equal(t, []int64{0, 3}, offsetsOf(s.pause()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := brokerAt(t, kafka.Bootstrap())
			topic := kafka.Topic(t, 1)
			s := newSource(t, discovering(b, 50*time.Millisecond, topic))
			s.resolve(nil)
			run(t, s, b, topic)
			require.Empty(t, s.seat.failed)
			require.Empty(t, s.seat.fatal)
			require.NotContains(t, s.log.String(), "level=WARN")
		})
	}
}

package kafkaflinksource

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/benthosx"
	"github.com/tidegate/tidegate/internal/checkpoint"
)

const patience = 20 * time.Second

// kafka is an embedded broker with one topic of two partitions.
type kafka struct {
	t      *testing.T
	addr   string
	client *kgo.Client
}

func startKafka(t *testing.T, port int) *kafka {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.SeedTopics(2, "orders"), kfake.ClusterID("c"))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return &kafka{t, c.ListenAddrs()[0], cl}
}

// produce writes records numbered from to to-1, in turn to both partitions.
func (k *kafka) produce(from, to int) {
	k.t.Helper()
	for i := from; i < to; i++ {
		require.NoError(k.t, k.client.ProduceSync(k.t.Context(), &kgo.Record{
			Topic: "orders", Partition: int32(i % 2), Key: []byte(strconv.Itoa(i)), Value: []byte(strconv.Itoa(i)),
		}).FirstErr())
	}
}

// committed is the sum of the group's committed offsets.
func (k *kafka) committed(group string) (sum int64) {
	k.t.Helper()
	resp, err := kadm.NewClient(k.client).FetchOffsets(k.t.Context(), group)
	if err != nil {
		return 0
	}
	resp.Each(func(o kadm.OffsetResponse) { sum += o.At })
	return sum
}

// stream is a Benthos stream that reads orders into a consumer function.
type stream struct {
	t      *testing.T
	stream *service.Stream
	done   chan error

	mu   sync.Mutex
	got  map[string]int
	tags map[uint64]bool
	meta map[string]any
}

// run starts a stream; consume may refuse a batch.
func run(t *testing.T, addr, store, more string, consume func(n int, batch service.MessageBatch) error) *stream {
	t.Helper()
	s := &stream{t: t, done: make(chan error, 1), got: make(map[string]int), tags: make(map[uint64]bool), meta: make(map[string]any)}
	b := service.NewStreamBuilder()
	require.NoError(t, b.SetLoggerYAML("level: off"))
	require.NoError(t, b.AddCacheYAML("label: state\n"+store))
	require.NoError(t, b.AddInputYAML(fmt.Sprintf(`
label: in
kafka_flink_source:
  bootstrap_servers: %s
  topics: [ orders ]
  group_id: g
  startup: { mode: earliest-offset }
  checkpoint: { interval: 20ms, store: state }
%s`, addr, more)))
	batches := 0
	require.NoError(t, b.AddBatchConsumerFunc(func(_ context.Context, batch service.MessageBatch) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		batches++
		if consume != nil {
			if err := consume(batches, batch); err != nil {
				return err
			}
		}
		for _, msg := range batch {
			body, err := msg.AsBytes()
			require.NoError(t, err)
			s.got[string(body)]++
			tag, _ := checkpoint.TagFrom(msg.Context())
			s.tags[tag.Attempt] = true
			require.NoError(t, msg.MetaWalkMut(func(k string, v any) error { s.meta[k] = v; return nil }))
		}
		return nil
	}))
	var err error
	s.stream, err = b.Build()
	require.NoError(t, err)
	go func() { s.done <- s.stream.Run(context.Background()) }()
	t.Cleanup(func() { _ = s.stream.StopWithin(time.Second) })
	return s
}

// seen waits until the numbers from 0 to n-1 were consumed.
func (s *stream) seen(n int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i := range n {
			if s.got[strconv.Itoa(i)] == 0 {
				return false
			}
		}
		return true
	}, patience, 5*time.Millisecond)
}

func (s *stream) ended() {
	s.t.Helper()
	select {
	case err := <-s.done:
		require.NoError(s.t, err)
	case <-time.After(patience):
		s.t.Fatal("the stream did not end")
	}
}

func TestBoundedStreamEndsByItselfWithEverythingCommitted(t *testing.T) {
	k := startKafka(t, 0)
	k.produce(0, 50)
	s := run(t, k.addr, "checkpoint_memory: {}", "  bounded: { mode: latest-offset }", nil)
	s.ended()
	s.seen(50)
	for body, n := range s.got {
		require.Equal(t, 1, n, body)
	}
	require.EqualValues(t, 50, k.committed("g"), "the group has the end positions when the stream has ended")
	require.Len(t, s.tags, 1)
	require.Equal(t, "orders", s.meta["kafka_topic"])
	require.IsType(t, int64(0), s.meta["kafka_offset"])
	require.IsType(t, int(0), s.meta["kafka_partition"])
	require.IsType(t, []byte(nil), s.meta["kafka_key"])
}

func TestRefusedBatchTakesTheStreamBackToItsLastCheckpoint(t *testing.T) {
	k := startKafka(t, 0)
	k.produce(0, 10)
	// Several batches may be on their way when the first one is refused.
	s := run(t, k.addr, "checkpoint_memory: {}", "", func(_ int, batch service.MessageBatch) error {
		if tag, _ := checkpoint.TagFrom(batch[0].Context()); tag.Attempt == 1 {
			return fmt.Errorf("not this time")
		}
		return nil
	})
	s.seen(10)
	k.produce(10, 20)
	s.seen(20)
	require.NoError(t, s.stream.StopWithin(patience))
	s.mu.Lock()
	defer s.mu.Unlock()
	require.False(t, s.tags[1], "nothing of the attempt that failed was consumed")
	require.True(t, s.tags[2])
	require.EqualValues(t, 20, k.committed("g"))
}

func TestGracefulStopsLoseNothingAndDoubleNothing(t *testing.T) {
	k := startKafka(t, 0)
	store := "pebble: { path: " + t.TempDir() + " }"
	total := make(map[string]int)
	for round := range 4 {
		k.produce(10*round, 10*round+10)
		s := run(t, k.addr, store, "", nil)
		require.Eventually(t, func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.got) > 0
		}, patience, time.Millisecond)
		// Wherever it is.
		require.NoError(t, s.stream.StopWithin(patience))
		s.ended()
		for body, n := range s.got {
			total[body] += n
		}
		sum := 0
		for _, n := range total {
			sum += n
		}
		require.EqualValues(t, sum, k.committed("g"), "the group has what was consumed")
	}
	s := run(t, k.addr, store, "  bounded: { mode: latest-offset }", nil)
	s.ended()
	for body, n := range s.got {
		total[body] += n
	}
	require.Len(t, total, 40)
	for body, n := range total {
		require.Equal(t, 1, n, body)
	}
}

// TestStopsAtAnyMomentLoseNothingAndDoubleNothing stops streams while records keep coming and the consumer is slow, so
// that batches are found in every place: fetched, handed over, never taken, consumed.
func TestStopsAtAnyMomentLoseNothingAndDoubleNothing(t *testing.T) {
	k := startKafka(t, 0)
	store := "pebble: { path: " + t.TempDir() + " }"
	const records = 400
	produced := make(chan struct{})
	go func() {
		defer close(produced)
		k.produce(0, records)
	}()
	total := make(map[string]int)
	add := func(s *stream) {
		s.ended()
		for body, n := range s.got {
			total[body] += n
		}
	}
	for round := range 12 {
		consumed := make(chan struct{}, records)
		s := run(t, k.addr, store, "", func(int, service.MessageBatch) error {
			consumed <- struct{}{}
			<-time.After(time.Duration(rand.IntN(4)) * time.Millisecond)
			return nil
		})
		for range rand.IntN(8) {
			select {
			case <-consumed:
			case <-time.After(200 * time.Millisecond): // nothing more to come
			}
		}
		require.Eventually(t, func() bool { return s.stream.StopWithin(patience) == nil }, patience, time.Millisecond, "round %d", round)
		add(s)
	}
	<-produced
	s := run(t, k.addr, store, "  bounded: { mode: latest-offset }", nil)
	add(s)
	require.Len(t, total, records)
	for body, n := range total {
		require.Equal(t, 1, n, body)
	}
	require.EqualValues(t, records, k.committed("g"))
}

func TestStreamWaitsForABrokerThatIsAwayAtTheStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	s := run(t, l.Addr().String(), "checkpoint_memory: {}", "", nil)
	k := startKafka(t, port)
	k.produce(0, 3)
	s.seen(3)
	require.NoError(t, s.stream.StopWithin(patience))
}

func TestStopBeforeAnyConnectionIsQuick(t *testing.T) {
	s := run(t, "127.0.0.1:1", "checkpoint_memory: {}", "", nil)
	require.Eventually(t, func() bool { return s.stream.StopWithin(patience) == nil }, patience, time.Millisecond)
	s.ended()
}

func TestSourceAsAResourceIsRefused(t *testing.T) {
	b := service.NewStreamBuilder()
	require.NoError(t, b.SetYAML(`
logger: { level: off }
input_resources:
  - label: shared
    kafka_flink_source:
      bootstrap_servers: localhost:9092
      topics: [ orders ]
      group_id: g
      checkpoint: { interval: 1s, store: state }
input: { resource: shared }
output: { drop: {} }
`))
	s, err := b.Build()
	require.NoError(t, err, "Benthos builds a resource only when it is used")
	ended := make(chan error, 1)
	defer benthosx.ReplaceExit(func(cause error) { ended <- cause })()
	go func() { _ = s.Run(context.Background()) }()
	require.ErrorContains(t, <-ended, `input_resources "shared": a kafka_flink_source cannot be a resource`)
	require.NoError(t, s.StopWithin(patience))
}

// Benthos builds inputs that it never starts nor closes, for connection tests and config tests.
func TestConstructorLeavesNothingBehind(t *testing.T) {
	build := func() {
		conf, err := spec().ParseYAML(minimal, nil)
		require.NoError(t, err)
		_, err = newInput(conf, service.MockResources())
		require.NoError(t, err)
	}
	build()
	runtime.GC()
	before := runtime.NumGoroutine()
	for range 20 {
		build()
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before+2)
}

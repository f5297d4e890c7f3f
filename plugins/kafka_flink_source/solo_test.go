package kafkaflinksource

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// soloInput is the source without checkpoints, as one input of several.
const soloInput = `
kafka_flink_source:
  bootstrap_servers: ADDR
  topics: [ orders ]
  group_id: g
  startup: { mode: group-offsets, offset_reset: earliest }
  auto_commit: { interval: 20ms }
`

// runSolo starts a stream of inputs without checkpoints. Its parts are YAML with ADDR for the broker.
func runSolo(t *testing.T, addr, input, buffer string, threads int, consume func(n int, batch service.MessageBatch) error) *stream {
	t.Helper()
	s := &stream{t: t, done: make(chan error, 1), got: make(map[string]int), tags: make(map[uint64]bool), meta: make(map[string]any)}
	b := service.NewStreamBuilder()
	require.NoError(t, b.SetLoggerYAML("level: off"))
	require.NoError(t, b.AddInputYAML(strings.ReplaceAll(input, "ADDR", addr)))
	if buffer != "" {
		require.NoError(t, b.SetBufferYAML(buffer))
	}
	b.SetThreads(threads)
	require.NoError(t, b.AddProcessorYAML("mapping: root = content()"))
	batches := 0
	require.NoError(t, b.AddBatchConsumerFunc(func(_ context.Context, batch service.MessageBatch) error {
		s.mu.Lock()
		batches++
		n := batches
		s.mu.Unlock()
		if consume != nil {
			if err := consume(n, batch); err != nil {
				return err
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, msg := range batch {
			body, err := msg.AsBytes()
			require.NoError(t, err)
			s.got[string(body)]++
			tag, _ := checkpoint.TagFrom(msg.Context())
			require.Nil(t, tag.Stream, "no sink may drop it")
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

func TestWithoutCheckpointsAnythingMayStandAroundTheSource(t *testing.T) {
	bounded := strings.TrimSpace(soloInput) + "\n  bounded: { mode: latest-offset }"
	indented := strings.ReplaceAll(bounded, "\n", "\n      ")
	for name, tc := range map[string]struct {
		input, buffer string
		threads       int
		times         int // each record comes
	}{
		"alone":           {input: bounded, threads: 1, times: 1},
		"several threads": {input: bounded, threads: 8, times: 1},
		"a buffer":        {input: bounded, buffer: "memory: {}", threads: 1, times: 1},
		// The second goes on from the offsets that the first has committed at its end.
		"a sequence": {input: "sequence:\n  inputs:\n    - " + indented + "\n    - " + indented + "\n    - generate: { mapping: 'root = \"0\"', count: 1, interval: '' }", threads: 1, times: 1},
		"another input": {
			input:   "broker:\n  inputs:\n    - " + indented + "\n    - generate: { mapping: 'root = \"other\"', count: 1, interval: '' }",
			threads: 1, times: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := startKafka(t, 0)
			k.produce(1, 50)
			s := runSolo(t, k.addr, tc.input, tc.buffer, tc.threads, nil)
			s.ended()
			delete(s.got, "other")
			delete(s.got, "0")
			require.Len(t, s.got, 49)
			for body, n := range s.got {
				require.Equal(t, tc.times, n, body)
			}
			require.EqualValues(t, 49, k.committed("g"))
		})
	}
}

// One batch of several in flight is refused; nothing is lost, and the group is never ahead of what was consumed.
func TestWithoutCheckpointsARefusedBatchComesAgain(t *testing.T) {
	k := startKafka(t, 0)
	const records = 200
	k.produce(0, records/2) // at least one batch
	var producing sync.WaitGroup
	refused := false
	var mu sync.Mutex
	s := runSolo(t, k.addr, soloInput, "", 4, func(n int, _ service.MessageBatch) error {
		mu.Lock()
		defer mu.Unlock()
		if n == 1 {
			producing.Go(func() { k.produce(records/2, records) }) // and at least one more
		}
		if n >= 2 && !refused {
			refused = true
			return errors.New("not this time")
		}
		return nil
	})
	s.seen(records)
	producing.Wait()
	require.NoError(t, s.stream.StopWithin(patience))
	s.ended()
	require.True(t, refused)
	require.EqualValues(t, records, k.committed("g"), "the stop commits what is acknowledged")
}

func TestWithoutCheckpointsGracefulStopsLoseAndDoubleNothing(t *testing.T) {
	k := startKafka(t, 0)
	total := make(map[string]int)
	for round := range 4 {
		k.produce(10*round, 10*round+10)
		s := runSolo(t, k.addr, soloInput, "", 1, nil)
		require.Eventually(t, func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.got) > 0
		}, patience, time.Millisecond)
		require.NoError(t, s.stream.StopWithin(patience))
		s.ended()
		sum := 0
		for body, n := range s.got {
			total[body] += n
		}
		for _, n := range total {
			sum += n
		}
		require.EqualValues(t, sum, k.committed("g"))
	}
	s := runSolo(t, k.addr, soloInput+"  bounded: { mode: latest-offset }", "", 1, nil)
	s.ended()
	for body, n := range s.got {
		total[body] += n
	}
	require.Len(t, total, 40)
	for body, n := range total {
		require.Equal(t, 1, n, body)
	}
}

// A stop that the engine cannot finish in time, since a batch hangs in the output, still commits what is acknowledged.
func TestWithoutCheckpointsAHardStopCommitsThePrefix(t *testing.T) {
	k := startKafka(t, 0)
	k.produce(0, 10)
	release := make(chan struct{})
	defer close(release)
	var once sync.Once
	hanging := make(chan struct{})
	s := runSolo(t, k.addr, soloInput, "", 1, func(_ int, batch service.MessageBatch) error {
		for _, msg := range batch {
			if body, _ := msg.AsBytes(); string(body) == "10" {
				once.Do(func() { close(hanging) })
				<-release
			}
		}
		return nil
	})
	s.seen(10)
	k.produce(10, 11)
	<-hanging
	_ = s.stream.StopWithin(2 * time.Second)
	require.Eventually(t, func() bool { return k.committed("g") == 10 }, patience, 10*time.Millisecond)
}

package kafkaflinksink

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/benthosx"
)

const patience = 20 * time.Second

func startKafka(t *testing.T, topics ...string) (*kfake.Cluster, string) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topics...))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c, c.ListenAddrs()[0]
}

// read returns the first n records of a topic.
func read(t *testing.T, addr, topic string, n int, opts ...kgo.Opt) []*kgo.Record {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic))...)
	require.NoError(t, err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out []*kgo.Record
	for len(out) < n {
		fetches := cl.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		out = append(out, fetches.Records()...)
	}
	return out
}

// logs collects what Benthos logs.
type logs struct {
	mu    sync.Mutex
	lines []string
}

func (l *logs) Enabled(context.Context, slog.Level) bool { return true }
func (l *logs) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logs) WithGroup(string) slog.Handler            { return l }

func (l *logs) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, r.Level.String()+" "+r.Message)
	return nil
}

func (l *logs) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.lines, func(line string) bool { return strings.Contains(line, text) })
}

// run starts a stream of one sink and returns what writes batches to it. The stream is stopped at the test's end.
func run(t *testing.T, yaml string) (write service.MessageBatchHandlerFunc, l *logs) {
	t.Helper()
	l = &logs{}
	b := service.NewStreamBuilder()
	b.SetLogger(slog.New(l))
	write, err := b.AddBatchProducerFunc()
	require.NoError(t, err)
	require.NoError(t, b.AddOutputYAML("label: out\nkafka_flink_sink:\n"+yaml))
	stream, err := b.Build()
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = stream.Run(context.Background())
	}()
	t.Cleanup(func() {
		_ = stream.StopWithin(5 * time.Second)
		<-done
	})
	return write, l
}

// TestPlainCopyThroughBenthosIsByteForByte also shows that a stream without a checkpointed source is written to without
// one: a batch is acknowledged when the broker has it.
func TestPlainCopyThroughBenthosIsByteForByte(t *testing.T) {
	_, addr := startKafka(t, "copy")
	write, _ := run(t, fmt.Sprintf("  bootstrap_servers: %s\n  topic: copy\n", addr))
	var batch service.MessageBatch
	for _, r := range awkward {
		batch = append(batch, sourceMessage(r))
	}
	require.NoError(t, write(t.Context(), batch))
	for i, got := range read(t, addr, "copy", len(awkward)) {
		want := awkward[i]
		require.Equal(t, want.Key, got.Key, "record %d", i)
		require.Equal(t, want.Value, got.Value, "record %d", i)
		require.Len(t, got.Headers, len(want.Headers), "record %d", i)
		for h := range want.Headers {
			require.Equal(t, want.Headers[h], got.Headers[h], "record %d, header %d", i, h)
		}
		if !want.Timestamp.IsZero() {
			require.Equal(t, want.Timestamp.UnixMilli(), got.Timestamp.UnixMilli(), "record %d", i)
		} else {
			require.WithinDuration(t, time.Now(), got.Timestamp, time.Minute, "record %d", i)
		}
	}
}

// TestTransactionalWriteThroughBenthosIsAcknowledgedOnceCommitted: without a checkpointed source each write has the
// outcome of its transaction, and a batch that cannot be written is handed back alone.
func TestTransactionalWriteThroughBenthosIsAcknowledgedOnceCommitted(t *testing.T) {
	_, addr := startKafka(t, "copy")
	write, _ := run(t, fmt.Sprintf("  bootstrap_servers: %s\n  topic: ${! @topic.or(\"copy\") }\n  max_in_flight: 8\n"+
		"  delivery_guarantee: exactly-once\n  transactional_id_prefix: job\n", addr))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			msg := service.NewMessage(fmt.Appendf(nil, "%d", i))
			if i == 3 {
				msg.MetaSetMut("topic", "absent")
			}
			err := write(t.Context(), service.MessageBatch{msg})
			if i == 3 {
				require.ErrorContains(t, err, "does not exist")
			} else {
				require.NoError(t, err)
			}
		})
	}
	wg.Wait()
	var values []string
	for _, r := range read(t, addr, "copy", 7, kgo.FetchIsolationLevel(kgo.ReadCommitted())) {
		values = append(values, string(r.Value))
	}
	slices.Sort(values)
	require.Equal(t, []string{"0", "1", "2", "4", "5", "6", "7"}, values)
}

func TestBatchThatCannotBeBuiltIsRefusedAsAWhole(t *testing.T) {
	_, addr := startKafka(t, "copy")
	write, _ := run(t, fmt.Sprintf("  bootstrap_servers: %s\n  topic: copy\n", addr))
	bad := service.NewMessage([]byte("bad"))
	bad.MetaSetMut("kafka_key", []any{})
	err := write(t.Context(), service.MessageBatch{service.NewMessage([]byte("good")), bad})
	require.ErrorContains(t, err, "message 1 of a batch of 2: `key`: ")
	require.NoError(t, write(t.Context(), service.MessageBatch{service.NewMessage([]byte("next"))}))
	require.Equal(t, "next", string(read(t, addr, "copy", 1)[0].Value))
}

// TestBrokerAwayAtStartIsTriedAgainWithItsAddressInTheLog: and the stream goes on when it comes.
func TestBrokerAwayAtStartIsTriedAgainWithItsAddressInTheLog(t *testing.T) {
	first, addr := startKafka(t, "copy")
	first.Close()
	write, l := run(t, fmt.Sprintf("  bootstrap_servers: %s\n  topic: copy\n", addr))
	require.Eventually(t, func() bool { return l.has("none of bootstrap_servers [" + addr + "] answered") }, patience, 10*time.Millisecond)
	var port int
	_, err := fmt.Sscanf(addr[strings.LastIndex(addr, ":")+1:], "%d", &port)
	require.NoError(t, err)
	again, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.SeedTopics(1, "copy"))
	require.NoError(t, err)
	t.Cleanup(again.Close)
	require.NoError(t, write(t.Context(), service.MessageBatch{service.NewMessage([]byte("late"))}))
	require.Equal(t, "late", string(read(t, addr, "copy", 1)[0].Value))
}

func TestMissingTopicIsToldAtTheStart(t *testing.T) {
	ended := make(chan error, 1)
	defer benthosx.ReplaceExit(func(cause error) { ended <- cause })()
	_, addr := startKafka(t, "other")
	_, l := run(t, fmt.Sprintf("  bootstrap_servers: %s\n  topic: copy\n", addr))
	require.ErrorContains(t, <-ended, `"copy" does not exist`, "nobody waits for a topic for ever")
	require.True(t, l.has(`"copy" does not exist`), "it was said before")
}

// TestBuildingHasNoSideEffect: Benthos builds outputs for a connection test, and never closes them.
func TestBuildingHasNoSideEffect(t *testing.T) {
	b := service.NewStreamBuilder()
	require.NoError(t, b.AddInputYAML("generate: { mapping: root = 1, count: 1 }"))
	require.NoError(t, b.AddOutputYAML("kafka_flink_sink: { bootstrap_servers: 'localhost:1', topic: copy }"))
	stream, err := b.Build()
	require.NoError(t, err)
	for range 2 {
		results, err := stream.ConnectionTest(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, results)
	}
}

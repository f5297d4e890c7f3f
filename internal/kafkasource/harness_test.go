package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/internal/offsets"
	"github.com/tidegate/tidegate/internal/splits"
	"github.com/tidegate/tidegate/tests/realkafka"
)

func TestMain(m *testing.M) { realkafka.Main(m) }

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// fakeSeat records what a Reader reports, and answers Close as a test wishes.
type fakeSeat struct {
	failed chan failure
	fatal  chan error
	atEnd  chan checkpoint.Tag
	closed chan bool
	// onClose is what a soft or hard Close does.
	onClose func(ctx context.Context, hard bool) error
}

type failure struct {
	tag   checkpoint.Tag
	cause error
}

func newSeat() *fakeSeat {
	return &fakeSeat{
		failed: make(chan failure, 100), fatal: make(chan error, 100), atEnd: make(chan checkpoint.Tag, 100),
		closed: make(chan bool, 100),
	}
}

func (s *fakeSeat) Failed(tag checkpoint.Tag, cause error) { s.failed <- failure{tag, cause} }
func (s *fakeSeat) Fatal(cause error)                      { s.fatal <- cause }
func (s *fakeSeat) AtEnd(tag checkpoint.Tag)               { s.atEnd <- tag }
func (s *fakeSeat) Close(ctx context.Context, hard bool) error {
	s.closed <- hard
	if s.onClose != nil {
		return s.onClose(ctx, hard)
	}
	return nil
}

// lines is a log that tests read.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// source is a Reader with a fake seat, connected to a cluster.
type source struct {
	*Reader
	t    testing.TB
	seat *fakeSeat
	log  *lines
}

func baseConfig(servers []string, topics ...string) Config {
	return Config{
		Key:          "in",
		Connection:   kafkaclient.Config{BootstrapServers: servers},
		Subscription: splits.Subscription{Topics: topics},
		Start:        offsets.Start{Mode: offsets.EarliestStart},
		Stop:         offsets.Stop{Mode: offsets.Unbounded},
		Restore:      offsets.Restore{Policy: offsets.FailOutOfRange},
		// Tests that do not look at these wait for nothing.
		ProbeInterval: 200 * time.Millisecond,
	}
}

func newSource(t testing.TB, cfg Config) *source {
	t.Helper()
	s := &source{t: t, seat: newSeat(), log: &lines{}}
	cfg.Logger = slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	s.Reader, err = New(cfg, s.seat)
	require.NoError(t, err)
	require.NoError(t, s.Connect(t.Context()))
	t.Cleanup(func() {
		s.seat.onClose = nil
		_ = s.Close(context.Background())
	})
	return s
}

func tag(attempt uint64) checkpoint.Tag { return checkpoint.Tag{Attempt: attempt} }

// resolve resolves and begins attempt 1.
func (s *source) resolve(restored *checkpoint.SourceState) checkpoint.SourceState {
	s.t.Helper()
	state, err := s.Resolve(s.t.Context(), restored)
	require.NoError(s.t, err)
	s.Start(tag(1), state)
	return state
}

// Next is what the engine makes of Next and AwaitReady.
func (s *source) Next(ctx context.Context) (Batch, error) {
	for {
		b, err := s.Reader.Next(ctx)
		if !errors.Is(err, ErrNotReady) {
			return b, err
		}
		if err := s.AwaitReady(ctx); err != nil {
			return Batch{}, err
		}
	}
}

// next returns the next batch within the test's patience.
func (s *source) next() Batch {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	b, err := s.Next(ctx)
	require.NoError(s.t, err)
	require.NotEmpty(s.t, b.Records)
	return b
}

// read reads and acknowledges until n records have come, and returns them as "topic-partition@offset=value".
func (s *source) read(n int) []string {
	s.t.Helper()
	var got []string
	for len(got) < n {
		b := s.next()
		for _, r := range b.Records {
			got = append(got, fmt.Sprintf("%s-%d@%d=%s", r.Topic, r.Partition, r.Offset, r.Value))
		}
		b.Ack(s.t.Context(), nil)
	}
	require.Len(s.t, got, n, "%v", got)
	return got
}

// pause pauses and resumes, and returns the positions.
func (s *source) pause() checkpoint.SourceState {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	state, err := s.Pause(ctx)
	require.NoError(s.t, err)
	s.Resume()
	return state
}

// awaitPaused returns once a Pause that another goroutine called has stopped the source.
func (s *source) awaitPaused() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.att != nil && s.att.paused
	}, patience, time.Millisecond)
}

// background runs Next in a goroutine and returns what it returned.
func (s *source) background() <-chan nextResult {
	out := make(chan nextResult, 1)
	go func() {
		b, err := s.Next(s.t.Context())
		out <- nextResult{b, err}
	}()
	return out
}

type nextResult struct {
	Batch
	err error
}

// receive takes one value within the test's patience.
func receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not come within %v", what, patience)
		panic("unreachable")
	}
}

// stays makes sure that nothing comes, as far as a short while can tell.
func stays[T any](t testing.TB, ch <-chan T) {
	t.Helper()
	select {
	case v := <-ch:
		t.Fatalf("this should not have come: %+v", v)
	case <-time.After(50 * time.Millisecond):
	}
}

// offsetsOf are the offsets of a state's splits, in order.
func offsetsOf(s checkpoint.SourceState) []int64 {
	out := make([]int64, len(s.Splits))
	for i, p := range s.Splits {
		out[i] = p.Offset
	}
	return out
}

// broker is a Kafka cluster of a test, embedded or real.
type broker struct {
	t       testing.TB
	servers []string
	client  *kgo.Client
	admin   *kadm.Client
}

func fakeBroker(t testing.TB, partitions int32, topics ...string) *broker {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topics...), kfake.ClusterID("fake"))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return brokerAt(t, c.ListenAddrs())
}

func brokerAt(t testing.TB, servers []string) *broker {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(servers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(50*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return &broker{t: t, servers: servers, client: cl, admin: kadm.NewClient(cl)}
}

// produce writes values to a partition, one by one in order.
func (b *broker) produce(topic string, partition int32, values ...string) {
	b.t.Helper()
	records := make([]*kgo.Record, len(values))
	for i, v := range values {
		records[i] = &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)}
	}
	require.NoError(b.t, b.client.ProduceSync(b.t.Context(), records...).FirstErr())
}

// produceAt writes values with timestamps from ms, in milliseconds since the epoch, one apart.
func (b *broker) produceAt(topic string, partition int32, ms int64, values ...string) {
	b.t.Helper()
	records := make([]*kgo.Record, len(values))
	for i, v := range values {
		records[i] = &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v), Timestamp: time.UnixMilli(ms + int64(i))}
	}
	require.NoError(b.t, b.client.ProduceSync(b.t.Context(), records...).FirstErr())
}

// transact writes values in one transaction, and commits or aborts it.
func (b *broker) transact(topic string, partition int32, commit bool, values ...string) {
	b.t.Helper()
	cl, end := b.openTransaction(topic, partition, values...)
	require.NoError(b.t, end(commit))
	cl.Close()
}

// openTransaction writes values in a transaction and leaves it open.
func (b *broker) openTransaction(topic string, partition int32, values ...string) (*kgo.Client, func(commit bool) error) {
	b.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.servers...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.TransactionalID(realkafka.Name(b.t)), kgo.MetadataMinAge(50*time.Millisecond))
	require.NoError(b.t, err)
	b.t.Cleanup(cl.Close)
	require.NoError(b.t, cl.BeginTransaction())
	for _, v := range values {
		require.NoError(b.t, cl.ProduceSync(b.t.Context(),
			&kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)}).FirstErr())
	}
	return cl, func(commit bool) error {
		return cl.EndTransaction(context.Background(), kgo.TransactionEndTry(commit))
	}
}

// endOffset is the log end of a partition.
func (b *broker) endOffset(topic string, partition int32) int64 {
	b.t.Helper()
	listed, err := b.admin.ListEndOffsets(b.t.Context(), topic)
	require.NoError(b.t, err)
	o, ok := listed.Lookup(topic, partition)
	require.True(b.t, ok)
	require.NoError(b.t, o.Err)
	return o.Offset
}

// awaitEnd waits for the markers of ended transactions, which the coordinator writes after it has answered.
func (b *broker) awaitEnd(topic string, end int64) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		// A topic that is new may be missing in the first answers.
		listed, err := b.admin.ListEndOffsets(b.t.Context(), topic)
		o, ok := listed.Lookup(topic, 0)
		return err == nil && ok && o.Err == nil && o.Offset == end
	}, patience, 10*time.Millisecond)
}

// committed are the group's committed offsets of a topic, by partition.
func (b *broker) committed(group, topic string) []kadm.Offset {
	b.t.Helper()
	resp, err := b.admin.FetchOffsets(b.t.Context(), group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil
	}
	require.NoError(b.t, err)
	var out []kadm.Offset
	resp.Each(func(o kadm.OffsetResponse) {
		if o.Topic == topic {
			out = append(out, o.Offset)
		}
	})
	slices.SortFunc(out, func(a, b kadm.Offset) int { return int(a.Partition - b.Partition) })
	return out
}

// commit commits offsets by hand, partition i at at[i].
func (b *broker) commit(group, topic string, at ...int64) {
	b.t.Helper()
	var os kadm.Offsets
	for i, o := range at {
		os.AddOffset(topic, int32(i), o, -1)
	}
	require.NoError(b.t, b.admin.CommitAllOffsets(b.t.Context(), group, os))
}

// deleteRecords moves a partition's log start.
func (b *broker) deleteRecords(topic string, partition int32, before int64) {
	b.t.Helper()
	var os kadm.Offsets
	os.AddOffset(topic, partition, before, -1)
	resp, err := b.admin.DeleteRecords(b.t.Context(), os)
	require.NoError(b.t, err)
	require.NoError(b.t, resp.Error())
}

var errNotDelivered = errors.New("sink said no")

package kafkasink

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/tests/realkafka"
)

func TestMain(m *testing.M) { realkafka.Main(m) }

// seat is a coordinator's end that notes what it is told.
type seat struct {
	unchecked bool // without checkpoints
	tooShort  error

	mu     sync.Mutex
	failed []string
	fatal  []error
	told   chan struct{} // capacity 1
}

func newSeat() *seat { return &seat{told: make(chan struct{}, 1)} }

func (s *seat) Checkpointed() bool                          { return !s.unchecked }
func (s *seat) CheckTransactionTimeout(time.Duration) error { return s.tooShort }
func (s *seat) ClaimIDs(string) error                       { return nil }

func (s *seat) Failed(tag checkpoint.Tag, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = append(s.failed, fmt.Sprintf("attempt %d: %v", tag.Attempt, cause))
	s.tell()
}

func (s *seat) Fatal(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fatal = append(s.fatal, cause)
	s.tell()
}

func (s *seat) tell() {
	select {
	case s.told <- struct{}{}:
	default:
	}
}

func (s *seat) failures() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.failed)
}

func (s *seat) fatals() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.fatal)
}

var (
	ours   = new(checkpoint.Stream)
	theirs = new(checkpoint.Stream)
)

func tag(attempt uint64) checkpoint.Tag { return checkpoint.Tag{Stream: ours, Attempt: attempt} }

// rig is a sink on some cluster.
type rig struct {
	*Sink
	seat    *seat
	addrs   []string
	topic   string
	dropped atomic.Int64
	gone    atomic.Int64 // lost
}

type option func(*Config, *seat)

func newRig(t *testing.T, addrs []string, topic string, options ...option) *rig {
	t.Helper()
	r := &rig{seat: newSeat(), addrs: addrs, topic: topic}
	cfg := Config{
		Stream: ours, Seat: r.seat, Key: "out", Client: []kgo.Opt{kgo.SeedBrokers(addrs...)},
		Log:     slog.New(slog.NewTextHandler(io.Discard, nil)),
		Metrics: Metrics{Dropped: func(n int) { r.dropped.Add(int64(n)) }, Lost: func(n int) { r.gone.Add(int64(n)) }},
	}
	for _, o := range options {
		o(&cfg, r.seat)
	}
	r.Sink = New(cfg)
	t.Cleanup(r.Close)
	return r
}

// fakeRig is connected to a cluster of kfake, which tells the truth about plain producing.
func fakeRig(t *testing.T, options ...option) (*rig, *kfake.Cluster) {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	require.NoError(t, err)
	t.Cleanup(fake.Close)
	r := newRig(t, fake.ListenAddrs(), "t", options...)
	_, err = r.Connect(t.Context())
	require.NoError(t, err)
	return r, fake
}

// realRig is connected to Apache Kafka.
func realRig(t *testing.T, cluster *realkafka.Cluster, options ...option) *rig {
	t.Helper()
	r := newRig(t, cluster.Bootstrap(), cluster.Topic(t, 3), append([]option{exactlyOnce(realkafka.Name(t))}, options...)...)
	_, err := r.Connect(t.Context())
	require.NoError(t, err)
	return r
}

func exactlyOnce(prefix string) option {
	return func(c *Config, _ *seat) {
		c.Guarantee = ExactlyOnce
		c.Pool = checkpoint.Pool{Prefix: prefix, Size: 4}
	}
}

func guarantee(g Guarantee) option { return func(c *Config, _ *seat) { c.Guarantee = g } }
func unchecked(_ *Config, s *seat) { s.unchecked = true }

func window4(c *Config, _ *seat) { c.MaxBufferedRecords = 4 }

// batch makes one record for each value.
func (r *rig) batch(tag checkpoint.Tag, values ...string) []Record {
	out := make([]Record, len(values))
	for i, v := range values {
		out[i] = Record{Record: *newRecord(r.topic, []byte(v)), Tag: tag}
	}
	return out
}

func newRecord(topic string, text []byte) *kgo.Record {
	return &kgo.Record{Topic: topic, Key: text, Value: text, Timestamp: time.UnixMilli(1000)} // a copy of something old
}

func (r *rig) write(t *testing.T, tag checkpoint.Tag, values ...string) {
	t.Helper()
	require.NoError(t, r.WriteBatch(t.Context(), r.batch(tag, values...)))
}

// barrier flushes, seals and commits.
func (r *rig) barrier(t *testing.T, next int32) *checkpoint.Committable {
	t.Helper()
	require.NoError(t, r.Flush(t.Context()))
	c, err := r.Seal(next)
	require.NoError(t, err)
	if c != nil {
		verdict, err := r.Commit(t.Context(), *c)
		require.NoError(t, err)
		require.Equal(t, checkpoint.Committed, verdict)
	}
	return c
}

// values returns what a read_committed consumer sees of the topic, sorted.
func (r *rig) values(t *testing.T) []string {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.addrs...), kgo.ConsumeTopics(r.topic), kgo.KeepControlRecords(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	require.NoError(t, err)
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), r.topic)
	require.NoError(t, err)
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		require.NoError(t, o.Err)
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	var values []string
	for len(left) > 0 {
		fetches := cl.PollFetches(t.Context())
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(rec *kgo.Record) {
			if !rec.Attrs.IsControl() {
				values = append(values, string(rec.Value))
			}
			if end, ok := left[rec.Partition]; ok && rec.Offset+1 >= end {
				delete(left, rec.Partition)
			}
		})
	}
	slices.Sort(values)
	return values
}

// hold makes the fake broker answer no produce request until release is called; arrived is told of each.
func hold(t *testing.T, fake *kfake.Cluster) (arrived <-chan struct{}, release func()) {
	t.Helper()
	open, got := make(chan struct{}), make(chan struct{}, 100)
	fake.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		got <- struct{}{}
		fake.SleepControl(func() { <-open })
		return nil, nil, false
	})
	release = sync.OnceFunc(func() { close(open) })
	t.Cleanup(release)
	return got, release
}

// refuse makes the fake broker answer every produce request with an error.
func refuse(fake *kfake.Cluster, with *kerr.Error) {
	fake.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		return refusal(req, with), nil, true
	})
}

// answerOnce makes it answer the next one so.
func answerOnce(fake *kfake.Cluster, with *kerr.Error) {
	fake.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		return refusal(req, with), nil, true
	})
}

func refusal(req kmsg.Request, with *kerr.Error) kmsg.Response {
	produce := req.(*kmsg.ProduceRequest)
	resp := produce.ResponseKind().(*kmsg.ProduceResponse)
	for _, topic := range produce.Topics {
		t := kmsg.NewProduceResponseTopic()
		t.Topic, t.TopicID = topic.Topic, topic.TopicID
		for _, partition := range topic.Partitions {
			p := kmsg.NewProduceResponseTopicPartition()
			p.Partition, p.ErrorCode = partition.Partition, with.Code
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// blocked runs something that is to block and returns a channel that gets its error.
func blocked(t *testing.T, do func() error) <-chan error {
	t.Helper()
	out := make(chan error, 1)
	go func() { out <- do() }()
	return out
}

// writersInside waits until n writers have got into the outlet.
func (r *rig) writersInside(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.out != nil && r.out.writers == n
	}, 10*time.Second, time.Millisecond)
}

// soon returns a context for what must not take long.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func oneString(all []string) string { return strings.Join(all, "\n") }

// state is what the coordinator says of a transactional id.
func (r *rig) state(t *testing.T, id string) string {
	t.Helper()
	described, err := kadm.NewClient(r.broker.Client()).DescribeTransactions(t.Context(), id)
	require.NoError(t, err)
	return described[id].State
}

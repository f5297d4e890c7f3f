package topics

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// limit is how long anything may take on a busy machine.
const limit = 60 * time.Second

// World is a set of topics and groups under names of their own.
type World struct {
	t testing.TB
	// Bootstrap are the addresses of the brokers, Admin is a client for whatever a test does beside.
	Bootstrap []string
	Admin     *kadm.Client
	client    *kgo.Client
	// Prefix is that of the real names of its topics and groups.
	Prefix string
	// End ends the open transaction, where there is one.
	End func(commit bool)

	mu   sync.Mutex
	next map[string]int64 // guarded by mu; the offset that Append expects, by partition
}

// New makes an empty world, whose names begin with a prefix.
func New(t testing.TB, bootstrap []string, prefix string) *World {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(50*time.Millisecond), kgo.UnknownTopicRetries(-1))
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return &World{t: t, Bootstrap: bootstrap, client: cl, Admin: kadm.NewClient(cl), Prefix: prefix + ".", next: map[string]int64{}}
}

// Topic is the real name of a topic.
func (w *World) Topic(logical string) string { return w.Prefix + logical }

// Logical is the name here of a real topic.
func (w *World) Logical(topic string) string { return strings.TrimPrefix(topic, w.Prefix) }

// Group is the real name of a group.
func (w *World) Group(group string) string { return w.Prefix + group }

// Create makes a topic by the recipe of its name up to the first dash, so that pair-b is another pair.
func (w *World) Create(logical string) {
	w.t.Helper()
	kind, _, _ := strings.Cut(logical, "-")
	recipe, ok := recipes[kind]
	require.True(w.t, ok, logical)
	forEver := "-1"
	configs := map[string]*string{"retention.ms": &forEver}
	for k, v := range recipe.configs {
		configs[k] = &v
	}
	_, err := w.Admin.CreateTopic(w.t.Context(), recipe.partitions, 1, configs, w.Topic(logical))
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) { // a request that was sent twice
		require.NoError(w.t, err)
	}
	recipe.fill(w, w.Topic(logical))
}

// Commit makes a group that has committed what its name stands for; an empty name is no group.
func (w *World) Commit(group string, topics ...string) {
	w.t.Helper()
	if group == "" {
		return
	}
	var at kadm.Offsets
	for _, topic := range topics {
		kind, _, _ := strings.Cut(topic, "-")
		for p := range recipes[kind].partitions {
			if o, ok := groups[group](kind, p); ok {
				at.AddOffset(w.Topic(topic), p, o, -1)
			}
		}
	}
	if len(at) > 0 {
		require.NoError(w.t, w.Admin.CommitAllOffsets(w.t.Context(), w.Prefix+group, at))
	}
}

// Append writes n records whose values are their offsets and whose timestamps are as many seconds.
func (w *World) Append(topic string, p int32, n int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	key := fmt.Sprint(topic, p)
	records := make([]*kgo.Record, n)
	for i := range records {
		o := w.next[key]
		records[i] = &kgo.Record{Topic: topic, Partition: p, Key: []byte("k"), Value: []byte(strconv.FormatInt(o, 10)), Timestamp: time.UnixMilli(o * 1000)}
		w.next[key]++
	}
	require.NoError(w.t, w.client.ProduceSync(w.t.Context(), records...).FirstErr())
}

// AddPartitions gives a topic more partitions, and waits until Append can write to them.
func (w *World) AddPartitions(topic string, to int) {
	w.t.Helper()
	resp, err := w.Admin.UpdatePartitions(w.t.Context(), to, topic)
	require.NoError(w.t, err)
	require.NoError(w.t, resp.Error())
	require.Eventually(w.t, func() bool {
		w.client.ForceMetadataRefresh()
		leader, _, err := w.client.PartitionLeader(topic, int32(to-1))
		return err == nil && leader >= 0
	}, limit, 50*time.Millisecond)
}

// expect tells Append that offsets were used by others.
func (w *World) expect(topic string, p int32, offset int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next[fmt.Sprint(topic, p)] = offset
}

// Transact writes records with these values in a transaction of its own.
func (w *World) Transact(topic string, p int32, commit bool, values ...int64) {
	w.t.Helper()
	w.Begin(topic, p, values...)(commit)
}

// Begin writes records in a transaction and returns what ends that and waits for the marker, which comes after the
// broker's answer.
func (w *World) Begin(topic string, p int32, values ...int64) func(commit bool) {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.Bootstrap...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.TransactionalID(fmt.Sprintf("%s-%d-%d", topic, p, values[0])), kgo.MetadataMinAge(50*time.Millisecond),
		kgo.UnknownTopicRetries(-1))
	require.NoError(w.t, err)
	w.t.Cleanup(cl.Close)
	require.NoError(w.t, cl.BeginTransaction())
	for _, v := range values {
		require.NoError(w.t, cl.ProduceSync(w.t.Context(), &kgo.Record{
			Topic: topic, Partition: p, Value: []byte(strconv.FormatInt(v, 10)), Timestamp: time.UnixMilli(v * 1000),
		}).FirstErr())
	}
	end := values[len(values)-1] + 2 // behind the marker
	w.expect(topic, p, end)
	return func(commit bool) {
		require.NoError(w.t, cl.EndTransaction(context.Background(), kgo.TransactionEndTry(commit)))
		w.awaitEnd(topic, p, end)
	}
}

// DeleteBefore moves the start of a partition's log.
func (w *World) DeleteBefore(topic string, p int32, offset int64) {
	w.t.Helper()
	var at kadm.Offsets
	at.AddOffset(topic, p, offset, -1)
	resp, err := w.Admin.DeleteRecords(w.t.Context(), at)
	require.NoError(w.t, err)
	require.NoError(w.t, resp.Error())
}

func (w *World) awaitEnd(topic string, p int32, end int64) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		listed, err := w.Admin.ListEndOffsets(w.t.Context(), topic)
		o, ok := listed.Lookup(topic, p)
		return err == nil && ok && o.Err == nil && o.Offset == end
	}, limit, 20*time.Millisecond)
}

// first is the offset of the first record that a partition still has.
func (w *World) first(topic string, p int32) int64 {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.Bootstrap...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {p: kgo.NewOffset().AtStart()}}))
	require.NoError(w.t, err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	records := cl.PollRecords(ctx, 1).Records()
	require.Len(w.t, records, 1)
	return records[0].Offset
}

// Offsets are what a group has committed, by the names here.
func (w *World) Offsets(group string) map[string]int64 {
	out := map[string]int64{}
	resp, err := w.Admin.FetchOffsets(w.t.Context(), w.Prefix+group)
	if err != nil {
		return out // a group that has committed nothing yet
	}
	resp.Each(func(o kadm.OffsetResponse) { out[fmt.Sprintf("%s-%d", w.Logical(o.Topic), o.Partition)] = o.At })
	return out
}

package failures

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/tests/realkafka"
)

// bench is the cluster with a client of its own.
type bench struct {
	*realkafka.Cluster
	client *kgo.Client
	admin  *kadm.Client

	mu sync.Mutex
	// written is how many records each partition has, by "topic partition".
	written map[string]int64
}

func newBench(t *testing.T) *bench {
	t.Helper()
	cluster := realkafka.Start(t, realkafka.Options{Brokers: 3, Secure: &realkafka.Secure{
		Users: map[string]string{"alice": realkafka.Password}, Listeners: []string{realkafka.SASLPlaintext}, Authorizer: true}})
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Bootstrap()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(50*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return &bench{Cluster: cluster, client: client, admin: kadm.NewClient(client), written: map[string]int64{}}
}

// topic creates a topic whose partition i has the replicas i, the first of which is the preferred leader. Brokers are counted
// from 0.
func (b *bench) topic(t *testing.T, replicas ...[]int32) string {
	t.Helper()
	name := realkafka.Name(t)
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, -1, -1
	for i, of := range replicas {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(i), nodes(of)
		rt.ReplicaAssignment = append(rt.ReplicaAssignment, a)
	}
	if len(replicas[0]) == 1 { // min.insync.replicas of the brokers asks for two
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = "min.insync.replicas", kmsg.StringPtr("1")
		rt.Configs = append(rt.Configs, c)
	}
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(t.Context(), b.client)
	require.NoError(t, err)
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
		require.ErrorIs(t, err, kerr.TopicAlreadyExists) // the request was sent twice on a busy machine
	}
	return name
}

// everywhere are n partitions with a replica on each broker, whose leaders are spread.
func everywhere(n int) (replicas [][]int32) {
	for i := range int32(n) {
		replicas = append(replicas, []int32{i % 3, (i + 1) % 3, (i + 2) % 3})
	}
	return replicas
}

func nodes(brokers []int32) []int32 {
	ids := slices.Clone(brokers)
	for i := range ids {
		ids[i]++
	}
	return ids
}

// write adds n numbered records to a partition, in one batch.
func (b *bench) write(t *testing.T, topic string, partition int32, n int64) {
	t.Helper()
	at := fmt.Sprintf("%s %d", topic, partition)
	b.mu.Lock()
	first := b.written[at]
	b.written[at] += n
	b.mu.Unlock()
	var records []*kgo.Record
	for i := range n {
		records = append(records, &kgo.Record{Topic: topic, Partition: partition, Value: strconv.AppendInt(nil, first+i, 10)})
	}
	require.NoError(t, b.client.ProduceSync(t.Context(), records...).FirstErr())
}

// writing writes to all partitions of a topic until the function that it returns is called.
func (b *bench) writing(t *testing.T, topic string, partitions int32) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for p := range partitions {
		wg.Go(func() {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				b.write(t, topic, p, 5)
				<-tick.C
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return stop
}

// expected are the records of topics, each as the pipelines write it.
func (b *bench) expected(topics ...string) map[string]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[string]int64{}
	for at, n := range b.written {
		if topic, _, _ := strings.Cut(at, " "); slices.Contains(topics, topic) {
			all[at] = n
		}
	}
	return all
}

// observer reads what pipelines have written, as far as it is committed.
type observer struct {
	t      *testing.T
	client *kgo.Client
	// next is the number that has to come next of each partition.
	next map[string]int64
}

func (b *bench) observe(t *testing.T, topic string) *observer {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Bootstrap()...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(100*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return &observer{t: t, client: client, next: map[string]int64{}}
}

// until reads until so many records have come of each partition. Each record comes once and in its order.
func (o *observer) until(j *job, want map[string]int64) {
	o.t.Helper()
	reached := func() bool {
		for at, n := range want {
			if o.next[at] < n {
				return false
			}
		}
		return true
	}
	j.eventually(fmt.Sprintf("%v has come", want), func() bool {
		if reached() {
			return true
		}
		o.take(200 * time.Millisecond)
		return reached()
	})
}

// take reads once.
func (o *observer) take(wait time.Duration) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	o.client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
		topic, rest, _ := strings.Cut(string(r.Value), " ")
		partition, number, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseInt(number, 10, 64)
		require.NoError(o.t, err, string(r.Value))
		at := topic + " " + partition
		require.Equal(o.t, o.next[at], n, "the next record of %s, at offset %d", at, r.Offset)
		o.next[at]++
	})
}

// exactly looks for more than what is expected, once nobody writes any more.
func (o *observer) exactly(want map[string]int64) {
	o.t.Helper()
	o.take(time.Second)
	require.Equal(o.t, want, o.next)
}

// leaders are those of a topic's partitions, counted from 0; -1 for none.
func (b *bench) leaders(t *testing.T, topic string) (leaders []int32) {
	t.Helper()
	topics, err := b.admin.ListTopics(t.Context(), topic)
	require.NoError(t, err)
	for _, p := range topics[topic].Partitions.Sorted() {
		leaders = append(leaders, max(p.Leader, 0)-1)
	}
	return leaders
}

// coordinator is the broker that coordinates a transactional id.
func (b *bench) coordinator(t *testing.T, id string) int32 {
	t.Helper()
	var found kadm.FindCoordinatorResponse
	require.Eventually(t, func() bool { // the first who asks has the topic made
		found = b.admin.FindTxnCoordinators(t.Context(), id)[id]
		return found.Err == nil
	}, limit, 100*time.Millisecond)
	return found.NodeID - 1
}

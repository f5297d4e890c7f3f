package kafkasource

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/tests/realkafka"
)

// senders counts the records that each broker has sent, by its node id.
type senders struct {
	mu   sync.Mutex
	sent map[int32]int
}

func (s *senders) OnFetchBatchRead(from kgo.BrokerMetadata, _ string, _ int32, m kgo.FetchBatchMetrics) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent == nil {
		s.sent = map[int32]int{}
	}
	s.sent[from.NodeID] += m.NumRecords
}

func (s *senders) all() map[int32]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.sent)
}

// led makes a topic whose partitions are led by the given brokers, and have a replica on every one of three.
func (b *broker) led(topic string, leaders ...int32) {
	b.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, -1, -1
	for p, leader := range leaders {
		at := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		at.Partition = int32(p)
		for i := range int32(3) {
			at.Replicas = append(at.Replicas, (leader-1+i)%3+1)
		}
		rt.ReplicaAssignment = append(rt.ReplicaAssignment, at)
	}
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(b.t.Context(), b.client)
	require.NoError(b.t, err)
	require.NoError(b.t, kerr.ErrorForCode(resp.Topics[0].ErrorCode))
}

// numbered writes as many records to each of the partitions.
func (b *broker) numbered(topic string, partitions int32, each int) {
	b.t.Helper()
	var records []*kgo.Record
	for i := range each {
		for p := range partitions {
			records = append(records, &kgo.Record{Topic: topic, Partition: p, Value: fmt.Append(nil, i)})
		}
	}
	require.NoError(b.t, b.client.ProduceSync(b.t.Context(), records...).FirstErr())
}

// TestRackReadsFromTheNearestReplicaAndSurvivesItsDeath: no partition is led by the nearest broker, which is killed and comes
// back. In each partition every record comes once and in order, within one attempt.
func TestRackReadsFromTheNearestReplicaAndSurvivesItsDeath(t *testing.T) {
	t.Parallel()
	const nearest, each = 2, 500
	kafka := realkafka.Start(t, realkafka.Options{
		Brokers:    3,
		Properties: map[string]string{"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"},
		PerBroker:  []map[string]string{{"broker.rack": "a"}, {"broker.rack": "b"}, {"broker.rack": "c"}},
	})
	b := brokerAt(t, kafka.Bootstrap())
	topic := realkafka.Name(t)
	b.led(topic, 1, 3, 1)
	*b = *brokerAt(t, b.servers)
	cfg := baseConfig(b.servers, topic)
	cfg.Rack = "b"
	s, heard, next := newSource(t, cfg), &senders{}, map[int32]int64{}
	s.hooks = []kgo.Hook{heard}
	s.resolve(nil)
	read := func() {
		t.Helper()
		b.numbered(topic, 3, each)
		want := next[0] + each
		for p := range int32(3) {
			s.collect(p, int(want-next[p]), next)
		}
	}
	corruptNearby(t, kafka, b, nearest, cfg)
	read()
	require.Equal(t, map[int32]int{nearest: 3 * each}, heard.all(), "all from the nearest replica, though others lead")

	require.NoError(t, kafka.Kill(nearest-1))
	read()
	require.Equal(t, 3*each, heard.all()[1]+heard.all()[3], "the leaders have taken over")

	require.NoError(t, kafka.Restart(nearest-1))
	for deadline := time.Now().Add(2 * patience); heard.all()[nearest] == 3*each; read() {
		require.True(t, time.Now().Before(deadline), "it is used when it is back")
	}
	require.Empty(t, s.seat.failed)
	require.Empty(t, s.seat.fatal)
}

func TestWithoutARackLeadersAreRead(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	s := newSource(t, baseConfig(b.servers, "a"))
	s.resolve(nil)
	require.Empty(t, s.att.client.OptValue(kgo.Rack))
	require.Equal(t, replicaRecheck, s.att.client.OptValue(kgo.RecheckPreferredReplicaInterval))
}

package kafkasource

import (
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/splits"
)

func TestTopicDeletedWhileRunningEndsTheStream(t *testing.T) {
	for name, sub := range map[string]splits.Subscription{
		"of a list":      {Topics: []string{"a", "b"}},
		"of a partition": {Partitions: []splits.Partition{{Topic: "a"}, {Topic: "b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeBroker(t, 1, "a", "b")
			cfg := baseConfig(b.servers)
			cfg.MetadataInterval, cfg.Subscription = 20*time.Millisecond, sub
			s := newSource(t, cfg)
			s.resolve(nil)
			_, err := b.admin.DeleteTopics(t.Context(), "b")
			require.NoError(t, err)
			err = receive(t, s.seat.fatal, "the end")
			var gone *splits.VanishedError
			require.ErrorAs(t, err, &gone)
			require.Equal(t, []splits.Partition{{Topic: "b", Partition: 0}}, gone.Partitions)
		})
	}
}

func TestTopicRecreatedWhileRunningEndsTheStream(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	cfg := baseConfig(b.servers, "a")
	cfg.MetadataInterval = 20 * time.Millisecond
	s := newSource(t, cfg)
	state, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	_, err = b.admin.DeleteTopics(t.Context(), "a")
	require.NoError(t, err)
	_, err = b.admin.CreateTopic(t.Context(), 1, 1, nil, "a")
	require.NoError(t, err)
	s.Start(tag(1), state)
	err = receive(t, s.seat.fatal, "the end")
	var recreated *splits.RecreatedError
	require.ErrorAs(t, err, &recreated)
	require.Equal(t, "a", recreated.Topic)
}

// staleMetadata hides a partition in the answers that it is asked for.
func staleMetadata(c *kfake.Cluster, topic string, partition int32) (hide func(answers int32)) {
	var left atomic.Int32
	id := c.TopicInfo(topic).TopicID
	host, port, err := net.SplitHostPort(c.ListenAddrs()[0])
	if err != nil {
		panic(err)
	}
	at, _ := strconv.Atoi(port)
	c.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.MetadataRequest)
		asked := slices.ContainsFunc(req.Topics, func(t kmsg.MetadataRequestTopic) bool { return t.Topic != nil && *t.Topic == topic })
		if !asked || left.Add(-1) < 0 {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		resp.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 0, Host: host, Port: int32(at)}}
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.TopicID = kmsg.StringPtr(topic), id
		for n := range partition {
			p := kmsg.NewMetadataResponseTopicPartition()
			p.Partition, p.Leader = n, 0
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
		return resp, nil, true
	})
	return left.Store
}

// One broker has told of a partition, and the next one that is asked does not know it yet.
func TestPartitionThatOneBrokerDoesNotKnowYetIsNotGone(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "a"))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	b := brokerAt(t, c.ListenAddrs())
	cfg := baseConfig(b.servers, "a")
	cfg.MetadataInterval = never
	s := newSource(t, cfg)
	s.resolve(nil)
	hide := staleMetadata(c, "a", 1)
	hide(missingTries - 1)
	require.False(t, s.checkPartitions(t.Context(), s.att))
	hide(missingTries)
	require.True(t, s.checkPartitions(t.Context(), s.att))
	require.ErrorContains(t, receive(t, s.seat.fatal, "the end"), "partitions a 1 do not exist any more")
}

package operations

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/tests/kafkaproxy"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// frozen drops every answer of the brokers, while connections stay open.
func frozen() (rules []kafkaproxy.Rule) {
	for key := range kmsg.Key(kmsg.MaxKey + 1) {
		rules = append(rules, kafkaproxy.Rule{Key: key, Side: kafkaproxy.Answer, Effect: kafkaproxy.Drop})
	}
	return rules
}

// TestFrozenBrokersAreNotReadyUntilTheyAnswer: connections are open, and nothing comes through them. That is told after
// 30 s, in few lines, and once answers come again everything goes on by itself, with each record once.
func TestFrozenBrokersAreNotReadyUntilTheyAnswer(t *testing.T) {
	t.Parallel()
	cluster := realkafka.Shared(t)
	in, out := cluster.Topic(t, 2), cluster.Topic(t, 1)
	proxy, err := kafkaproxy.New(cluster.Bootstrap())
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	first, _ := feedReal(t, cluster, in)
	j := run(t, strings.Join(proxy.Bootstrap(), ","), in, out, strings.ReplaceAll(pipeline, ": job\n", ": "+realkafka.Name(t)+"\n"))
	j.becomes(http.StatusOK)
	committed := func() int64 { return int64(j.metric("kafka_sink_committed_records")) }
	j.eventually("everything is committed", func() bool { return committed() == first })
	before := len(j.lines("level="))
	proxy.Set(frozen()...)
	second, _ := feedReal(t, cluster, in)
	j.becomes(http.StatusServiceUnavailable)
	require.Len(t, j.lines("no broker has answered for a while"), 1, j.text())
	require.Positive(t, proxy.Clear())
	j.becomes(http.StatusOK)
	j.eventually("the rest is committed", func() bool { return committed() == first+second })
	require.Len(t, j.lines("a broker answers again"), 1)
	require.LessOrEqual(t, len(j.lines("level="))-before, 30, j.text())
	read := func() int64 { return int64(j.metric("kafka_source_records")) }
	j.eventually("the source's counts are published", func() bool { return read() >= first+second })
	require.Equal(t, first+second, read(), "nothing was read again")
}

// TestRefusalsOfSomeSecondsSayFewLines: one record in a hundred is refused for a while, each time with a restart. What
// the restarts say is bounded, and in the end each record is committed once.
func TestRefusalsOfSomeSecondsSayFewLines(t *testing.T) {
	t.Parallel()
	const records = 1000
	b := brokers(t, 0)
	until := time.Now().Add(5 * time.Second).Unix()
	j := run(t, b.Addrs()[0], "in", "out", refuse(fmt.Sprintf(`count("refusals") %% 100 == 99 && timestamp_unix() < %d`, until)))
	feed(t, b.Addrs(), records)
	j.eventually("everything is committed", func() bool { return j.metric("kafka_sink_committed_records") == records })
	require.Greater(t, j.metric("checkpoint_failovers"), 1.0, j.text())
	require.Len(t, j.lines("restarting from the last checkpoint"), 1, j.text())
	require.LessOrEqual(t, len(j.lines("component=checkpoint")), 5, j.text())
	// Benthos itself has a line for each record that a processor refuses.
	require.LessOrEqual(t, len(j.lines("level="))-len(j.lines("failed assignment")), 12, j.text())
}

// TestTopicThatIsDeniedWhileItIsReadEndsTheJobInFewLines: it is not tried for ever (rule 13), and the last line says which
// permission is missing.
func TestTopicThatIsDeniedWhileItIsReadEndsTheJobInFewLines(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "in", "out"), kfake.ClusterID("operations"))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	j := run(t, cluster.ListenAddrs()[0], "in", "out", pipeline)
	feed(t, cluster.ListenAddrs(), 100)
	j.eventually("everything is committed", func() bool { return j.metric("kafka_sink_committed_records") == 100 })
	before := len(j.lines("level="))
	cluster.ControlKey(kmsg.Fetch.Int16(), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return denied(kreq.(*kmsg.FetchRequest)), nil, true
	})
	<-j.Done()
	require.Error(t, j.Err())
	said := strings.Split(strings.TrimSpace(j.text()), "\n")
	require.Contains(t, said[len(said)-1], "fatal: ")
	require.Contains(t, said[len(said)-1], kerr.TopicAuthorizationFailed.Message)
	require.Contains(t, said[len(said)-1], "grant the ACL operation Read on resource Topic")
	require.LessOrEqual(t, len(j.lines("level="))-before, 10, j.text())
	require.Len(t, j.lines(kerr.TopicAuthorizationFailed.Message), 2, "the cause is one line of the log, and the last one of the process")
}

// denied answers a fetch as a broker does that lets the principal read nothing any more.
func denied(req *kmsg.FetchRequest) *kmsg.FetchResponse {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, kerr.TopicAuthorizationFailed.Code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

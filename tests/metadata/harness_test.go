package metadata

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	_ "github.com/redpanda-data/benthos/v4/public/components/io"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"

	"github.com/tidegate/tidegate/internal/devbroker"
	_ "github.com/tidegate/tidegate/plugins/kafka_flink_sink"
	_ "github.com/tidegate/tidegate/plugins/kafka_flink_source"
	"github.com/tidegate/tidegate/tests/realkafka"
)

func TestMain(m *testing.M) { realkafka.Main(m) }

const patience = 60 * time.Second

// job is a pipeline from the topic orders to the topic copy.
type job struct {
	// source and sink are more lines of their configs, processors is a list in YAML.
	source, processors, sink string
	// output replaces the sink; SINK in it stands for the sink with an own label.
	output string
}

const jobConfig = `
logger: { level: off }
cache_resources: [ { label: memory, memory: {} } ]
input:
  kafka_flink_source:
    bootstrap_servers: %[1]s
    topics: [ orders ]
    startup: { mode: earliest-offset }
    bounded: { mode: latest-offset }
    %[2]s
pipeline:
  threads: 1
  processors: %[3]s
output: %[4]s
`

func (j job) config(addr string) string {
	sink := func(topic, more string) string {
		return fmt.Sprintf("{ bootstrap_servers: %q, topic: %s%s }", addr, topic, more)
	}
	more := ""
	if j.sink != "" {
		more = ", " + j.sink
	}
	output := j.output
	if output == "" {
		// What the sink refuses is written down with the reason, by a record that nothing is wrong with.
		output = "{ fallback: [ { kafka_flink_sink: SINK }, { kafka_flink_sink: " + sink("refused", "") +
			`, processors: [ { mapping: "root = @fallback_error\nmeta = deleted()" } ] } ] }`
	}
	processors := j.processors
	if processors == "" {
		processors = "[]"
	}
	return fmt.Sprintf(jobConfig, addr, j.source, processors, strings.ReplaceAll(output, "SINK", sink("copy", more)))
}

// run writes the records, as one batch, runs the job until it ends by itself, and returns what it has written.
func (j job) run(t *testing.T, records ...*kgo.Record) (written []*kgo.Record, refused []string) {
	t.Helper()
	broker, err := devbroker.Start(devbroker.Options{Topics: []devbroker.Topic{
		{Name: "orders", Partitions: 1}, {Name: "copy", Partitions: 1}, {Name: "refused", Partitions: 1},
	}})
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	produce(t, broker.Addrs(), "orders", records)

	runStream(t, j.config(broker.Addrs()[0]))
	for _, r := range readAll(t, broker.Addrs(), "refused") {
		refused = append(refused, string(r.Value))
	}
	return readAll(t, broker.Addrs(), "copy"), refused
}

// runStream runs a config in this process until it ends by itself.
func runStream(t *testing.T, config string) {
	t.Helper()
	b := service.NewStreamBuilder()
	require.NoError(t, b.SetYAML(config), config)
	stream, err := b.Build()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, stream.Run(ctx), config)
}

func produce(t *testing.T, addrs []string, topic string, records []*kgo.Record) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.DefaultProduceTopic(topic), kgo.ManualFlushing(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer cl.Close()
	for _, r := range records {
		cl.Produce(t.Context(), r, func(_ *kgo.Record, err error) { require.NoError(t, err) })
	}
	require.NoError(t, cl.Flush(t.Context()))
}

// readAll reads the one partition of a topic to its end.
func readAll(t *testing.T, addrs []string, topic string) []*kgo.Record {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	require.NoError(t, err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	require.NoError(t, err)
	end, ok := ends.Lookup(topic, 0)
	require.True(t, ok)
	var out []*kgo.Record
	for next := int64(0); next < end.Offset; {
		fetches := cl.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		for _, r := range fetches.Records() {
			next = r.Offset + 1
			if !r.Attrs.IsControl() {
				out = append(out, r)
			}
		}
	}
	return out
}

// show writes a record down as the page does.
func show(r *kgo.Record) string {
	headers := make([]string, len(r.Headers))
	for i, h := range r.Headers {
		headers[i] = showBytes([]byte(h.Key)) + "=" + showBytes(h.Value)
	}
	ts := strconv.FormatInt(r.Timestamp.UnixMilli(), 10)
	if time.Since(r.Timestamp) < time.Hour {
		ts = "now"
	}
	return fmt.Sprintf("%s : %s [%s] %s", showBytes(r.Key), showBytes(r.Value), strings.Join(headers, " "), ts)
}

func showBytes(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case !utf8.Valid(b), slices.ContainsFunc(b, func(c byte) bool { return c < ' ' }):
		return strconv.QuoteToASCII(string(b))
	case len(b) > 0 && (b[0] == '{' || b[0] == '['):
		return string(b)
	}
	return "'" + string(b) + "'"
}

package kafkaflinksource

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/tests/realkafka"
)

var (
	filterRecords = flag.Int("filter.records", 500_000, "how many records BenchmarkHeaderFilter reads in one run")
	filterRounds  = flag.Int("filter.rounds", 5, "how many runs of each kind BenchmarkHeaderFilter makes")
)

// BenchmarkHeaderFilter reads a topic of records with 100 bytes and one header, without a filter, with one of a term that
// every record matches, and with one that a tenth match, in turn, and reports the median of each and how they compare.
func BenchmarkHeaderFilter(b *testing.B) {
	kafka := realkafka.Start(b, realkafka.Options{JVM: []string{"-Xmx1g"}})
	topic := kafka.Topic(b, 4)
	cl, err := kgo.NewClient(kgo.SeedBrokers(kafka.Bootstrap()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(100_000))
	require.NoError(b, err)
	defer cl.Close()
	for n := range *filterRecords {
		cl.Produce(b.Context(), &kgo.Record{
			Topic: topic, Partition: int32(n % 4), Key: fmt.Appendf(nil, "%08d", n), Value: make([]byte, 100),
			Headers: []kgo.RecordHeader{{Key: "all", Value: []byte("yes")}, {Key: "lane", Value: fmt.Append(nil, n%10)}},
		}, nil)
	}
	require.NoError(b, cl.Flush(b.Context()))

	kinds := []struct{ name, filter string }{{"none", ""}, {"all", "all:yes"}, {"tenth", "lane:3"}}
	rates := map[string][]float64{}
	for b.Loop() {
		for range *filterRounds {
			for _, kind := range kinds {
				began := time.Now()
				readThrough(b, kafka.Bootstrap(), topic, kind.filter)
				rates[kind.name] = append(rates[kind.name], float64(*filterRecords)/time.Since(began).Seconds())
			}
		}
	}
	median := func(name string) float64 {
		slices.Sort(rates[name])
		return rates[name][len(rates[name])/2]
	}
	b.ReportMetric(0, "ns/op")
	for _, kind := range kinds {
		b.ReportMetric(median(kind.name), "rec/s-"+kind.name)
	}
	b.ReportMetric(100*(1-median("all")/median("none")), "%-cost-when-all-match")
	b.ReportMetric(median("tenth")/median("none"), "x-faster-when-a-tenth-matches")
}

// readThrough reads a topic to its end.
func readThrough(b *testing.B, servers []string, topic, filter string) {
	b.Helper()
	sb := service.NewStreamBuilder()
	require.NoError(b, sb.SetLoggerYAML("level: off"))
	require.NoError(b, sb.AddInputYAML(fmt.Sprintf(`
kafka_flink_source:
  bootstrap_servers: %q
  topics: [ %s ]
  startup: { mode: earliest-offset }
  bounded: { mode: latest-offset }
  header_filter: %q
`, strings.Join(servers, ","), topic, filter)))
	require.NoError(b, sb.AddBatchConsumerFunc(func(context.Context, service.MessageBatch) error { return nil }))
	stream, err := sb.Build()
	require.NoError(b, err)
	require.NoError(b, stream.Run(b.Context()))
}

package kafkaflinksource

import (
	"strconv"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/benthosx"
	"github.com/tidegate/tidegate/internal/kafkasource"
)

// metrics are the source's own; Benthos counts what is received. docs/metrics.md lists them.
func metrics(m *service.Metrics) kafkasource.Metrics {
	counter := func(name string) func(int64) {
		c := m.NewCounter(name)
		c.Incr(0)
		return func(n int64) { c.Incr(n) }
	}
	unavailable := m.NewGauge("kafka_source_unavailable_partitions")
	unavailable.Set(0)
	filtered := m.NewCounter("kafka_source_filtered_records", "topic")
	return kafkasource.Metrics{
		CommitsSucceeded:     counter("kafka_source_commits_succeeded"),
		CommitsFailed:        counter("kafka_source_commits_failed"),
		RestoredOutOfRange:   counter("kafka_source_restored_out_of_range_partitions"),
		SkippedOffsets:       counter("kafka_source_skipped_offsets"),
		NackedRecords:        counter("kafka_source_nacked_records"),
		FilteredRecords:      func(topic string, n int64) { filtered.Incr(n, topic) },
		DiscoveredPartitions: counter("kafka_source_discovered_partitions"),
		Rewinds:              counter("kafka_source_rewinds"),

		UnavailablePartitions: func(n int64) { unavailable.Set(n) },
		Partitions:            newPartitions(m, filtered),
	}
}

// partitions are the metrics of each partition.
type partitions struct {
	position, committed, end, lag *service.MetricGauge
	records, bytes, errors        *service.MetricCounter
	filtered                      *service.MetricCounter // of its topic
}

func newPartitions(m *service.Metrics, filtered *service.MetricCounter) *partitions {
	gauge := func(name string) *service.MetricGauge { return m.NewGauge(name, "topic", "partition") }
	counter := func(name string) *service.MetricCounter { return m.NewCounter(name, "topic", "partition") }
	return &partitions{
		position:  gauge("kafka_source_position"),
		committed: gauge("kafka_source_committed_offset"),
		end:       gauge("kafka_source_end_offset"),
		lag:       gauge("kafka_source_lag"),
		records:   counter("kafka_source_records"),
		bytes:     counter("kafka_source_bytes"),
		errors:    counter("kafka_source_fetch_errors"),
		filtered:  filtered,
	}
}

// Show sets what is known: a gauge that is not known, or not any more, is not there.
func (p *partitions) Show(topic string, partition int32, now kafkasource.Progress) {
	number := strconv.Itoa(int(partition))
	set := func(g *service.MetricGauge, v int64) {
		if v >= 0 {
			g.Set(v, topic, number)
		} else {
			benthosx.ForgetGauge(g, topic, number)
		}
	}
	set(p.position, now.Position)
	set(p.committed, now.Committed)
	set(p.end, now.End)
	set(p.lag, now.Lag)
	p.records.Incr(now.Records, topic, number)
	p.bytes.Incr(now.Bytes, topic, number)
	p.errors.Incr(now.FetchErrors, topic, number)
}

// Forget takes the gauges of a partition away.
func (p *partitions) Forget(topic string, partition int32) {
	number := strconv.Itoa(int(partition))
	for _, g := range []*service.MetricGauge{p.position, p.committed, p.end, p.lag} {
		benthosx.ForgetGauge(g, topic, number)
	}
}

// Drop takes the counters of a partition away, and of its topic.
func (p *partitions) Drop(topic string, partition int32) {
	for _, c := range []*service.MetricCounter{p.records, p.bytes, p.errors} {
		benthosx.ForgetCounter(c, topic, strconv.Itoa(int(partition)))
	}
	benthosx.ForgetCounter(p.filtered, topic)
}

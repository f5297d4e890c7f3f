package kafkaflinksink

import (
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/kafkasink"
)

// metrics are the sink's own; Benthos counts what is sent. docs/metrics.md lists them.
func metrics(m *service.Metrics) kafkasink.Metrics {
	counter := func(name string) func(int64) {
		c := m.NewCounter(name)
		c.Incr(0)
		return func(n int64) { c.Incr(n) }
	}
	timer := func(name string) func(time.Duration) {
		t := m.NewTimer(name)
		return func(d time.Duration) { t.Timing(d.Nanoseconds()) }
	}
	small := func(name string) func(int) {
		add := counter(name)
		return func(n int) { add(int64(n)) }
	}
	records, bytes := counter("kafka_sink_records"), counter("kafka_sink_bytes")
	transactions, committed := counter("kafka_sink_committed_transactions"), counter("kafka_sink_committed_records")
	batches, aborted := counter("kafka_sink_committed_batches"), counter("kafka_sink_aborted_transactions")
	free, inUse := m.NewGauge("kafka_sink_transactional_ids_free"), m.NewGauge("kafka_sink_transactional_ids_in_use")
	return kafkasink.Metrics{
		Written: func(n, size int64) {
			records(n)
			bytes(size)
		},
		SendErrors: counter("kafka_sink_send_errors"),
		Dropped:    small("kafka_sink_dropped_records"),
		Lost:       small("kafka_sink_lost_records"),
		Committed: func(told, n int) {
			transactions(1)
			batches(int64(told))
			committed(int64(n))
		},
		Aborted:   func() { aborted(1) },
		Abandoned: small("kafka_sink_abandoned_batches"),
		Flush:     timer("kafka_sink_flush_ns"),
		Commit:    timer("kafka_sink_commit_ns"),
		IDWait:    timer("kafka_sink_id_wait_ns"),
		IDs: func(f, used int) {
			free.Set(int64(f))
			inUse.Set(int64(used))
		},
	}
}

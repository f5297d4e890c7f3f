package benthosx

import (
	"sync"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// streamMetrics counts a coordinator's events in Benthos's metrics. Each metric is made at its first use.
type streamMetrics struct {
	to *service.Metrics

	counters, gauges, timers sync.Map
}

func (m *streamMetrics) Count(name string, n int64, labelValues ...string) {
	c, ok := m.counters.Load(name)
	if !ok {
		c, _ = m.counters.LoadOrStore(name, m.to.NewCounter(name, checkpoint.MetricLabels[name]...))
	}
	c.(*service.MetricCounter).Incr(n, labelValues...)
}

func (m *streamMetrics) Gauge(name string, v int64) {
	g, ok := m.gauges.Load(name)
	if !ok {
		g, _ = m.gauges.LoadOrStore(name, m.to.NewGauge(name))
	}
	g.(*service.MetricGauge).Set(v)
}

func (m *streamMetrics) Time(name string, d time.Duration) {
	t, ok := m.timers.Load(name)
	if !ok {
		t, _ = m.timers.LoadOrStore(name, m.to.NewTimer(name))
	}
	t.(*service.MetricTimer).Timing(d.Nanoseconds())
}

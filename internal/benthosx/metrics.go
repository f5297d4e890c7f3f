package benthosx

import (
	"math"
	"sync"
	"sync/atomic"
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

// forgets is set where the metrics exporter takes a gauge away that is set to NaN.
var forgets atomic.Bool

// ExporterForgets notes that the process's metrics exporter takes a gauge away that is set to NaN.
func ExporterForgets() { forgets.Store(true) }

// ForgetGauge takes one series of a gauge away, or sets it to 0 where the exporter cannot: a value that stays for ever
// would be taken for a partition that is still behind.
func ForgetGauge(g *service.MetricGauge, labelValues ...string) {
	if forgets.Load() {
		g.SetFloat64(math.NaN(), labelValues...)
		return
	}
	g.Set(0, labelValues...)
}

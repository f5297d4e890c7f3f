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

// forgets is set where the metrics exporter takes a series away for Forget.
var forgets atomic.Bool

// ExporterForgets notes that the process's metrics exporter takes a gauge away that is set to forget, and a counter to
// which it is added.
func ExporterForgets() { forgets.Store(true) }

// forget is minus zero: whoever takes a number beside the exporter, as Benthos's statistics of single streams do, makes 0 of it.
var forget = math.Copysign(0, -1)

// IsForget tells whether an exporter is to take the series away.
func IsForget(v float64) bool { return v == 0 && math.Signbit(v) }

// ForgetGauge takes one series of a gauge away, or sets it to 0 where the exporter cannot: a value that stays for ever
// would be taken for a partition that is still behind.
func ForgetGauge(g *service.MetricGauge, labelValues ...string) {
	if forgets.Load() {
		g.SetFloat64(forget, labelValues...)
		return
	}
	g.Set(0, labelValues...)
}

// ForgetCounter takes one series of a counter away, where the exporter can; elsewhere it stays as it is.
func ForgetCounter(c *service.MetricCounter, labelValues ...string) {
	if forgets.Load() {
		c.IncrFloat64(forget, labelValues...)
	}
}

package prometheus

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/benthosx"
)

const (
	fieldProcess = "add_process_metrics"
	fieldGo      = "add_go_metrics"
)

func init() {
	// The name makes it Benthos's default.
	service.MustRegisterMetricsExporter("prometheus", spec(),
		func(conf *service.ParsedConfig, log *service.Logger) (service.MetricsExporter, error) {
			return fromConfig(conf, log)
		})
}

func spec() *service.ConfigSpec {
	return service.NewConfigSpec().
		Summary("Serves metrics in Prometheus's text format at `/metrics` and `/stats`.").
		Description("Counters and gauges have the names that components give them; timers are histograms in nanoseconds, as "+
			"their names say. docs/metrics.md lists those of Tidegate's components.").
		Fields(
			service.NewBoolField(fieldProcess).Default(false).Advanced().
				Description("Add metrics of the process: CPU, memory, open files."),
			service.NewBoolField(fieldGo).Default(false).Advanced().
				Description("Add metrics of the Go runtime: goroutines, heap, garbage collection."),
		)
}

// buckets are those of every timer, from 100 µs to a minute.
var buckets = func() (ns []float64) {
	for _, d := range []time.Duration{
		100 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond,
		100 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second, 10 * time.Second, time.Minute,
	} {
		ns = append(ns, float64(d))
	}
	return ns
}()

// exporter is the registry of one process. It fulfils service.MetricsExporter.
type exporter struct {
	log      *service.Logger
	registry *prom.Registry

	mu       sync.Mutex
	families map[string]family
}

// family is what is registered under one name. All of its series have the same labels, as Prometheus wants it.
type family struct {
	keys   []string
	vector prom.Collector
}

func fromConfig(conf *service.ParsedConfig, log *service.Logger) (*exporter, error) {
	e := newExporter(log)
	process, err := conf.FieldBool(fieldProcess)
	if err != nil {
		return nil, err
	}
	runtime, err := conf.FieldBool(fieldGo)
	if err != nil {
		return nil, err
	}
	if process {
		e.registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	if runtime {
		e.registry.MustRegister(collectors.NewGoCollector())
	}
	benthosx.ExporterForgets()
	return e, nil
}

func newExporter(log *service.Logger) *exporter {
	return &exporter{log: log, registry: prom.NewRegistry(), families: map[string]family{}}
}

// HandlerFunc serves what was counted; Benthos puts it at /metrics and /stats.
func (e *exporter) HandlerFunc() http.HandlerFunc {
	return promhttp.HandlerFor(e.registry, promhttp.HandlerOpts{}).ServeHTTP
}

// Close has nothing to end.
func (e *exporter) Close(context.Context) error { return nil }

// vector returns what is registered under a name, registering it first where nothing is. It returns false where the name
// cannot be served: it is none to Prometheus, or stands for another type or for other labels.
func vector[V prom.Collector](e *exporter, name string, keys []string, build func() V) (v V, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f, known := e.families[name]
	if known {
		if v, ok = f.vector.(V); ok && slices.Equal(f.keys, keys) {
			return v, true
		}
		e.log.Warnf("metric %q is not served with the labels %v, since it is with %v", name, keys, f.keys)
		return v, false
	}
	v = build()
	if err := e.registry.Register(v); err != nil {
		e.log.Warnf("metric %q is not served: %v", name, err)
		return v, false
	}
	e.families[name] = family{slices.Clone(keys), v}
	return v, true
}

// NewCounterCtor returns the counters of a name.
func (e *exporter) NewCounterCtor(name string, keys ...string) service.MetricsExporterCounterCtor {
	vec, ok := vector(e, name, keys, func() *prom.CounterVec { return prom.NewCounterVec(prom.CounterOpts{Name: name}, keys) })
	return func(values ...string) service.MetricsExporterCounter {
		if !ok {
			return nothing{}
		}
		return &counter{vec, slices.Clone(values), vec.WithLabelValues(values...)}
	}
}

// NewGaugeCtor returns the gauges of a name.
func (e *exporter) NewGaugeCtor(name string, keys ...string) service.MetricsExporterGaugeCtor {
	vec, ok := vector(e, name, keys, func() *prom.GaugeVec { return prom.NewGaugeVec(prom.GaugeOpts{Name: name}, keys) })
	return func(values ...string) service.MetricsExporterGauge {
		if !ok {
			return nothing{}
		}
		return &gauge{vec, slices.Clone(values)}
	}
}

// NewTimerCtor returns the timers of a name.
func (e *exporter) NewTimerCtor(name string, keys ...string) service.MetricsExporterTimerCtor {
	vec, ok := vector(e, name, keys, func() *prom.HistogramVec {
		return prom.NewHistogramVec(prom.HistogramOpts{Name: name, Buckets: buckets}, keys)
	})
	return func(values ...string) service.MetricsExporterTimer {
		if !ok {
			return nothing{}
		}
		return timer{vec.WithLabelValues(values...)}
	}
}

type counter struct {
	vec    *prom.CounterVec
	values []string
	c      prom.Counter
}

func (c *counter) Incr(n int64) { c.c.Add(float64(n)) }

// IncrFloat64 takes the series away where n is minus zero; see benthosx.ForgetCounter. Benthos looks a series with labels up each
// time, so that one that was taken away may come again, from 0.
func (c *counter) IncrFloat64(n float64) {
	if benthosx.IsForget(n) {
		c.vec.DeleteLabelValues(c.values...)
		return
	}
	c.c.Add(n)
}

// gauge looks its series up each time: one that was forgotten may come again.
type gauge struct {
	vec    *prom.GaugeVec
	values []string
}

func (g *gauge) Set(v int64) { g.vec.WithLabelValues(g.values...).Set(float64(v)) }

// SetFloat64 takes the series away where the value is minus zero; see benthosx.ForgetGauge.
func (g *gauge) SetFloat64(v float64) {
	if benthosx.IsForget(v) {
		g.vec.DeleteLabelValues(g.values...)
		return
	}
	g.vec.WithLabelValues(g.values...).Set(v)
}

type timer struct{ o prom.Observer }

func (t timer) Timing(ns int64) { t.o.Observe(float64(ns)) }

// nothing takes what cannot be served.
type nothing struct{}

func (nothing) Incr(int64)          {}
func (nothing) IncrFloat64(float64) {}
func (nothing) Set(int64)           {}
func (nothing) SetFloat64(float64)  {}
func (nothing) Timing(int64)        {}

package checkpoint

import "time"

// Metrics is where a Stream counts (rule 12). Label values are in the order of the labels that the name is listed with
// below.
type Metrics interface {
	Count(name string, n int64, labelValues ...string)
	Gauge(name string, v int64)
	Time(name string, d time.Duration)
}

// The metrics, with their labels.
const (
	// metricFailovers counts ended attempts {reason}.
	metricFailovers = "checkpoint_failovers"
	// metricRecorded and metricCommitted count checkpoints; metricDeclined those that were not recorded in time.
	metricRecorded  = "checkpoint_recorded"
	metricCommitted = "checkpoint_committed"
	metricDeclined  = "checkpoint_declined"
	// metricTransactions counts {outcome}: committed, aborted and unknown as the broker answered; replayed, lost and
	// dropped by what followed.
	metricTransactions = "checkpoint_transactions"
	// metricLostRecords counts the records of lost and dropped transactions.
	metricLostRecords = "checkpoint_lost_records"
	// metricDuration is the time from the trigger of a barrier to its durable record.
	metricDuration = "checkpoint_duration_ns"
	// metricRecordBytes is the size of the newest record.
	metricRecordBytes = "checkpoint_record_bytes"
	// metricAge is how long ago the newest checkpoint was committed, metricPendingAge how long the oldest recorded
	// transaction has been waiting for its commit, 0 for none; both in milliseconds.
	metricAge        = "checkpoint_age_ms"
	metricPendingAge = "checkpoint_oldest_uncommitted_ms"
)

// MetricLabels are the labels of the metrics that have some.
var MetricLabels = map[string][]string{
	metricFailovers:    {"reason"},
	metricTransactions: {"outcome"},
}

const gaugeInterval = time.Second

type noMetrics struct{}

func (noMetrics) Count(string, int64, ...string) {}
func (noMetrics) Gauge(string, int64)            {}
func (noMetrics) Time(string, time.Duration)     {}

// gauges are what the loop knows of time, which the Machine does not.
type gauges struct {
	triggered, committed, pendingSince time.Time
}

// observe follows the actions that matter for times.
func (r *run) observe(a Action) {
	g, now := &r.gauges, time.Now()
	switch a := a.(type) {
	case SetTimer:
		if a.Timer.Kind == TimerTimeout {
			g.triggered = now
		}
	case Commit:
		if g.pendingSince.IsZero() {
			g.pendingSince = now
		}
	case Report:
		switch a.What {
		case ReportRecorded:
			if !g.triggered.IsZero() {
				r.stream.opts.Metrics.Time(metricDuration, now.Sub(g.triggered))
				g.triggered = time.Time{}
			}
		case ReportCommitted:
			g.committed, g.pendingSince = now, time.Time{}
		}
	}
}

func (r *run) setGauges() {
	m, now := r.stream.opts.Metrics, time.Now()
	since := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return now.Sub(t).Milliseconds()
	}
	m.Gauge(metricAge, since(r.gauges.committed))
	m.Gauge(metricPendingAge, since(r.gauges.pendingSince))
}

// count counts what a report says.
func (r *run) count(a Report) {
	m := r.stream.opts.Metrics
	lost := func(outcome string) {
		m.Count(metricTransactions, int64(len(a.Lost)), outcome)
		for _, c := range a.Lost {
			m.Count(metricLostRecords, c.Records)
		}
	}
	switch a.What {
	case ReportRecorded:
		m.Count(metricRecorded, 1)
	case ReportCommitted:
		m.Count(metricCommitted, 1)
	case ReportDeclined:
		m.Count(metricDeclined, 1)
	case ReportFailover:
		m.Count(metricFailovers, 1, string(a.Reason))
	case ReportReplay:
		m.Count(metricTransactions, int64(len(a.Lost)), "replayed")
	case ReportLost:
		lost("lost")
	case ReportDropped:
		lost("dropped")
	}
}

func (r *run) countVerdicts(verdicts []Verdict) {
	for _, v := range verdicts {
		if v != NotTried {
			r.stream.opts.Metrics.Count(metricTransactions, 1, v.String())
		}
	}
}

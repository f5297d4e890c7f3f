package checkpoint

import (
	"time"
)

// Metrics is where a Stream counts (rule 12). Label values are in the order of the labels that the name is listed with
// below.
type Metrics interface {
	Count(name string, n int64, labelValues ...string)
	Gauge(name string, v int64)
	Time(name string, d time.Duration)
}

// The metrics; docs/metrics.md says what they mean to people, and a test compares the two.
const (
	// The life of a checkpoint: triggered, then cancelled, unchanged or sealed; sealed, then recorded, then committed. One
	// that is declined {reason} is recorded by the next record where it was sealed; one that is given up never will be.
	metricTriggered = "checkpoint_triggered"
	metricCancelled = "checkpoint_cancelled"
	metricUnchanged = "checkpoint_unchanged"
	metricSealed    = "checkpoint_sealed"
	metricRecorded  = "checkpoint_recorded"
	metricCommitted = "checkpoint_committed"
	metricDeclined  = "checkpoint_declined"
	metricGivenUp   = "checkpoint_given_up"
	// metricFailovers counts ended attempts {reason}.
	metricFailovers = "checkpoint_failovers"
	// metricTransactions counts {outcome}: committed, aborted and unknown as the broker answered; replayed, lost and
	// dropped by what followed.
	metricTransactions = "checkpoint_transactions"
	// metricSealedRecords counts the records of sealed transactions, metricLostRecords those of lost and dropped ones.
	metricSealedRecords = "checkpoint_sealed_records"
	metricLostRecords   = "checkpoint_lost_records"
	// metricDuration is the time from the trigger of a barrier to its durable record; metricDrain and metricPause that until
	// the sources have drained, and until they go on; metricWrite that of writing a record, metricCommit that of
	// committing the transactions of a checkpoint.
	metricDuration = "checkpoint_duration_ns"
	metricDrain    = "checkpoint_drain_ns"
	metricPause    = "checkpoint_pause_ns"
	metricWrite    = "checkpoint_write_ns"
	metricCommit   = "checkpoint_commit_ns"
	// metricRecordBytes is the size of the newest record.
	metricRecordBytes = "checkpoint_record_bytes"
	// metricLast is the number of the newest committed checkpoint.
	metricLast = "checkpoint_last_committed"
	// metricAge is since when the state store and the broker have been as far as the stream, as of a barrier: a commit, or
	// a barrier without anything new. metricPendingAge is for how long the oldest sealed transaction has not been
	// committed, 0 for none. Both in milliseconds.
	metricAge        = "checkpoint_age_ms"
	metricPendingAge = "checkpoint_oldest_uncommitted_ms"
)

// MetricLabels are the labels of the metrics that have some.
var MetricLabels = map[string][]string{
	metricDeclined:     {"reason"},
	metricFailovers:    {"reason"},
	metricTransactions: {"outcome"},
}

const gaugeInterval = time.Second

type noMetrics struct{}

func (noMetrics) Count(string, int64, ...string) {}
func (noMetrics) Gauge(string, int64)            {}
func (noMetrics) Time(string, time.Duration)     {}

// gauges are what the loop knows of time, which the Machine does not. Checkpoints are known by their numbers.
type gauges struct {
	triggered map[uint64]time.Time
	// sealed are those that are sealed and not committed: since when, or for those of an earlier process since their
	// transactions began.
	sealed map[uint64]time.Time
	// paused is when the sources were asked to pause; zero while they emit.
	paused time.Time
	// settled is when everything of a barrier was committed, or the run began.
	settled time.Time
	// last is the newest committed checkpoint, duration that of the newest record.
	last      uint64
	duration  time.Duration
	failovers int
}

// restore begins with what the newest record says of checkpoints.
func (g *gauges) restore(newest *Record) {
	g.triggered, g.sealed, g.settled = map[uint64]time.Time{}, map[uint64]time.Time{}, time.Now()
	if newest == nil {
		return
	}
	g.last = newest.LastCheckpoint
	for _, e := range newest.Entries {
		g.last = min(g.last, e.Checkpoint-1)
		at := time.Now()
		for _, c := range e.Committables {
			if began := time.UnixMilli(c.BeganUnixMs); began.Before(at) {
				at = began
			}
		}
		g.sealed[e.Checkpoint] = at
	}
}

// observe follows the actions that matter for times.
func (r *run) observe(a Action) {
	g, m, now := &r.gauges, r.stream.opts.Metrics, time.Now()
	switch a := a.(type) {
	case SetTimer:
		if a.Timer.Kind == TimerTimeout {
			m.Count(metricTriggered, 1)
			g.triggered[a.Timer.Of], g.paused = now, now
		}
	case CancelBarrier:
		m.Count(metricCancelled, 1)
		delete(g.triggered, a.Checkpoint)
	case Resume:
		if !g.paused.IsZero() {
			m.Time(metricPause, now.Sub(g.paused))
			g.paused = time.Time{}
		}
	case Report:
		r.observeReport(a, now)
	}
}

func (r *run) observeReport(a Report, now time.Time) {
	g, m, n := &r.gauges, r.stream.opts.Metrics, a.Checkpoint
	switch a.What {
	case ReportSealed:
		g.sealed[n] = now
	case ReportUnchanged:
		delete(g.triggered, n)
		if len(g.sealed) == 0 {
			g.settled = now
		}
	case ReportRecorded:
		if at, ok := g.triggered[n]; ok {
			g.duration = now.Sub(at)
			m.Time(metricDuration, g.duration)
			delete(g.triggered, n)
		}
	case ReportCommitted:
		g.settled, g.last = now, n
		m.Gauge(metricLast, int64(n))
		delete(g.sealed, n)
	case ReportGivenUp:
		delete(g.sealed, n)
		delete(g.triggered, n)
	case ReportFailover:
		g.failovers++
		g.paused = time.Time{}
	}
}

func (r *run) setGauges() {
	m := r.stream.opts.Metrics
	m.Gauge(metricAge, time.Since(r.gauges.settled).Milliseconds())
	var pending time.Duration
	for _, at := range r.gauges.sealed {
		pending = max(pending, time.Since(at))
	}
	m.Gauge(metricPendingAge, pending.Milliseconds())
	r.tellIDs()
}

// endGauges leaves nothing that looks like a stream at work.
func (r *run) endGauges() {
	r.stream.opts.Metrics.Gauge(metricAge, 0)
	r.stream.opts.Metrics.Gauge(metricPendingAge, 0)
}

// tellIDs tells each sink how many of its transactional ids are free.
func (r *run) tellIDs() {
	for i := range r.m.sinks {
		s := &r.m.sinks[i]
		seat := r.seatOf(s.key)
		if !s.transactional() || seat == nil || seat.sink.IDs == nil {
			continue
		}
		free := 0
		for _, id := range s.ids {
			if id == idFree {
				free++
			}
		}
		seat.sink.IDs(free, len(s.ids)-free)
	}
}

// count counts what a report says.
func (r *run) count(a Report) {
	m := r.stream.opts.Metrics
	lost := func(outcome string) {
		m.Count(metricTransactions, int64(len(a.Lost)), outcome)
		m.Count(metricLostRecords, records(a.Lost))
	}
	switch a.What {
	case ReportSealed:
		m.Count(metricSealed, 1)
		m.Count(metricSealedRecords, records(a.Lost))
	case ReportUnchanged:
		m.Count(metricUnchanged, 1)
	case ReportRecorded:
		m.Count(metricRecorded, 1)
	case ReportCommitted:
		m.Count(metricCommitted, 1)
	case ReportDeclined:
		m.Count(metricDeclined, 1, string(a.Reason))
	case ReportGivenUp:
		m.Count(metricGivenUp, 1)
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

func records(transactions []Committable) (n int64) {
	for _, c := range transactions {
		n += c.Records
	}
	return n
}

func (r *run) countVerdicts(verdicts []Verdict) {
	for _, v := range verdicts {
		if v != NotTried {
			r.stream.opts.Metrics.Count(metricTransactions, 1, v.String())
		}
	}
}

// zeroMetrics makes every counter known at 0, so that a rate over it begins with the first event and not with the second.
func zeroMetrics(m Metrics) {
	for _, name := range []string{
		metricTriggered, metricCancelled, metricUnchanged, metricSealed, metricRecorded, metricCommitted, metricGivenUp,
		metricSealedRecords, metricLostRecords,
	} {
		m.Count(name, 0)
	}
	for _, reason := range []Reason{ReasonDrain, ReasonFlush, ReasonWrite} {
		m.Count(metricDeclined, 0, string(reason))
	}
	for _, reason := range []Reason{ReasonInput, ReasonOutput, ReasonRecord, ReasonTimeout, ReasonDeclined, ReasonLost} {
		m.Count(metricFailovers, 0, string(reason))
	}
	for _, outcome := range []string{Committed.String(), Aborted.String(), Unknown.String(), "replayed", "lost", "dropped"} {
		m.Count(metricTransactions, 0, outcome)
	}
}

package checkpoint

import (
	"fmt"
	"strings"
	"time"
)

// Event is what happened outside the Machine.
type Event interface{ fmt.Stringer }

// Events. Those that answer an action carry what it was asked for, so that a late answer is told apart.
type (
	// Begin starts the Machine: every declared component has joined, the newest record is loaded.
	Begin struct{}
	// Verified answers Verify.
	Verified struct{ Key string }
	// CommitDone answers Commit: one verdict for each committable, in order.
	CommitDone struct {
		Checkpoint uint64
		Verdicts   []Verdict
	}
	// Resolved answers Resolve.
	Resolved struct{ State SourceState }
	// WriteDone answers Write.
	WriteDone struct {
		Number  uint64
		Outcome Outcome
		Cause   error
	}
	// IDsReady answers InitIDs.
	IDsReady struct{ Sink string }
	// Drained answers Pause.
	Drained struct {
		Checkpoint uint64
		State      SourceState
	}
	// Flushed answers Flush.
	Flushed struct {
		Checkpoint uint64
		Sink       string
	}
	// Sealed answers Seal; Committable is nil for an empty transaction.
	Sealed struct {
		Checkpoint  uint64
		Sink        string
		Committable *Committable
	}
	// Halted answers Halt.
	Halted struct {
		Attempt uint64
		Key     string
	}
	// AbortDone answers Abort.
	AbortDone struct {
		Sink string
		ID   int32
	}
	// Fired says that a timer has fired.
	Fired struct{ Timer Timer }
	// Failed says that an attempt cannot go on: a nack, a send error, an abortable transaction error.
	Failed struct {
		Attempt uint64
		// Reason is the kind of the failure, for metrics; Cause is for people.
		Reason Reason
		Cause  error
	}
	// Broken says that no attempt can go on.
	Broken struct{ Cause error }
	// AtEnd says that a bounded source has nothing more to emit.
	AtEnd struct {
		Attempt uint64
		Source  string
	}
	// Closing says that the engine closes a source. Hard: it may have lost acknowledgements.
	Closing struct {
		Source string
		Hard   bool
	}
	// Joined says that a source has come to a stream that is running.
	Joined struct{ Source string }
)

// Outcome is how a write of a record ended.
type Outcome uint8

// The outcomes of a write; the contract in doc.go says when each may be reported.
const (
	Durable Outcome = iota + 1
	NotWritten
	OutcomeUnknown
)

func (o Outcome) String() string {
	return [...]string{"?", "durable", "certainly not written", "outcome unknown"}[o]
}

// TimerKind names a timer.
type TimerKind uint8

// The timers.
const (
	// TimerInterval runs from one trigger to the next.
	TimerInterval TimerKind = iota
	// TimerPause runs from a committed checkpoint to the earliest next trigger (min_pause).
	TimerPause
	// TimerTimeout runs from the trigger of a checkpoint until its record is durable.
	TimerTimeout
	// TimerWrite bounds the wait for a write that has to be resolved.
	TimerWrite
	// TimerHalt bounds the wait for what an ended attempt has in flight.
	TimerHalt
	// TimerRestart delays a new attempt.
	TimerRestart
)

// Timer is one timer. Of is the checkpoint it is for, or for TimerRestart the number of restarts in a row.
type Timer struct {
	Kind TimerKind
	Of   uint64
}

func (t Timer) String() string {
	name := [...]string{"interval", "min_pause", "timeout", "write timeout", "halt timeout", "restart delay"}[t.Kind]
	if t.Kind == TimerTimeout || t.Kind == TimerRestart {
		return fmt.Sprintf("%s %d", name, t.Of)
	}
	return name
}

// Action is what the caller has to do. Answers come as events.
type Action interface{ fmt.Stringer }

// Actions.
type (
	// Verify asks a component to compare what the newest record says of it with its cluster. Exactly one of Source
	// and Sink is set.
	Verify struct {
		Key          string
		Source       *SourceState
		Sink         *SinkState
		Committables []Committable
	}
	// Commit asks for the verdict of a checkpoint's transactions. Unless Each is set, and where there are several,
	// all are described first, and when one is lost no EndTxn is sent.
	Commit struct {
		Checkpoint   uint64
		Committables []Committable
		Each         bool
	}
	// Resolve asks a source for concrete positions.
	Resolve struct {
		Source   string
		Restored *SourceState
	}
	// Write asks for a durable record.
	Write struct{ Record *Record }
	// InitIDs asks a sink to initialise every id of the pools.
	InitIDs struct {
		Sink  string
		Pools []Pool
	}
	// StartSource begins an attempt of a source.
	StartSource struct {
		Attempt uint64
		State   SourceState
	}
	// StartSink begins an attempt of a sink.
	StartSink struct {
		Attempt uint64
		Sink    string
		ID      int32
	}
	// Open gives a sink without a transaction an id.
	Open struct {
		Sink string
		ID   int32
	}
	// Pause asks a source to drain.
	Pause struct {
		Checkpoint uint64
		Source     string
	}
	// Flush asks a sink to wait for the broker's acknowledgements.
	Flush struct {
		Checkpoint uint64
		Sink       string
	}
	// Seal asks a sink for its committable.
	Seal struct {
		Checkpoint uint64
		Sink       string
		Next       int32
	}
	// CancelBarrier ends what Pause and Flush of a barrier are still waiting for. They are not answered any more, and
	// an answer that was on its way is ignored.
	CancelBarrier struct{ Checkpoint uint64 }
	// Resume lets a source go on emitting.
	Resume struct{ Source string }
	// Halt ends an attempt in a component.
	Halt struct {
		Attempt uint64
		Key     string
	}
	// Abort asks a sink to close an id's client and initialise the id.
	Abort struct {
		Sink string
		ID   int32
	}
	// CommitOffsets publishes positions to the consumer groups. It has no answer.
	CommitOffsets struct {
		Checkpoint uint64
		Positions  []SourceState
	}
	// Finish lets a bounded source report its end.
	Finish struct{ Source string }
	// CloseDone lets a source's Close return.
	CloseDone struct{ Source string }
	// SetTimer sets a timer, replacing the same one.
	SetTimer struct {
		Timer Timer
		After time.Duration
	}
	// StopTimer stops a timer. Its event may be on its way, and is ignored then.
	StopTimer struct{ Timer }
	// Report says something for people and metrics. It has no answer.
	Report struct {
		What       ReportKind
		Checkpoint uint64
		// Lost are the transactions that are lost; for ReportSealed those that were sealed.
		Lost   []Committable
		Reason Reason
		Cause  error
	}
	// Die ends the process with a cause. Nothing is done after it but to answer Closing.
	Die struct{ Cause error }
)

// Reason is why an attempt ended, or a checkpoint was declined.
type Reason string

// The reasons of a failover.
const (
	ReasonInput    Reason = "input"
	ReasonOutput   Reason = "output"
	ReasonRecord   Reason = "record_unknown"
	ReasonTimeout  Reason = "timeout"
	ReasonDeclined Reason = "declined"
	ReasonLost     Reason = "lost_transaction"
)

// The reasons for which a checkpoint is declined.
const (
	// ReasonDrain: what the sources had emitted was not acknowledged in time. ReasonFlush: the brokers have not acknowledged
	// every record in time. ReasonWrite: the record was not written in time, or certainly not at all.
	ReasonDrain Reason = "drain"
	ReasonFlush Reason = "flush"
	ReasonWrite Reason = "write"
)

// ReportKind says what a Report is about.
type ReportKind uint8

// The reports.
const (
	ReportStarted ReportKind = iota
	// ReportSealed: every sink has sealed. ReportUnchanged: nothing has come since the last checkpoint, so that there is
	// none to record.
	ReportSealed
	ReportUnchanged
	ReportRecorded
	ReportCommitted
	ReportDeclined
	// ReportGivenUp: a checkpoint was rewound, and will never be committed.
	ReportGivenUp
	ReportFailover
	ReportReplay
	ReportLost
	ReportDropped
	ReportStopped
	ReportHardStop
)

func (k ReportKind) String() string {
	return [...]string{
		"started", "sealed", "unchanged", "recorded", "committed", "declined", "given up", "failover", "replay", "lost",
		"dropped", "stopped", "hard stop",
	}[k]
}

func (Begin) String() string      { return "begin" }
func (e Verified) String() string { return "verified " + e.Key }
func (e CommitDone) String() string {
	return fmt.Sprintf("commit %d: %v", e.Checkpoint, e.Verdicts)
}
func (e Resolved) String() string { return "resolved " + e.State.String() }
func (e WriteDone) String() string {
	return fmt.Sprintf("record %d: %v", e.Number, e.Outcome)
}
func (e IDsReady) String() string { return "ids ready: " + e.Sink }
func (e Drained) String() string {
	return fmt.Sprintf("drained for %d: %v", e.Checkpoint, e.State)
}
func (e Flushed) String() string { return fmt.Sprintf("flushed for %d: %s", e.Checkpoint, e.Sink) }
func (e Sealed) String() string {
	if e.Committable == nil {
		return fmt.Sprintf("sealed for %d: %s, empty", e.Checkpoint, e.Sink)
	}
	return fmt.Sprintf("sealed for %d: %v", e.Checkpoint, e.Committable)
}
func (e Halted) String() string    { return fmt.Sprintf("halted before attempt %d: %s", e.Attempt, e.Key) }
func (e AbortDone) String() string { return fmt.Sprintf("aborted: %s id %d", e.Sink, e.ID) }
func (e Fired) String() string     { return "fired: " + e.Timer.String() }
func (e Failed) String() string    { return fmt.Sprintf("attempt %d failed: %v", e.Attempt, e.Cause) }
func (e Broken) String() string    { return fmt.Sprintf("broken: %v", e.Cause) }
func (e AtEnd) String() string     { return fmt.Sprintf("at end in attempt %d: %s", e.Attempt, e.Source) }
func (e Closing) String() string {
	if e.Hard {
		return "closing hard: " + e.Source
	}
	return "closing: " + e.Source
}
func (e Joined) String() string { return "joined: " + e.Source }

func (a Verify) String() string { return "verify " + a.Key }
func (a Commit) String() string {
	s := fmt.Sprintf("commit %d %v", a.Checkpoint, a.Committables)
	if a.Each {
		s += ", each"
	}
	return s
}
func (a Resolve) String() string {
	if a.Restored == nil {
		return "resolve " + a.Source + " by start-up mode"
	}
	return "resolve " + a.Restored.String()
}
func (a Write) String() string   { return "write " + a.Record.String() }
func (a InitIDs) String() string { return fmt.Sprintf("init ids of %s %v", a.Sink, a.Pools) }
func (a StartSource) String() string {
	return fmt.Sprintf("start attempt %d of %v", a.Attempt, a.State)
}
func (a StartSink) String() string {
	return fmt.Sprintf("start attempt %d of %s, id %d", a.Attempt, a.Sink, a.ID)
}
func (a Open) String() string  { return fmt.Sprintf("open %s id %d", a.Sink, a.ID) }
func (a Pause) String() string { return fmt.Sprintf("pause %s for %d", a.Source, a.Checkpoint) }
func (a Flush) String() string { return fmt.Sprintf("flush %s for %d", a.Sink, a.Checkpoint) }
func (a Seal) String() string {
	return fmt.Sprintf("seal %s for %d, next id %d", a.Sink, a.Checkpoint, a.Next)
}
func (a CancelBarrier) String() string { return fmt.Sprintf("cancel barrier %d", a.Checkpoint) }
func (a Resume) String() string        { return "resume " + a.Source }
func (a Halt) String() string          { return fmt.Sprintf("halt %s before attempt %d", a.Key, a.Attempt) }
func (a Abort) String() string         { return fmt.Sprintf("abort %s id %d", a.Sink, a.ID) }
func (a CommitOffsets) String() string {
	return fmt.Sprintf("commit offsets of %d: %v", a.Checkpoint, a.Positions)
}
func (a Finish) String() string    { return "finish " + a.Source }
func (a CloseDone) String() string { return "close done: " + a.Source }
func (a SetTimer) String() string  { return fmt.Sprintf("set %v to %v", a.Timer, a.After) }
func (a StopTimer) String() string { return "stop " + a.Timer.String() }
func (a Report) String() string {
	s := fmt.Sprintf("report %v %d", a.What, a.Checkpoint)
	if len(a.Lost) > 0 && a.What != ReportSealed { // the seals before it say so
		s += fmt.Sprintf(" %v", a.Lost)
	}
	if a.Cause != nil {
		s += ": " + a.Cause.Error()
	}
	return s
}
func (a Die) String() string { return "die: " + a.Cause.Error() }

// String shows positions as "orders@0:17 1:4", with the stop after a slash, for logs and traces.
func (s SourceState) String() string {
	var b strings.Builder
	b.WriteString(s.Source)
	topic := ""
	for _, p := range s.Splits {
		if p.Topic != topic {
			topic = p.Topic
			fmt.Fprintf(&b, " %s@", topic)
		} else {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%d:%d", p.Partition, p.Offset)
		if p.Stop != NoStop {
			fmt.Fprintf(&b, "/%d", p.Stop)
		}
	}
	if s.Finished {
		b.WriteString(" finished")
	}
	return b.String()
}

func (c Committable) String() string {
	return fmt.Sprintf("%s=%d.%d(%d records)", c.TransactionalID, c.ProducerID, c.Epoch, c.Records)
}

func (r *Record) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "record %d %v", r.Number, r.Positions)
	for _, e := range r.Entries {
		fmt.Fprintf(&b, " +%d%v", e.Checkpoint, e.Committables)
	}
	return b.String()
}

package checkpoint

import (
	"fmt"
	"slices"
)

// phase is where a Machine is. Phases before running are the steps of a recovery, in their order.
type phase uint8

const (
	phaseNew phase = iota
	// phaseVerify compares the newest record with the clusters (recovery step 1).
	phaseVerify
	// phaseSettle finds the verdict of each entry of the newest record, in order (step 2).
	phaseSettle
	// phaseResolve turns restored positions and start-up modes into concrete offsets (step 5, and rule 2: before the
	// record, so that the record holds them).
	phaseResolve
	// phaseFirstRecord writes the record that no longer holds what was settled (step 3).
	phaseFirstRecord
	// phaseInitIDs initialises every transactional id (step 4).
	phaseInitIDs
	// phaseRunning is an attempt under way.
	phaseRunning
	// phaseRestart is between two attempts: halt, resolve the pending write, record, abort, delay.
	phaseRestart
	// phaseStopped does nothing more: a hard stop, or a stop before anything ran.
	phaseStopped
	// phaseDead does nothing more after Die.
	phaseDead
)

func (p phase) String() string {
	return [...]string{
		"new", "verify", "settle", "resolve", "first record", "init ids", "running", "restart", "stopped", "dead",
	}[p]
}

// maxRecordTries bounds how often the record of a recovery or of a restart is tried. Without it the process cannot go
// on, and a process that was started anew may have better luck with its disk.
const maxRecordTries = 3

// idState is what one transactional id of a sink is used for.
type idState uint8

const (
	idFree idState = iota
	// idOpen takes records, or is reserved to take them after the seal under way.
	idOpen
	// idSealed is held by a checkpoint; it is free again when a durable record no longer holds it (rule 6).
	idSealed
	// idDirty has to be aborted before it is free.
	idDirty
	// idAborting is being aborted.
	idAborting
)

type sourceStatus uint8

const (
	// sourceJoining waits for Resolved.
	sourceJoining sourceStatus = iota
	// sourceWaiting has positions that are not in a durable record yet (rule 2).
	sourceWaiting
	sourceRunning
	// sourceReleased has ended: its position stays in every later record.
	sourceReleased
)

type source struct {
	key    string
	status sourceStatus
	// state is the last position it reported or was given.
	state SourceState
	// paused is set from Pause to Resume; drained once it has reported for the barrier under way.
	paused, drained, halted bool
	// atEnd and closing say that it will emit nothing more, last that it drained knowing so; final that a completed
	// barrier holds its last position, and finalAt the newest checkpoint at that moment.
	atEnd, closing, last, final bool
	finalAt                     uint64
	verified                    bool
	// publish is set until the positions that it begins with are on their way to the consumer group, where that is due.
	publish bool
}

type sink struct {
	key    string
	pool   Pool
	onLost Policy
	ids    []idState
	// open is the id that takes records, -1 where none was free. next is the one promised to the seal under way.
	open, next int32
	// recorded are the pools of the newest record; more than our own until the record after a recovery.
	recorded []Pool

	flushed, sealed, halted, ready, verified bool
	committable                              *Committable
}

type checkpointState uint8

const (
	checkpointSealed checkpointState = iota
	checkpointRecorded
	checkpointCommitted
)

type checkpoint struct {
	entry *Entry
	state checkpointState
	// declined is set on one whose record was not written in time; the next record takes it along.
	declined bool
}

type barrierStage uint8

const (
	barrierNone barrierStage = iota
	barrierDraining
	barrierFlushing
	barrierSealing
)

type pendingWrite struct {
	record *Record
	// upTo is the newest checkpoint the record holds or settles.
	upTo uint64
	// essential is set on the records of a recovery and of a restart, which cannot be done without.
	essential bool
}

// Machine is the coordinator of one stream as a pure state machine.
type Machine struct {
	cfg      Config
	streamID string
	broken   Rule

	phase   phase
	attempt uint64
	sources []source
	sinks   []sink

	// known is the newest record that is certainly durable, nil before the first.
	known *Record
	// nextRecord and nextCheckpoint are numbers that were never issued.
	nextRecord, nextCheckpoint uint64
	write                      *pendingWrite
	// unresolved is set while a write of unknown outcome may have left a record newer than known.
	unresolved bool
	tries      int

	// positions are those of the last barrier that every sink completed.
	positions   []SourceState
	checkpoints []checkpoint
	committing  uint64

	barrier       barrierStage
	barrierNumber uint64
	// recordDue asks for a record although no checkpoint was sealed.
	recordDue bool
	// resumeDue is set while drained sources wait for every sink to have an open id.
	resumeDue                     bool
	intervalElapsed, pauseElapsed bool
	declines                      int

	// giveUp is the first checkpoint that the restart under way gives up, 0 for none.
	giveUp                            uint64
	restarts                          int
	restartRecorded, restartDelayOver bool
	lastCause                         error

	out []Action
}

// SourceSeat declares a source to a Machine.
type SourceSeat struct{ Key string }

// SinkSeat declares a sink to a Machine.
type SinkSeat struct {
	Key    string
	Pool   Pool
	OnLost Policy
}

// NewMachine returns a Machine for the components, which go on from the record, nil for a first start.
func NewMachine(cfg Config, streamID string, sources []SourceSeat, sinks []SinkSeat, newest *Record) *Machine {
	m := &Machine{cfg: cfg, streamID: streamID, known: newest, attempt: 1, nextRecord: 1, nextCheckpoint: 1}
	for _, s := range sources {
		m.sources = append(m.sources, source{key: s.Key})
	}
	for _, s := range sinks {
		m.sinks = append(m.sinks, sink{
			key: s.Key, pool: s.Pool, onLost: s.OnLost, ids: make([]idState, s.Pool.Size), open: -1, next: -1,
		})
	}
	if newest != nil {
		m.nextRecord, m.nextCheckpoint = newest.Number+1, newest.LastCheckpoint+1
		m.positions = newest.Positions
		for i := range newest.Entries {
			m.checkpoints = append(m.checkpoints, checkpoint{entry: &newest.Entries[i], state: checkpointRecorded})
		}
	}
	return m
}

// Step takes one event and returns what is to be done for it, in order. The slice is valid until the next call.
func (m *Machine) Step(ev Event) []Action {
	m.out = m.out[:0]
	if c, ok := ev.(Closing); ok {
		m.onClosing(c)
	} else if m.alive() {
		m.handle(ev)
	}
	for m.alive() && m.advance() {
	}
	return m.out
}

func (m *Machine) alive() bool { return m.phase < phaseStopped }

func (m *Machine) handle(ev Event) {
	switch ev := ev.(type) {
	case Begin:
		m.begin()
	case Verified:
		m.onVerified(ev)
	case CommitDone:
		m.onCommitDone(ev)
	case Resolved:
		m.onResolved(ev)
	case WriteDone:
		m.onWriteDone(ev)
	case IDsReady:
		m.sinkOf(ev.Sink).ready = true
	case Drained:
		m.onDrained(ev)
	case Flushed:
		if m.barrier == barrierFlushing && ev.Checkpoint == m.barrierNumber {
			m.sinkOf(ev.Sink).flushed = true
		}
	case Sealed:
		m.onSealed(ev)
	case Halted:
		m.onHalted(ev)
	case AbortDone:
		m.sinkOf(ev.Sink).ids[ev.ID] = idFree
	case Fired:
		m.onFired(ev.Timer)
	case Failed:
		if m.phase == phaseRunning && ev.Attempt == m.attempt {
			m.failover(ev.Reason, ev.Cause)
		}
	case Broken:
		m.die(ev.Cause)
	case AtEnd:
		if s := m.sourceOf(ev.Source); m.phase == phaseRunning && ev.Attempt == m.attempt && s != nil {
			s.atEnd = true
		}
	case Joined:
		m.onJoined(ev)
	default:
		panic(fmt.Sprintf("checkpoint: event %T", ev))
	}
}

// advance takes one step that the state allows without a further event, and tells whether it took one.
func (m *Machine) advance() bool {
	switch m.phase {
	case phaseNew:
		return false
	case phaseRunning:
		return m.advanceBarrier() || m.commitNext() || m.writeNext() || m.openNext() || m.resumeDrained() ||
			m.startWaiting() || m.release() || m.trigger()
	case phaseRestart:
		return m.commitNext() || m.advanceRestart()
	default:
		return m.advanceRecovery()
	}
}

func (m *Machine) do(a Action) { m.out = append(m.out, a) }

func (m *Machine) die(cause error) {
	if m.phase == phaseDead {
		return
	}
	m.phase = phaseDead
	m.do(Die{Cause: cause})
	for i := range m.sources {
		if m.sources[i].closing && m.sources[i].status != sourceReleased {
			m.closeDone(&m.sources[i])
		}
	}
}

func (m *Machine) sourceOf(key string) *source {
	i := slices.IndexFunc(m.sources, func(s source) bool { return s.key == key })
	if i < 0 {
		return nil
	}
	return &m.sources[i]
}

func (m *Machine) sinkOf(key string) *sink {
	i := slices.IndexFunc(m.sinks, func(s sink) bool { return s.key == key })
	if i < 0 {
		return nil
	}
	return &m.sinks[i]
}

func stateOf(states []SourceState, key string) *SourceState {
	i := slices.IndexFunc(states, func(s SourceState) bool { return s.Source == key })
	if i < 0 {
		return nil
	}
	return &states[i]
}

func (s *sink) free() int32 { return int32(slices.Index(s.ids, idFree)) }

func (s *sink) transactional() bool { return len(s.ids) > 0 }

// idNumber returns the number of a committable's id in the sink's pool, or -1 for one of another pool.
func (s *sink) idNumber(c *Committable) int32 {
	for i := range s.ids {
		if s.pool.TransactionalID(int32(i)) == c.TransactionalID {
			return int32(i)
		}
	}
	return -1
}

// TransactionalID returns the name of id n of the pool.
func (p Pool) TransactionalID(n int32) string {
	return fmt.Sprintf("%s-%d-%d", p.Prefix, p.Index, n)
}

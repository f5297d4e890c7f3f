package checkpoint

import (
	"fmt"
	"slices"
)

// compose builds the next record: the positions of the last barrier, and every checkpoint that is neither committed
// nor given up (rule 7).
func (m *Machine) compose() *pendingWrite {
	r := &Record{
		Number: m.nextRecord, LastCheckpoint: m.nextCheckpoint - 1, StreamID: m.streamID, Positions: m.positions,
	}
	m.nextRecord++
	for _, c := range m.checkpoints {
		if c.state == checkpointCommitted || m.breaks(RuleEntries) && c.declined {
			continue
		}
		// A checkpoint without a transaction and with nothing uncommitted before it is committed by being recorded.
		if len(r.Entries) == 0 && len(c.entry.Committables) == 0 && len(c.entry.Deltas) == 0 {
			continue
		}
		r.Entries = append(r.Entries, *c.entry)
	}
	for _, s := range m.sinks {
		if s.transactional() {
			r.Sinks = append(r.Sinks, SinkState{Sink: s.key, Pools: m.pools(&s)})
		}
	}
	w := &pendingWrite{record: r, essential: m.phase != phaseRunning}
	if n := len(m.checkpoints); n > 0 {
		w.upTo = m.checkpoints[n-1].entry.Checkpoint
	}
	return w
}

// pools are the sink's own pool and, until its ids are initialised, those of the newest record.
func (m *Machine) pools(s *sink) []Pool {
	out := []Pool{s.pool}
	if m.phase >= phaseRunning {
		return out
	}
	for _, p := range s.recorded {
		if p != s.pool {
			out = append(out, p)
		}
	}
	return out
}

// poolsStale tells whether the newest record still names pools that are no longer in use.
func (m *Machine) poolsStale() bool {
	for _, s := range m.known.Sinks {
		if len(s.Pools) > 1 {
			return true
		}
	}
	return false
}

func (m *Machine) beginWrite() {
	m.write = m.compose()
	m.recordDue = false
	m.do(Write{Record: m.write.record})
	if m.write.essential {
		m.do(SetTimer{Timer: Timer{Kind: TimerWrite}, After: m.cfg.Timeout})
	}
}

// writeNext writes a record while the attempt runs: one at a time, and it takes along all that is not committed.
func (m *Machine) writeNext() bool {
	if m.write != nil || m.unresolved {
		return false
	}
	due := m.recordDue
	for _, c := range m.checkpoints {
		due = due || c.state == checkpointSealed && !c.declined
	}
	for i := range m.sources {
		due = due || m.sources[i].status == sourceWaiting && !m.recorded(&m.sources[i])
	}
	if due {
		m.beginWrite()
	}
	return due
}

// recorded tells whether the newest record certainly holds the source's state as it is.
func (m *Machine) recorded(s *source) bool {
	k := stateOf(m.known.Positions, s.key)
	return k != nil && k.Equal(s.state)
}

func (m *Machine) onWriteDone(ev WriteDone) {
	if m.write == nil || m.write.record.Number != ev.Number {
		return
	}
	w := m.write
	m.write = nil
	m.do(StopTimer{Timer{Kind: TimerWrite}})
	outcome := ev.Outcome
	if outcome == OutcomeUnknown && m.breaks(RuleUnknownWrite) {
		outcome = Durable
	}
	switch outcome {
	case Durable:
		m.recordDurable(w)
	case NotWritten:
		m.recordFailed(w, ev.Cause)
	default:
		m.unresolved = true
		m.recordUnknown(w, ev.Cause)
	}
}

func (m *Machine) recordDurable(w *pendingWrite) {
	m.known, m.unresolved, m.tries, m.declines = w.record, false, 0, 0
	for i := range m.checkpoints {
		if c := &m.checkpoints[i]; c.state == checkpointSealed && c.entry.Checkpoint <= w.upTo {
			c.state, c.declined = checkpointRecorded, false
			m.do(StopTimer{Timer{Kind: TimerTimeout, Of: c.entry.Checkpoint}})
			m.do(Report{What: ReportRecorded, Checkpoint: c.entry.Checkpoint})
		}
	}
	m.forget()
	switch {
	case m.phase == phaseFirstRecord:
		m.enterInitIDs()
	case m.phase == phaseRestart && w.essential:
		// A write that was begun before the restart does not count: a barrier may have been completed since. Nor does
		// one that was begun before a transaction in it turned out to be lost.
		m.restartRecorded = m.giveUp == 0
	}
}

// forget drops committed checkpoints that the newest record no longer holds, and frees their ids (rule 6).
func (m *Machine) forget() {
	m.checkpoints = slices.DeleteFunc(m.checkpoints, func(c checkpoint) bool {
		if c.state != checkpointCommitted {
			return false
		}
		held := slices.ContainsFunc(m.known.Entries, func(e Entry) bool { return e.Checkpoint == c.entry.Checkpoint })
		if !held {
			m.freeIDs(c.entry, idFree)
		}
		return !held
	})
}

func (m *Machine) freeIDs(e *Entry, to idState) {
	for i := range e.Committables {
		c := &e.Committables[i]
		if s := m.sinkOf(c.Sink); s != nil {
			if id := s.idNumber(c); id >= 0 {
				s.ids[id] = to
			}
		}
	}
}

// recordFailed handles a write that certainly left nothing behind. One that was begun before a restart needs nothing:
// the restart's own record takes its checkpoints along.
func (m *Machine) recordFailed(w *pendingWrite, cause error) {
	cause = fmt.Errorf("writing checkpoint record %d: %w", w.record.Number, cause)
	switch {
	case w.essential:
		m.retryRecord(cause)
	case m.phase == phaseRunning:
		for i := range m.checkpoints {
			if c := &m.checkpoints[i]; c.state == checkpointSealed && c.entry.Checkpoint <= w.upTo {
				c.declined = true
				m.do(StopTimer{Timer{Kind: TimerTimeout, Of: c.entry.Checkpoint}})
			}
		}
		m.decline(w.upTo, ReasonWrite, cause)
	}
}

// recordUnknown handles a write that may have left a record behind: no EndTxn and no InitProducerId until a
// higher-numbered record is certainly durable.
func (m *Machine) recordUnknown(w *pendingWrite, cause error) {
	cause = fmt.Errorf("outcome of writing checkpoint record %d is unknown: %w", w.record.Number, cause)
	switch {
	case w.essential:
		m.retryRecord(cause)
	case m.phase == phaseRunning:
		m.failover(ReasonRecord, cause)
	}
}

// retryRecord is for the records that a recovery or a restart cannot do without; advance writes them again, under a
// new number.
func (m *Machine) retryRecord(cause error) {
	if m.tries++; m.tries >= maxRecordTries {
		m.die(fmt.Errorf("%w (try %d of %d); check space and permissions of the state store",
			cause, m.tries, maxRecordTries))
	}
}

// decline counts a checkpoint that was not recorded; too many in a row are a failover.
func (m *Machine) decline(number uint64, reason Reason, cause error) {
	m.declines++
	m.do(Report{What: ReportDeclined, Checkpoint: number, Reason: reason, Cause: cause})
	if m.closing() {
		m.die(fmt.Errorf("last checkpoint declined: %w", cause))
		return
	}
	if m.declines > m.cfg.TolerableFailures {
		m.failover(ReasonDeclined, fmt.Errorf("%d checkpoints declined in a row: %w", m.declines, cause))
	}
}

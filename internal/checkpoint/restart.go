package checkpoint

import (
	"fmt"
	"slices"
)

// failover ends the attempt. The next one begins at the last barrier that every sink completed, or before the
// checkpoint that is given up; in between lie the halt of both ends, the end of a pending write, a record of that
// barrier, and the aborts of all that the record does not hold.
func (m *Machine) failover(reason Reason, cause error) {
	m.lastCause = cause
	if m.closing() {
		m.die(fmt.Errorf("no last checkpoint, the next start goes on from the one before: %w", cause))
		return
	}
	m.restarts++
	if m.cfg.MaxRestarts >= 0 && m.restarts > m.cfg.MaxRestarts {
		m.die(fmt.Errorf("checkpoint.max_restarts %d exceeded: %w", m.cfg.MaxRestarts, cause))
		return
	}
	m.do(Report{What: ReportFailover, Reason: reason, Cause: cause})
	m.cancelBarrier()
	m.phase, m.attempt = phaseRestart, m.attempt+1
	m.restartRecorded, m.restartDelayOver, m.resumeDue, m.tries = false, false, false, 0
	m.do(StopTimer{Timer{Kind: TimerInterval}})
	for i := range m.sinks {
		s := &m.sinks[i]
		for id := range s.ids {
			if s.ids[id] == idOpen {
				s.ids[id] = idDirty
			}
		}
		s.open, s.halted = -1, false
		m.do(Halt{Attempt: m.attempt, Key: s.key})
	}
	for i := range m.sources {
		s := &m.sources[i]
		if s.status != sourceRunning {
			continue
		}
		s.paused, s.drained, s.halted, s.atEnd, s.last, s.final = false, false, false, false, false, false
		m.do(Halt{Attempt: m.attempt, Key: s.key})
	}
	if m.write != nil {
		m.do(SetTimer{Timer: Timer{Kind: TimerWrite}, After: m.cfg.Timeout})
	}
	m.do(SetTimer{Timer: Timer{Kind: TimerRestart, Of: uint64(m.restarts)}})
}

func (m *Machine) onHalted(ev Halted) {
	if ev.Attempt != m.attempt {
		return
	}
	if s := m.sourceOf(ev.Key); s != nil {
		s.halted = true
	}
	if s := m.sinkOf(ev.Key); s != nil {
		s.halted = true
	}
}

func (m *Machine) advanceRestart() bool {
	if slices.ContainsFunc(m.sources, func(s source) bool { return s.status == sourceRunning && !s.halted }) ||
		slices.ContainsFunc(m.sinks, func(s sink) bool { return !s.halted }) || m.write != nil {
		return false
	}
	if !m.restartRecorded && !m.breaks(RuleRestartRecord) {
		if m.giveUp != 0 {
			m.dropFrom(m.giveUp)
			m.giveUp = 0
		}
		m.beginWrite()
		return true
	}
	aborting, starved := false, false
	for i := range m.sinks {
		s := &m.sinks[i]
		for id := range s.ids {
			if s.ids[id] == idDirty {
				s.ids[id] = idAborting
				m.do(Abort{Sink: s.key, ID: int32(id)})
			}
			aborting = aborting || s.ids[id] == idAborting
		}
		starved = starved || s.transactional() && s.free() < 0
	}
	switch {
	case aborting:
		return false
	case starved:
		// Every id is held: a commit, then a record that no longer holds it, frees one.
		if slices.ContainsFunc(m.checkpoints, func(c checkpoint) bool { return c.state == checkpointCommitted }) {
			m.restartRecorded = false
			return true
		}
		return false
	case !m.restartDelayOver:
		return false
	}
	m.startAttempt()
	return true
}

// startAttempt lets sinks, then sources begin: after a recovery or a restart every sink has a free id.
func (m *Machine) startAttempt() {
	m.phase = phaseRunning
	m.intervalElapsed, m.pauseElapsed, m.resumeDue = false, true, false
	for i := range m.sinks {
		s := &m.sinks[i]
		if s.open = -1; s.transactional() {
			s.open = s.free()
			s.ids[s.open] = idOpen
		}
		m.do(StartSink{Attempt: m.attempt, Sink: s.key, ID: s.open})
	}
	for i := range m.sources {
		s := &m.sources[i]
		if s.status != sourceRunning && !(s.status == sourceWaiting && m.recorded(s)) {
			continue
		}
		s.status, s.state = sourceRunning, *stateOf(m.positions, s.key)
		m.do(StartSource{Attempt: m.attempt, State: s.state})
	}
	m.do(SetTimer{Timer: Timer{Kind: TimerInterval}, After: m.cfg.Interval})
	m.do(Report{What: ReportStarted})
}

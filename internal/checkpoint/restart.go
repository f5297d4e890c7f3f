package checkpoint

import (
	"fmt"
	"slices"
	"strings"
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
	m.do(SetTimer{Timer: Timer{Kind: TimerHalt, Of: m.attempt}, After: m.cfg.Timeout})
	m.do(SetTimer{Timer: Timer{Kind: TimerRestart, Of: uint64(m.restarts)}})
}

// unhalted names the components that still hold something of the ended attempt.
func (m *Machine) unhalted() (keys []string) {
	for i := range m.sources {
		if s := &m.sources[i]; s.status == sourceRunning && !s.halted {
			keys = append(keys, s.key)
		}
	}
	for i := range m.sinks {
		if s := &m.sinks[i]; !s.halted {
			keys = append(keys, s.key)
		}
	}
	return keys
}

// onHaltTimeout ends a process in which the ended attempt does not leave the pipeline: a new attempt beside it could be
// disturbed by it, and one that waits for ever is worth less than a new process.
func (m *Machine) onHaltTimeout(attempt uint64) {
	if keys := m.unhalted(); m.phase == phaseRestart && attempt == m.attempt && len(keys) > 0 {
		m.die(fmt.Errorf("records of an ended attempt are still in flight after checkpoint.timeout %v (%s): a processor or an "+
			"output holds them, such as one that waits without a limit of its own; the attempt ended by: %w",
			m.cfg.Timeout, strings.Join(keys, ", "), m.lastCause))
	}
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
	if len(m.unhalted()) > 0 || m.write != nil {
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
		s.state = *stateOf(m.positions, s.key)
		m.startSource(s)
	}
	m.do(StopTimer{Timer{Kind: TimerHalt, Of: m.attempt}})
	m.do(SetTimer{Timer: Timer{Kind: TimerInterval}, After: m.cfg.Interval})
	m.do(Report{What: ReportStarted})
}

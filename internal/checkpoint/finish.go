package checkpoint

import (
	"fmt"
	"slices"
)

// closing tells whether a source is being closed by the engine: after that there is no failover any more.
func (m *Machine) closing() bool {
	return slices.ContainsFunc(m.sources, func(s source) bool { return s.closing && s.status != sourceReleased })
}

func (m *Machine) released() bool {
	return !slices.ContainsFunc(m.sources, func(s source) bool { return s.status != sourceReleased })
}

// onClosing handles the end of a source. A soft one joins the next barrier, which is due at once; a hard one, where
// acknowledgements may be missing, ends everything without a further EndTxn.
func (m *Machine) onClosing(ev Closing) {
	s := m.sourceOf(ev.Source)
	if s == nil || s.status == sourceReleased || !m.alive() {
		m.do(CloseDone{Source: ev.Source})
		return
	}
	s.closing = true
	switch {
	case ev.Hard && m.phase == phaseRunning:
		m.do(Report{What: ReportHardStop})
		m.stop()
	case m.phase == phaseRestart:
		m.die(fmt.Errorf("stopped while restarting; the next start goes on from the last checkpoint: %w", m.lastCause))
	case m.phase != phaseRunning:
		// One that is closed while others go on, as by read_until, has emitted nothing yet: it joins the first barrier.
		if !slices.ContainsFunc(m.sources, func(s source) bool { return !s.closing && s.status != sourceReleased }) {
			m.stop()
		}
	case s.status != sourceRunning:
		m.closeDone(s)
	}
}

// stop ends the Machine where it is. What is recorded is settled by the next start.
func (m *Machine) stop() {
	if m.barrier != barrierNone {
		m.cancelBarrier()
	}
	m.phase = phaseStopped
	for i := range m.sources {
		if s := &m.sources[i]; s.closing && s.status != sourceReleased {
			m.closeDone(s)
		}
	}
}

func (m *Machine) closeDone(s *source) {
	s.status = sourceReleased
	m.do(CloseDone{Source: s.key})
}

// release lets a source go whose last position is durable and committed; the last one also waits for the closing
// record, so that after the end no record names a transaction.
func (m *Machine) release() bool {
	pending := len(m.checkpoints) > 0 || len(m.known.Entries) > 0 || m.write != nil
	for i := range m.sources {
		s := &m.sources[i]
		if s.status != sourceRunning || !s.final || m.allFinal() && pending ||
			slices.ContainsFunc(m.checkpoints, func(c checkpoint) bool {
				return c.entry.Checkpoint <= s.finalAt && c.state != checkpointCommitted
			}) || !m.recorded(s) {
			continue
		}
		s.status = sourceReleased
		if s.atEnd {
			m.do(Finish{Source: s.key})
		}
		if s.closing {
			m.do(CloseDone{Source: s.key})
		}
		if m.released() {
			m.do(Report{What: ReportStopped})
		}
		return true
	}
	return false
}

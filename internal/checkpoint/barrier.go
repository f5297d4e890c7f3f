package checkpoint

import (
	"fmt"
	"slices"
	"strings"
)

// uncommitted counts the checkpoints that bound max_concurrent: declined ones do not count, else a store that fails
// for a while would stop every barrier, and with it the record that takes them along.
func (m *Machine) uncommitted() int {
	n := 0
	for _, c := range m.checkpoints {
		if c.state != checkpointCommitted && (!c.declined || m.breaks(RuleDeclinedWait)) {
			n++
		}
	}
	return n
}

// closingDue tells whether something happened since the newest record that the next one should say, so that after a
// quiet moment the newest record names no transaction.
func (m *Machine) closingDue() bool {
	return !m.breaks(RuleClosingRecord) && (m.poolsStale() || slices.ContainsFunc(m.checkpoints, func(c checkpoint) bool {
		return c.state == checkpointCommitted || c.declined
	}))
}

// urgent tells whether a barrier is due before the interval has passed.
func (m *Machine) urgent() bool {
	for i := range m.sources {
		if s := &m.sources[i]; s.status == sourceRunning && (s.atEnd || s.closing) && !s.final {
			return true
		}
	}
	// No id is free, or the end waits for it: the closing record is what frees and what ends.
	return (m.resumeDue || m.allFinal()) && m.closingDue() && m.write == nil && !m.recordDue
}

// allFinal tells whether every source has handed in its last position.
func (m *Machine) allFinal() bool {
	return !slices.ContainsFunc(m.sources, func(s source) bool { return s.status != sourceReleased && !s.final })
}

func (m *Machine) trigger() bool {
	if m.barrier != barrierNone || m.released() || m.uncommitted() >= max(1, m.cfg.MaxConcurrent) ||
		!(m.urgent() || m.intervalElapsed && m.pauseElapsed) {
		return false
	}
	m.intervalElapsed = false
	m.barrier, m.barrierNumber = barrierDraining, m.nextCheckpoint
	m.do(SetTimer{Timer: Timer{Kind: TimerInterval}, After: m.cfg.Interval})
	m.do(SetTimer{Timer: Timer{Kind: TimerTimeout, Of: m.barrierNumber}, After: m.cfg.Timeout})
	for i := range m.sources {
		if s := &m.sources[i]; s.status == sourceRunning && !s.final {
			s.paused, s.drained, s.last = true, false, false
			m.do(Pause{Checkpoint: m.barrierNumber, Source: s.key})
		}
	}
	return true
}

func (m *Machine) onDrained(ev Drained) {
	s := m.sourceOf(ev.State.Source)
	if s == nil || m.barrier != barrierDraining || ev.Checkpoint != m.barrierNumber || s.drained {
		return
	}
	s.drained, s.state = true, ev.State
	s.atEnd = s.atEnd || ev.State.Finished
	s.last = s.closing || ev.State.Finished
}

// advanceBarrier takes the barrier from stage to stage: sources drained, sinks flushed, sinks sealed.
func (m *Machine) advanceBarrier() bool {
	switch m.barrier {
	case barrierDraining:
		for i := range m.sources {
			if s := &m.sources[i]; s.status == sourceRunning && !s.final && !s.drained {
				return false
			}
		}
		m.barrier = barrierFlushing
		for i := range m.sinks {
			m.sinks[i].flushed = false
			m.do(Flush{Checkpoint: m.barrierNumber, Sink: m.sinks[i].key})
		}
	case barrierFlushing:
		if slices.ContainsFunc(m.sinks, func(s sink) bool { return !s.flushed }) {
			return false
		}
		m.barrier = barrierSealing
		for i := range m.sinks {
			s := &m.sinks[i]
			s.sealed, s.committable, s.next = false, nil, -1
			if s.open >= 0 {
				if s.next = s.free(); s.next >= 0 {
					s.ids[s.next] = idOpen
				}
			}
			m.do(Seal{Checkpoint: m.barrierNumber, Sink: s.key, Next: s.next})
		}
	case barrierSealing:
		if slices.ContainsFunc(m.sinks, func(s sink) bool { return !s.sealed }) {
			return false
		}
		m.completeBarrier()
	default:
		return false
	}
	return true
}

func (m *Machine) onSealed(ev Sealed) {
	if s := m.sinkOf(ev.Sink); s != nil && m.barrier == barrierSealing && ev.Checkpoint == m.barrierNumber {
		s.sealed, s.committable = true, ev.Committable
	}
}

// completeBarrier makes a checkpoint of what the sinks sealed, unless nothing has changed (rule 4), and lets the
// sources go on: writing and committing happen while records already flow again.
func (m *Machine) completeBarrier() {
	entry := &Entry{Checkpoint: m.barrierNumber, Before: m.positions}
	for i := range m.sinks {
		s := &m.sinks[i]
		if s.committable == nil {
			if s.next >= 0 {
				s.ids[s.next] = idFree
			}
			continue
		}
		entry.Committables = append(entry.Committables, *s.committable)
		s.ids[s.open] = idSealed
		s.open = s.next
	}
	var now []SourceState
	for i := range m.sources {
		// A source that was closed while it joined has no state.
		if m.sources[i].status != sourceJoining && m.sources[i].state.Source != "" {
			now = append(now, m.sources[i].state)
		}
	}
	entry.After = mergeInto(m.positions, now)
	changed := len(entry.Committables) > 0 ||
		!slices.EqualFunc(entry.Before, entry.After, func(a, b SourceState) bool { return a.Equal(b) })
	m.barrier = barrierNone
	if changed {
		m.nextCheckpoint++
		m.positions = entry.After
		m.checkpoints = append(m.checkpoints, checkpoint{entry: entry})
		m.do(Report{What: ReportSealed, Checkpoint: m.barrierNumber, Lost: entry.Committables})
	} else {
		m.do(Report{What: ReportUnchanged, Checkpoint: m.barrierNumber})
		m.do(StopTimer{Timer{Kind: TimerTimeout, Of: m.barrierNumber}})
		m.recordDue = m.recordDue || m.closingDue()
	}
	for i := range m.sources {
		if s := &m.sources[i]; s.last && !s.final {
			s.final, s.finalAt = true, m.nextCheckpoint-1
		}
	}
	m.resumeDue = true
}

// openNext gives a sink that sealed without a free id one that has become free.
func (m *Machine) openNext() bool {
	if m.barrier == barrierSealing {
		return false
	}
	for i := range m.sinks {
		s := &m.sinks[i]
		if !s.transactional() || s.open >= 0 {
			continue
		}
		if id := s.free(); id >= 0 {
			s.ids[id], s.open = idOpen, id
			m.do(Open{Sink: s.key, ID: id})
			return true
		}
	}
	return false
}

// resumeDrained lets sources emit only when every sink has an open id: else a writer would block, in-flight would
// never fall to zero, and no barrier could free one.
func (m *Machine) resumeDrained() bool {
	if !m.resumeDue || m.barrier != barrierNone {
		return false
	}
	for i := range m.sinks {
		if s := &m.sinks[i]; s.transactional() && s.open < 0 && !m.breaks(RuleIDBeforeEmit) {
			return false
		}
	}
	m.resumeDue = false
	m.resumeSources()
	return true
}

func (m *Machine) resumeSources() {
	for i := range m.sources {
		if s := &m.sources[i]; s.status == sourceRunning && s.paused && !s.final && !s.closing {
			s.paused = false
			m.do(Resume{Source: s.key})
		}
	}
}

// slowWrite says why a write may take longer than the timeout. The clock goes on while a process is suspended.
const slowWrite = "check the disk of the state store, unless the process, or its machine, was suspended (SIGSTOP, a paused " +
	"container, a machine asleep): then start it again"

func (m *Machine) onFired(t Timer) {
	switch t.Kind {
	case TimerInterval:
		m.intervalElapsed = true
	case TimerPause:
		m.pauseElapsed = true
	case TimerTimeout:
		if m.phase == phaseRunning {
			m.onTimeout(t.Of)
		}
	case TimerWrite:
		if m.write != nil && m.phase != phaseRunning {
			m.die(fmt.Errorf("writing checkpoint record %d did not end within checkpoint.timeout %v; "+slowWrite,
				m.write.record.Number, m.cfg.Timeout))
		}
	case TimerHalt:
		m.onHaltTimeout(t.Of)
	case TimerRestart:
		m.restartDelayOver = m.phase == phaseRestart
	}
}

// onTimeout declines a checkpoint that took longer than the timeout. Before any sink has sealed, the barrier is
// cancelled and the open transactions go on; between the first and the last seal only a failover is safe; after them
// the next record takes it along, unless a write of it is under way, whose outcome is unknown then.
func (m *Machine) onTimeout(n uint64) {
	cause := fmt.Errorf("checkpoint %d was not durable within checkpoint.timeout %v", n, m.cfg.Timeout)
	if m.barrier != barrierNone && m.barrierNumber == n {
		if m.barrier == barrierSealing {
			m.failover(ReasonTimeout, cause)
			return
		}
		reason := ReasonFlush
		if m.barrier == barrierDraining {
			reason = ReasonDrain
		}
		cause = fmt.Errorf("%w: %s", cause, m.lagging())
		m.cancelBarrier()
		m.decline(n, reason, cause)
		return
	}
	i := slices.IndexFunc(m.checkpoints, func(c checkpoint) bool { return c.entry.Checkpoint == n })
	if i < 0 || m.checkpoints[i].state != checkpointSealed || m.checkpoints[i].declined {
		return
	}
	if m.write != nil && m.write.upTo >= n {
		m.failover(ReasonTimeout, fmt.Errorf("%w: its record is still being written", cause))
		return
	}
	m.checkpoints[i].declined = true
	m.decline(n, ReasonWrite, cause)
}

// lagging says what the barrier under way is waiting for.
func (m *Machine) lagging() string {
	var keys []string
	if m.barrier == barrierDraining {
		for i := range m.sources {
			if s := &m.sources[i]; s.status == sourceRunning && !s.final && !s.drained {
				keys = append(keys, s.key)
			}
		}
		return fmt.Sprintf("records that %s emitted are still in the pipeline; a processor or an output holds them, or is slow",
			strings.Join(keys, ", "))
	}
	for i := range m.sinks {
		if !m.sinks[i].flushed {
			keys = append(keys, m.sinks[i].key)
		}
	}
	return fmt.Sprintf("the brokers have not acknowledged every record of %s; they are away, or slow", strings.Join(keys, ", "))
}

// cancelBarrier ends a barrier that no sink has sealed. Its number is not used again.
func (m *Machine) cancelBarrier() {
	if m.barrier == barrierNone {
		return
	}
	m.do(CancelBarrier{Checkpoint: m.barrierNumber})
	m.do(StopTimer{Timer{Kind: TimerTimeout, Of: m.barrierNumber}})
	m.barrier = barrierNone
	m.nextCheckpoint++
	for i := range m.sources {
		m.sources[i].last = m.sources[i].final
	}
	m.resumeDue = true
}

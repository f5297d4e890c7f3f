package checkpoint

import (
	"fmt"
	"slices"
	"strings"
)

// begin starts a recovery: what the newest record says is compared with the clusters before anything is committed.
func (m *Machine) begin() {
	if m.phase != phaseNew {
		return
	}
	m.phase = phaseVerify
	if m.known == nil {
		for i := range m.sources {
			m.sources[i].verified = true
		}
		for i := range m.sinks {
			m.sinks[i].verified = true
		}
		return
	}
	if !m.checkRenamed() || !m.dropRemoved() {
		return
	}
	for i := range m.sources {
		s := &m.sources[i]
		restored := stateOf(m.known.Positions, s.key)
		if s.verified = restored == nil; !s.verified {
			m.do(Verify{Key: s.key, Source: restored})
		}
	}
	for i := range m.sinks {
		s := &m.sinks[i]
		state, committables := m.restoredSink(s.key)
		s.recorded = state.Pools
		if s.verified = len(state.Pools) == 0 && len(committables) == 0; !s.verified {
			m.do(Verify{Key: s.key, Sink: &state, Committables: committables})
		}
	}
}

func (m *Machine) restoredSink(key string) (SinkState, []Committable) {
	state := SinkState{Sink: key}
	for _, s := range m.known.Sinks {
		if s.Sink == key {
			state = s
		}
	}
	var committables []Committable
	for _, e := range m.known.Entries {
		for _, c := range e.Committables {
			if c.Sink == key {
				committables = append(committables, c)
			}
		}
	}
	return state, committables
}

// checkRenamed refuses a source that has no state while the state of another one has no source: as a rule it is the
// same source under another label or at another place of the config, which would begin anew. A source that was only
// removed keeps its position, since it may come back.
func (m *Machine) checkRenamed() bool {
	if m.cfg.AllowNonRestored {
		return true
	}
	var keys []string
	for i := range m.sources {
		keys = append(keys, m.sources[i].key)
	}
	err := m.known.Renamed(keys)
	if err != nil {
		m.die(err)
	}
	return err == nil
}

// Renamed says that one of the sources seems to have another name in the record; nil where that is not so.
func (r *Record) Renamed(sources []string) error {
	for _, left := range r.Positions {
		if left.Finished || slices.Contains(sources, left.Source) {
			continue
		}
		for _, key := range sources {
			if stateOf(r.Positions, key) == nil {
				return fmt.Errorf("the newest checkpoint has positions of the input %q, which the config no longer has, and none "+
					"of the input %q: where that is the same input under another label or at another place, give it the label "+
					"or the place back; set checkpoint.allow_non_restored_state: true to begin %q by its start-up mode",
					left.Source, key, key)
			}
		}
	}
	return nil
}

// Source returns what the record holds of a source, nil for nothing.
func (r *Record) Source(key string) *SourceState { return stateOf(r.Positions, key) }

// dropRemoved handles transactions of sinks that the config no longer has: one that nobody can commit any more stops the
// start-up, or is dropped and counted.
func (m *Machine) dropRemoved() bool {
	for i := range m.checkpoints {
		e := m.checkpoints[i].entry
		var lost, kept []Committable
		for _, c := range e.Committables {
			if m.sinkOf(c.Sink) == nil {
				lost = append(lost, c)
			} else {
				kept = append(kept, c)
			}
		}
		if len(lost) == 0 {
			continue
		}
		if !m.cfg.AllowNonRestored {
			m.die(fmt.Errorf("checkpoint %d holds the transaction %v of the output %q, which the config no longer has "+
				"(or which has another label or place now): put it back under that label until the transaction is "+
				"committed, or set checkpoint.allow_non_restored_state: true to lose what is in it",
				e.Checkpoint, lost[0], lost[0].Sink))
			return false
		}
		m.do(Report{What: ReportDropped, Checkpoint: e.Checkpoint, Lost: lost})
		rest := *e
		rest.Committables = kept
		m.checkpoints[i].entry = &rest
	}
	return true
}

func (m *Machine) onVerified(ev Verified) {
	if s := m.sourceOf(ev.Key); s != nil && !s.verified {
		s.verified = true
		if m.phase > phaseResolve {
			m.resolve(s)
		}
	}
	if s := m.sinkOf(ev.Key); s != nil {
		s.verified = true
	}
}

func (m *Machine) resolve(s *source) {
	m.do(Resolve{Source: s.key, Restored: stateOf(m.positions, s.key)})
}

func (m *Machine) advanceRecovery() bool {
	switch m.phase {
	case phaseVerify:
		if slices.ContainsFunc(m.sources, func(s source) bool { return !s.verified }) ||
			slices.ContainsFunc(m.sinks, func(s sink) bool { return !s.verified }) {
			return false
		}
		m.phase = phaseSettle
	case phaseSettle:
		return m.commitNext() || m.enterResolve()
	case phaseResolve:
		if slices.ContainsFunc(m.sources, func(s source) bool { return s.status == sourceJoining }) {
			return false
		}
		m.phase = phaseFirstRecord
	case phaseFirstRecord:
		if m.write != nil {
			return false
		}
		m.beginWrite()
	case phaseInitIDs:
		if slices.ContainsFunc(m.sinks, func(s sink) bool { return !s.ready }) {
			return false
		}
		m.startAttempt()
	default:
		return false
	}
	return true
}

// enterResolve follows when every entry is committed, or the first that is not is given up with all after it: nothing
// later can be committed then.
func (m *Machine) enterResolve() bool {
	if m.committing != 0 {
		return false
	}
	if m.giveUp != 0 {
		m.dropFrom(m.giveUp)
		m.giveUp = 0
	}
	m.phase = phaseResolve
	if m.known != nil && len(m.known.Entries) == 0 {
		// Race: a process that is killed after its record has forgotten a checkpoint, and before the positions have reached
		// the consumer group. If nothing is left to read, no later checkpoint would bring them there.
		m.do(CommitOffsets{Checkpoint: m.known.LastCheckpoint, Positions: m.positions})
	}
	for i := range m.sources {
		m.resolve(&m.sources[i])
	}
	return true
}

// dropFrom gives up checkpoint n and all after it: the positions are those before n, and their ids have to be aborted.
func (m *Machine) dropFrom(n uint64) {
	for i, c := range m.checkpoints {
		if c.entry.Checkpoint < n {
			continue
		}
		for j := len(m.checkpoints) - 1; j >= i; j-- {
			// One after another, since a source that joined late is only in those after it came.
			if j == i || !m.breaks(RuleTakeBack) {
				m.positions = mergeInto(m.positions, m.checkpoints[j].entry.Before)
			}
		}
		for _, d := range m.checkpoints[i:] {
			m.do(Report{What: ReportGivenUp, Checkpoint: d.entry.Checkpoint})
			m.freeIDs(d.entry, idDirty)
		}
		m.checkpoints = m.checkpoints[:i]
		return
	}
}

// mergeInto replaces in positions the states that newer has; states of sources that are not in newer stay.
func mergeInto(positions, newer []SourceState) []SourceState {
	out := slices.Clone(newer)
	for _, s := range positions {
		if stateOf(out, s.Source) == nil {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b SourceState) int { return strings.Compare(a.Source, b.Source) })
	return out
}

func (m *Machine) onResolved(ev Resolved) {
	s := m.sourceOf(ev.State.Source)
	if s == nil || s.status != sourceJoining {
		return
	}
	s.status, s.state = sourceWaiting, ev.State
	s.publish = (s.publish || ev.State.Publish) && !m.breaks(RulePublish)
	m.positions = mergeInto(m.positions, []SourceState{ev.State})
}

// enterInitIDs follows the record that no longer holds what was settled: only now may ids be initialised (rule 6).
func (m *Machine) enterInitIDs() {
	m.phase = phaseInitIDs
	for i := range m.sources {
		if s := &m.sources[i]; s.status == sourceWaiting {
			m.publish(s)
		}
	}
	for i := range m.sinks {
		s := &m.sinks[i]
		if !s.transactional() && len(s.recorded) == 0 {
			s.ready = true
			continue
		}
		m.do(InitIDs{Sink: s.key, Pools: m.initPools(s)})
		for id := range s.ids {
			s.ids[id] = idFree
		}
	}
}

// publish brings the positions that a source begins with to the consumer group, once they are durable. Nothing is left to
// be committed before them, since the source has emitted nothing in this process, and what it had in an earlier one was
// settled by the recovery (rule 1). As in Flink, whose first checkpoint commits starts that are numbers, the group shows
// where a job stands that waits for its first record; and where the store is lost then, the next start is refused instead
// of passing over what came in between.
func (m *Machine) publish(s *source) {
	if s.publish {
		s.publish = false
		m.do(CommitOffsets{Checkpoint: m.nextCheckpoint - 1, Positions: []SourceState{s.state}})
	}
}

// initPools are all pools that have to be initialised, the larger of an old and a new one of the same name.
func (m *Machine) initPools(s *sink) []Pool {
	out := m.pools(s)
	if !s.transactional() {
		out = slices.Clone(s.recorded)
	}
	for i := range out {
		for _, o := range out {
			if o.ClusterID == out[i].ClusterID && o.Prefix == out[i].Prefix && o.Index == out[i].Index {
				out[i].Size = max(out[i].Size, o.Size)
			}
		}
	}
	slices.SortFunc(out, func(a, b Pool) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return slices.Compact(out)
}

// onJoined lets a source in that comes to a running stream, as the children of a sequence do. What the newest record
// says of it is compared with its cluster first, as in a recovery.
func (m *Machine) onJoined(ev Joined) {
	late := source{key: ev.Source}
	s := m.sourceOf(ev.Source)
	if s != nil {
		*s = late
	} else {
		m.sources = append(m.sources, late)
		s = &m.sources[len(m.sources)-1]
	}
	restored := stateOf(m.positions, ev.Source)
	if restored != nil {
		// The recovery had nobody to publish it by.
		s.publish = true
		m.do(Verify{Key: ev.Source, Source: restored})
		return
	}
	s.verified = true
	m.resolve(s)
}

// startWaiting starts late sources whose first positions have become durable (rule 2), between two barriers: what
// such a source emits between a flush and a seal would be sealed unacknowledged.
func (m *Machine) startWaiting() bool {
	if m.barrier != barrierNone || m.resumeDue {
		return false
	}
	for i := range m.sources {
		s := &m.sources[i]
		if s.status == sourceWaiting && (m.recorded(s) || m.breaks(RuleLateRecord)) {
			m.startSource(s)
			return true
		}
	}
	return false
}

// startSource has a source begin whose positions are durable (rule 2).
func (m *Machine) startSource(s *source) {
	m.publish(s)
	s.status = sourceRunning
	m.do(StartSource{Attempt: m.attempt, State: s.state})
}

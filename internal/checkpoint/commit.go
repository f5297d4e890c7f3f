package checkpoint

import (
	"fmt"
	"slices"
	"strings"
)

// commitNext asks for the verdict of the first checkpoint that is recorded and not committed. Commits happen in
// checkpoint order and one at a time (rule 7): a reader never sees n+1 without n, and a lost n can be replayed because
// nothing after it is visible.
func (m *Machine) commitNext() bool {
	if m.committing != 0 || m.giveUp != 0 || m.unresolved {
		return false
	}
	for i := range m.checkpoints {
		c := &m.checkpoints[i]
		switch {
		case c.state == checkpointCommitted:
			continue
		case c.state == checkpointSealed && !m.breaks(RuleRecordBeforeCommit):
			return false
		case len(c.entry.Committables) == 0:
			m.settle(c)
			return true
		}
		m.committing = c.entry.Checkpoint
		m.do(Commit{Checkpoint: c.entry.Checkpoint, Committables: c.entry.Committables})
		return true
	}
	return false
}

// settle notes that all of a checkpoint's transactions are committed. Only now may its positions be published (rule 1).
func (m *Machine) settle(c *checkpoint) {
	c.state, c.declined = checkpointCommitted, false
	m.do(Report{What: ReportCommitted, Checkpoint: c.entry.Checkpoint})
	m.do(CommitOffsets{Checkpoint: c.entry.Checkpoint, Positions: c.entry.After})
	if m.phase == phaseRunning {
		m.restarts = 0
		if m.cfg.MinPause > 0 {
			m.pauseElapsed = false
			m.do(SetTimer{Timer: Timer{Kind: TimerPause}, After: m.cfg.MinPause})
		}
	}
	if m.breaks(RuleIDHeld) {
		m.freeIDs(c.entry, idFree)
	}
	m.forget()
}

func (m *Machine) onCommitDone(ev CommitDone) {
	i := slices.IndexFunc(m.checkpoints, func(c checkpoint) bool { return c.entry.Checkpoint == ev.Checkpoint })
	if m.committing != ev.Checkpoint || i < 0 || len(ev.Verdicts) != len(m.checkpoints[i].entry.Committables) {
		return
	}
	m.committing = 0
	c := &m.checkpoints[i]
	if !slices.ContainsFunc(ev.Verdicts, func(v Verdict) bool { return v != Committed }) {
		m.settle(c)
		return
	}
	m.lose(c, ev.Verdicts)
}

// lose handles a checkpoint of which at least one transaction is not committed and never will be.
func (m *Machine) lose(c *checkpoint, verdicts []Verdict) {
	var lost []Committable
	policy, notTried, replayable := Continue, false, true
	for i, v := range verdicts {
		switch v {
		case Committed:
			replayable = false
			continue
		case NotTried:
			notTried = true
			continue
		case Unknown:
			replayable = false
		}
		lost = append(lost, c.entry.Committables[i])
		if s := m.sinkOf(c.entry.Committables[i].Sink); s != nil {
			policy = stricter(policy, s.onLost)
		}
	}
	n := c.entry.Checkpoint
	cause := lostError(n, lost, verdicts)
	switch {
	case policy == Continue && notTried:
		m.committing = n
		m.do(Commit{Checkpoint: n, Committables: c.entry.Committables, Each: true})
	case policy == Continue:
		m.do(Report{What: ReportLost, Checkpoint: n, Lost: lost, Cause: cause})
		m.settle(c)
	case policy == Replay && replayable:
		m.do(Report{What: ReportReplay, Checkpoint: n, Lost: lost, Cause: cause})
		m.replayFrom(n, cause)
	default:
		m.do(Report{What: ReportLost, Checkpoint: n, Lost: lost, Cause: cause})
		m.die(fmt.Errorf("%w; on_lost_transaction: continue would count it as lost and go on", cause))
	}
}

// replayFrom gives up checkpoint n and all after it: no further EndTxn, then a record with the positions before n, and
// only then the aborts.
func (m *Machine) replayFrom(n uint64, cause error) {
	m.giveUp = n
	switch m.phase {
	case phaseRunning:
		m.failover(ReasonLost, cause)
	case phaseRestart:
		// The record of the restart under way may hold n already; it needs another one.
		m.restartRecorded = false
	}
}

// stricter returns the policy that allows less: fail, then replay, then continue.
func stricter(a, b Policy) Policy {
	rank := func(p Policy) int { return slices.Index([]Policy{Fail, Replay, Continue}, p) }
	if rank(b) < rank(a) {
		return b
	}
	return a
}

func lostError(n uint64, lost []Committable, verdicts []Verdict) error {
	var b strings.Builder
	for i, c := range lost {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s of output %q with %d records in", c.TransactionalID, c.Sink, c.Records)
		for _, t := range c.Topics {
			fmt.Fprintf(&b, " %s %v", t.Topic, t.Partitions)
		}
	}
	if slices.Contains(verdicts, Unknown) {
		return fmt.Errorf("the outcome of a transaction of checkpoint %d can no longer be told: its id was "+
			"initialised again, by another process with the same transactional_id_prefix as a rule, or has expired: %s", n, b.String())
	}
	return fmt.Errorf("a transaction of checkpoint %d was aborted, by its timeout as a rule, before it could be "+
		"committed: %s", n, b.String())
}

package checkpoint

// Rule names one rule of the protocol that the explorer can break in a Machine, to prove that it would notice. Nothing
// but a test sets one.
type Rule uint8

// The rules that can be broken, each with what then happens.
const (
	// RuleNone breaks nothing.
	RuleNone Rule = iota
	// RuleUnknownWrite: a write of unknown outcome counts as durable.
	RuleUnknownWrite
	// RuleEntries: a record leaves out declined checkpoints (rule 7).
	RuleEntries
	// RuleDeclinedWait: declined checkpoints count against max_concurrent.
	RuleDeclinedWait
	// RuleClosingRecord: a commit or a declined checkpoint is no reason for a record.
	RuleClosingRecord
	// RuleIDBeforeEmit: sources emit although no id is free.
	RuleIDBeforeEmit
	// RuleRecordBeforeCommit: a sealed transaction is committed before its record is durable.
	RuleRecordBeforeCommit
	// RuleIDHeld: an id is used again once it is committed, although the newest record still holds it (rule 6).
	RuleIDHeld
	// RuleRestartRecord: a new attempt begins without a record of the barrier it begins at.
	RuleRestartRecord
	// RulePublish: positions that another resolution might not give again are not published when they are durable.
	RulePublish
	// RuleLateRecord: a source that comes late begins before its positions are durable (rule 2).
	RuleLateRecord
	// RuleTakeBack: what is given up is taken back only as the first checkpoint of it says (rule 7).
	RuleTakeBack
)

func (m *Machine) breaks(r Rule) bool { return r != RuleNone && m.broken == r }

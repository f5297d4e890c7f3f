package offsets

import (
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/internal/splits"
)

// StartMode is where a source begins that has no checkpoint, by Flink's scan.startup.mode.
type StartMode string

// The start modes.
const (
	EarliestStart  StartMode = "earliest-offset"
	LatestStart    StartMode = "latest-offset"
	GroupStart     StartMode = "group-offsets"
	TimestampStart StartMode = "timestamp"
	SpecificStart  StartMode = "specific-offsets"
)

// Reset is what replaces an offset that does not exist or is not in the log, by Kafka's auto.offset.reset.
type Reset string

// The reset policies.
const (
	ResetNone     Reset = "none"
	ResetEarliest Reset = "earliest"
	ResetLatest   Reset = "latest"
)

// DefaultReset is the policy of a config that names none: Flink's, by mode (OffsetsInitializer.committedOffsets and
// OffsetsInitializer.offsets).
func DefaultReset(mode StartMode) Reset {
	if mode == SpecificStart {
		return ResetEarliest
	}
	return ResetNone
}

// Start is a start initialiser.
type Start struct {
	Mode StartMode
	// Reset belongs to GroupStart and SpecificStart.
	Reset Reset
	// Group is the consumer group of GroupStart; in SpecificStart, where it may be empty, that of partitions which are not
	// listed or marked as committed.
	Group string
	// TimestampMS, in milliseconds since the epoch, belongs to TimestampStart.
	TimestampMS int64
	// Offsets belong to SpecificStart.
	Offsets Specific
}

// Validate refuses an initialiser that cannot be resolved on any cluster.
func (s Start) Validate() error {
	switch s.Mode {
	case EarliestStart, LatestStart:
		return nil
	case TimestampStart:
		if s.TimestampMS < 0 {
			return fmt.Errorf("startup.timestamp: %d is before 1970", s.TimestampMS)
		}
		return nil
	case GroupStart:
		if s.Group == "" {
			return errors.New("startup.mode: group-offsets needs group_id; set group_id, or startup.mode to " +
				"earliest-offset or latest-offset")
		}
		return s.Reset.validate()
	case SpecificStart:
		if len(s.Offsets) == 0 {
			return errors.New("startup.mode: specific-offsets needs startup.specific_offsets")
		}
		if err := s.Offsets.validate(MarkLatest, MarkEarliest, MarkCommitted); err != nil {
			return fmt.Errorf("startup.specific_offsets: %w", err)
		}
		if p, ok := s.Offsets.marked(MarkCommitted); ok && s.Group == "" {
			return fmt.Errorf("startup.specific_offsets: %v is to begin at its committed offset, which needs group_id", p)
		}
		return s.Reset.validate()
	}
	return fmt.Errorf("startup.mode: %q is not earliest-offset, latest-offset, group-offsets, timestamp or specific-offsets", s.Mode)
}

func (r Reset) validate() error {
	switch r {
	case ResetNone, ResetEarliest, ResetLatest:
		return nil
	}
	return fmt.Errorf("startup.offset_reset: %q is not none, earliest or latest", r)
}

// Needs says which answers Decide reads.
func (s Start) Needs() Needs {
	switch s.Mode {
	case EarliestStart:
		return Needs{Earliest: true}
	case LatestStart:
		return Needs{Latest: true}
	case TimestampStart:
		return Needs{Latest: true, Times: []int64{s.TimestampMS}}
	}
	return Needs{Earliest: true, Latest: true, Group: s.Group}
}

// Fits refuses offsets of partitions that do not exist in topics, which are all that the source subscribes to.
func (s Start) Fits(topics []splits.Topic) error {
	if s.Mode != SpecificStart {
		return nil
	}
	if err := s.Offsets.beyond(topics); err != nil {
		return fmt.Errorf("startup.specific_offsets: %w", err)
	}
	return nil
}

// Origin is the rule that gave a position.
type Origin string

// The origins, in the words of the log line that sums up a start.
const (
	FromEarliest      Origin = "earliest"
	FromLatest        Origin = "latest"
	FromCommitted     Origin = "committed offset"
	FromTimestamp     Origin = "timestamp"
	FromTimestampEnd  Origin = "no record since the timestamp, latest"
	FromSpecific      Origin = "specific offset"
	FromResetEarliest Origin = "offset_reset earliest"
	FromResetLatest   Origin = "offset_reset latest"
	FromCheckpoint    Origin = "checkpoint"
	FromNewPartition  Origin = "new partition, earliest"
	FromOutOfRange    Origin = "on_restore_out_of_range earliest"
)

// Resolved is a concrete position and the rule that gave it.
type Resolved struct {
	Position
	Origin Origin
}

// Decision is where partitions begin.
type Decision struct {
	At map[splits.Partition]Resolved
	// Replaced are offsets that the log does not have, committed or specific ones, and that the reset policy has replaced.
	Replaced []OutOfRange
}

// Decide returns the position each partition begins at.
func (s Start) Decide(parts []splits.Partition, a Answers) (Decision, error) {
	d := decider{start: s, answers: a, Decision: Decision{At: make(map[splits.Partition]Resolved, len(parts))}}
	for _, p := range parts {
		switch s.Mode {
		case EarliestStart:
			d.At[p] = Resolved{a.Earliest[p], FromEarliest}
		case LatestStart:
			d.At[p] = Resolved{a.Latest[p], FromLatest}
		case TimestampStart:
			d.At[p] = Resolved{a.Latest[p], FromTimestampEnd}
			if found, ok := a.AtTime[s.TimestampMS][p]; ok {
				d.At[p] = Resolved{found, FromTimestamp}
			}
		case GroupStart:
			d.committed(p)
		case SpecificStart:
			d.specific(p)
		}
	}
	return d.Decision, d.err()
}

// decider is one decision under way, with what stands against it.
type decider struct {
	Decision
	start   Start
	answers Answers
	// none have no committed offset, unlisted no specific one; the others are not in the log.
	none, unlisted            []splits.Partition
	committedOut, specificOut []OutOfRange
}

func (d *decider) err() error {
	return errors.Join(noCommittedOffset(d.start, d.none), unlisted(d.unlisted),
		committedOutOfRange(d.start, d.committedOut), specificOutOfRange(d.specificOut))
}

// outside returns the offset with the log's range, where it is not within that.
func (d *decider) outside(p splits.Partition, offset int64) (OutOfRange, bool) {
	o := OutOfRange{p, offset, d.answers.Earliest[p].Offset, d.answers.Latest[p].Offset}
	return o, offset < o.Start || offset > o.End
}

// reset applies the reset policy, and tells whether there is one.
func (d *decider) reset(p splits.Partition) bool {
	switch d.start.Reset {
	case ResetEarliest:
		d.At[p] = Resolved{d.answers.Earliest[p], FromResetEarliest}
	case ResetLatest:
		d.At[p] = Resolved{d.answers.Latest[p], FromResetLatest}
	case ResetNone:
		return false
	}
	return true
}

func (d *decider) committed(p splits.Partition) {
	committed, ok := d.answers.Committed[p]
	if !ok {
		if !d.reset(p) {
			d.none = append(d.none, p)
		}
		return
	}
	out, isOut := d.outside(p, committed.Offset)
	switch {
	case !isOut:
		d.At[p] = Resolved{committed, FromCommitted}
	case d.reset(p):
		d.Replaced = append(d.Replaced, out)
	default:
		d.committedOut = append(d.committedOut, out)
	}
}

// specific follows Flink's SpecifiedOffsetsInitializer: a partition that is not listed begins at the group's committed
// offset, or by the reset policy, which may not be none then. What its reader would find out later, that a listed offset
// is not in the log, is decided here, once (rule 2).
func (d *decider) specific(p splits.Partition) {
	offset, listed := d.start.Offsets[p]
	switch {
	case !listed && d.start.Reset == ResetNone:
		d.unlisted = append(d.unlisted, p)
		return
	case !listed, offset == MarkCommitted:
		d.committed(p)
		return
	case offset == MarkEarliest:
		d.At[p] = Resolved{d.answers.Earliest[p], FromSpecific}
		return
	case offset == MarkLatest:
		d.At[p] = Resolved{d.answers.Latest[p], FromSpecific}
		return
	}
	out, isOut := d.outside(p, offset)
	switch {
	case !isOut:
		d.At[p] = Resolved{Position{offset, -1}, FromSpecific}
	case d.reset(p):
		d.Replaced = append(d.Replaced, out)
	default:
		d.specificOut = append(d.specificOut, out)
	}
}

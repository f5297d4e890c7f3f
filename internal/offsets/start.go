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
	EarliestStart StartMode = "earliest-offset"
	LatestStart   StartMode = "latest-offset"
	GroupStart    StartMode = "group-offsets"
)

// Reset is what replaces a committed offset that does not exist or is not in the log any more, by Kafka's
// auto.offset.reset.
type Reset string

// The reset policies.
const (
	ResetNone     Reset = "none"
	ResetEarliest Reset = "earliest"
	ResetLatest   Reset = "latest"
)

// Start is a start initialiser. Modes that need more than Mode bring their own field.
type Start struct {
	Mode StartMode
	// Group and Reset belong to GroupStart.
	Group string
	Reset Reset
}

// Validate refuses an initialiser that cannot be resolved on any cluster.
func (s Start) Validate() error {
	switch s.Mode {
	case EarliestStart, LatestStart:
		return nil
	case GroupStart:
		if s.Group == "" {
			return errors.New("startup.mode: group-offsets needs group_id; set group_id, or startup.mode to " +
				"earliest-offset or latest-offset")
		}
		switch s.Reset {
		case ResetNone, ResetEarliest, ResetLatest:
			return nil
		}
		return fmt.Errorf("startup.offset_reset: %q is not none, earliest or latest", s.Reset)
	}
	return fmt.Errorf("startup.mode: %q is not earliest-offset, latest-offset or group-offsets", s.Mode)
}

// Needs says which answers Decide reads.
func (s Start) Needs() Needs {
	switch s.Mode {
	case EarliestStart:
		return Needs{Earliest: true}
	case LatestStart:
		return Needs{Latest: true}
	}
	return Needs{Earliest: true, Latest: true, Group: s.Group}
}

// Origin is the rule that gave a position.
type Origin string

// The origins, in the words of the log line that sums up a start.
const (
	FromEarliest      Origin = "earliest"
	FromLatest        Origin = "latest"
	FromCommitted     Origin = "committed offset"
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

// Decide returns the position each partition begins at.
func (s Start) Decide(parts []splits.Partition, a Answers) (map[splits.Partition]Resolved, error) {
	out := make(map[splits.Partition]Resolved, len(parts))
	var none []splits.Partition
	var outside []OutOfRange
	for _, p := range parts {
		switch s.Mode {
		case EarliestStart:
			out[p] = Resolved{a.Earliest[p], FromEarliest}
		case LatestStart:
			out[p] = Resolved{a.Latest[p], FromLatest}
		case GroupStart:
			committed, ok := a.Committed[p]
			valid := ok && committed.Offset >= a.Earliest[p].Offset && committed.Offset <= a.Latest[p].Offset
			switch {
			case valid:
				out[p] = Resolved{committed, FromCommitted}
			case s.Reset == ResetEarliest:
				out[p] = Resolved{a.Earliest[p], FromResetEarliest}
			case s.Reset == ResetLatest:
				out[p] = Resolved{a.Latest[p], FromResetLatest}
			case ok:
				outside = append(outside, OutOfRange{p, committed.Offset, a.Earliest[p].Offset, a.Latest[p].Offset})
			default:
				none = append(none, p)
			}
		}
	}
	return out, errors.Join(noCommittedOffset(s.Group, none), committedOutOfRange(s.Group, outside))
}

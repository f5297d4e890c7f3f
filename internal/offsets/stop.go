package offsets

import (
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/splits"
)

// StopMode is where a source stops, by Flink's scan.bounded.mode.
type StopMode string

// The stop modes.
const (
	Unbounded     StopMode = "unbounded"
	LatestStop    StopMode = "latest-offset"
	GroupStop     StopMode = "group-offsets"
	TimestampStop StopMode = "timestamp"
	SpecificStop  StopMode = "specific-offsets"
)

// Stop is a stop initialiser.
type Stop struct {
	Mode StopMode
	// Group is the consumer group of GroupStop; in SpecificStop, where it may be empty, that of partitions which are not
	// listed or marked as committed.
	Group string
	// TimestampMS, in milliseconds since the epoch, belongs to TimestampStop.
	TimestampMS int64
	// Offsets belong to SpecificStop.
	Offsets Specific
	// KeepRunning: every partition stops, and the source does not end (Flink's setUnbounded).
	KeepRunning bool
}

// Validate refuses an initialiser that cannot be resolved on any cluster.
func (s Stop) Validate() error {
	switch s.Mode {
	case Unbounded:
		if s.KeepRunning {
			return errors.New("bounded.keep_running has no effect with bounded.mode unbounded, which has no end; set " +
				"bounded.mode, or remove it")
		}
		return nil
	case LatestStop:
		return nil
	case TimestampStop:
		if s.TimestampMS < 0 {
			return fmt.Errorf("bounded.timestamp: %d is before 1970", s.TimestampMS)
		}
		return nil
	case GroupStop:
		if s.Group == "" {
			return errors.New("bounded.mode: group-offsets needs group_id; set group_id, or another bounded.mode")
		}
		return nil
	case SpecificStop:
		if len(s.Offsets) == 0 {
			return errors.New("bounded.mode: specific-offsets needs bounded.specific_offsets")
		}
		if err := s.Offsets.validate(MarkLatest, MarkCommitted); err != nil {
			return fmt.Errorf("bounded.specific_offsets: %w", err)
		}
		if p, ok := s.Offsets.marked(MarkCommitted); ok && s.Group == "" {
			return fmt.Errorf("bounded.specific_offsets: %v is to end at its committed offset, which needs group_id", p)
		}
		return nil
	}
	return fmt.Errorf("bounded.mode: %q is not unbounded, latest-offset, group-offsets, timestamp or specific-offsets", s.Mode)
}

// Stops tells whether partitions have an end.
func (s Stop) Stops() bool { return s.Mode != Unbounded }

// Bounded tells whether the source has an end.
func (s Stop) Bounded() bool { return s.Stops() && !s.KeepRunning }

// Needs says which answers Decide reads.
func (s Stop) Needs() Needs {
	switch s.Mode {
	case LatestStop:
		return Needs{Latest: true}
	case TimestampStop:
		return Needs{Latest: true, Times: []int64{s.TimestampMS}}
	case GroupStop:
		return Needs{Group: s.Group}
	case SpecificStop:
		return Needs{Earliest: true, Latest: true, Group: s.Group}
	}
	return Needs{}
}

// Fits refuses offsets of partitions that do not exist in topics, which are all that the source subscribes to.
func (s Stop) Fits(topics []splits.Topic) error {
	if s.Mode != SpecificStop {
		return nil
	}
	if err := s.Offsets.beyond(topics); err != nil {
		return fmt.Errorf("bounded.specific_offsets: %w", err)
	}
	return nil
}

// Decide returns the first offset of the partition that is not read any more, or checkpoint.NoStop. An offset beyond the
// log's end is one that is waited for.
func (s Stop) Decide(p splits.Partition, a Answers) (int64, error) {
	switch s.Mode {
	case LatestStop:
		return a.Latest[p].Offset, nil
	case TimestampStop:
		if found, ok := a.AtTime[s.TimestampMS][p]; ok {
			return found.Offset, nil
		}
		return a.Latest[p].Offset, nil
	case GroupStop:
		return s.committed(p, a)
	case SpecificStop:
		offset, listed := s.Offsets[p]
		switch {
		case !listed:
			// Flink's SpecifiedOffsetsInitializer, whose documentation says that nothing is read.
			if committed, ok := a.Committed[p]; ok {
				return committed.Offset, nil
			}
			return a.Earliest[p].Offset, nil
		case offset == MarkLatest:
			return a.Latest[p].Offset, nil
		case offset == MarkCommitted:
			return s.committed(p, a)
		}
		return offset, nil
	}
	return checkpoint.NoStop, nil
}

func (s Stop) committed(p splits.Partition, a Answers) (int64, error) {
	committed, ok := a.Committed[p]
	if !ok {
		return 0, &NoCommittedStopError{Mode: s.Mode, Group: s.Group, Partition: p}
	}
	return committed.Offset, nil
}

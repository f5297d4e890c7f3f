package offsets

import (
	"fmt"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/splits"
)

// StopMode is where a source stops, by Flink's scan.bounded.mode.
type StopMode string

// The stop modes.
const (
	Unbounded  StopMode = "unbounded"
	LatestStop StopMode = "latest-offset"
)

// Stop is a stop initialiser.
type Stop struct{ Mode StopMode }

// Validate refuses an unknown mode.
func (s Stop) Validate() error {
	switch s.Mode {
	case Unbounded, LatestStop:
		return nil
	}
	return fmt.Errorf("bounded.mode: %q is not unbounded or latest-offset", s.Mode)
}

// Bounded tells whether the source has an end.
func (s Stop) Bounded() bool { return s.Mode != Unbounded }

// Needs says which answers Decide reads.
func (s Stop) Needs() Needs { return Needs{Latest: s.Mode == LatestStop} }

// Decide returns the first offset of the partition that is not read any more, or checkpoint.NoStop.
func (s Stop) Decide(p splits.Partition, a Answers) int64 {
	if s.Mode == LatestStop {
		return a.Latest[p].Offset
	}
	return checkpoint.NoStop
}

package offsets

import (
	"fmt"

	"github.com/tidegate/tidegate/internal/splits"
)

// OnOutOfRange is what happens to a restored position that the log no longer has.
type OnOutOfRange string

// The policies of checkpoint.on_restore_out_of_range.
const (
	FailOutOfRange     OnOutOfRange = "fail"
	EarliestOutOfRange OnOutOfRange = "earliest"
)

// Restore resolves positions of a checkpoint. Neither the start-up mode nor its offset_reset has a say in it.
type Restore struct{ Policy OnOutOfRange }

// Validate refuses an unknown policy.
func (r Restore) Validate() error {
	switch r.Policy {
	case FailOutOfRange, EarliestOutOfRange:
		return nil
	}
	return fmt.Errorf("checkpoint.on_restore_out_of_range: %q is not fail or earliest", r.Policy)
}

// Needs says which answers Decide reads.
func (r Restore) Needs() Needs { return Needs{Earliest: true, Latest: true} }

// Decide checks restored positions against the log. epochEnds are the ends of the positions' leader epochs, where the
// cluster could tell. Those that the log no longer has are returned, for the caller to count and to log, with their
// replacement among the positions, or in an error, as the policy says.
func (r Restore) Decide(restored map[splits.Partition]Position, a Answers, epochEnds map[splits.Partition]int64,
) (map[splits.Partition]Resolved, []OutOfRange, error) {
	out := make(map[splits.Partition]Resolved, len(restored))
	var outside []OutOfRange
	for p, pos := range restored {
		start, end := a.Earliest[p].Offset, a.Latest[p].Offset
		// Where the log was cut below the position (an unclean leader election) and has grown past it again, only the
		// leader epoch can tell (KIP-320).
		if cut, ok := epochEnds[p]; ok && cut >= 0 && cut < end {
			end = min(end, max(cut, start))
		}
		if pos.Offset >= start && pos.Offset <= end {
			out[p] = Resolved{pos, FromCheckpoint}
			continue
		}
		outside = append(outside, OutOfRange{p, pos.Offset, start, end})
		out[p] = Resolved{a.Earliest[p], FromOutOfRange}
	}
	sortOutOfRange(outside)
	if r.Policy == FailOutOfRange {
		return out, outside, restoredOutOfRange(outside)
	}
	return out, outside, nil
}

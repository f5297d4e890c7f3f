package offsets

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/internal/splits"
)

// NoCommittedOffsetError says that the group has committed nothing for some partitions and that nothing replaces it.
type NoCommittedOffsetError struct {
	Mode       StartMode
	Group      string
	Partitions []splits.Partition
}

func (e *NoCommittedOffsetError) Error() string {
	return fmt.Sprintf("startup.mode %s: group %q has no committed offset for partitions %s, and "+
		"startup.offset_reset is none; set startup.offset_reset to earliest or latest for such partitions, or "+
		"startup.mode to earliest-offset or latest-offset", e.Mode, e.Group, splits.Format(e.Partitions))
}

func noCommittedOffset(s Start, parts []splits.Partition) error {
	if len(parts) == 0 {
		return nil
	}
	return &NoCommittedOffsetError{s.Mode, s.Group, parts}
}

// NoCommittedStopError says that a partition is to end where the group has committed, and that it has not.
type NoCommittedStopError struct {
	Mode      StopMode
	Group     string
	Partition splits.Partition
}

func (e *NoCommittedStopError) Error() string {
	return fmt.Sprintf("bounded.mode %s: group %q has no committed offset for %v, so there is no end to read to; correct "+
		"group_id, commit an offset for the partition, or set another bounded.mode", e.Mode, e.Group, e.Partition)
}

// UnlistedError says that startup.specific_offsets lists no offset for some partitions and that nothing replaces it.
type UnlistedError struct{ Partitions []splits.Partition }

func (e *UnlistedError) Error() string {
	return fmt.Sprintf("startup.mode specific-offsets: no offset is listed for partitions %s, and startup.offset_reset is "+
		"none; list them in startup.specific_offsets, or set startup.offset_reset to earliest or latest: it is for those "+
		"without a committed offset", splits.Format(e.Partitions))
}

func unlisted(parts []splits.Partition) error {
	if len(parts) == 0 {
		return nil
	}
	return &UnlistedError{parts}
}

// OutOfRange is a position that is not within the log of its partition.
type OutOfRange struct {
	splits.Partition
	// Offset is the position, Start and End the log's first offset and the end up to which the position would be valid;
	// -1 where they are not known.
	Offset, Start, End int64
}

// Skipped is the number of offsets between the position and the log's start: what retention deleted unread. It is 0 for
// a position beyond the end.
func (o OutOfRange) Skipped() int64 { return max(0, o.Start-o.Offset) }

func (o OutOfRange) String() string {
	switch {
	case o.Offset < o.Start:
		return fmt.Sprintf("%v at %d, log starts at %d", o.Partition, o.Offset, o.Start)
	case o.Offset > o.End && o.End >= 0:
		return fmt.Sprintf("%v at %d, log ends at %d", o.Partition, o.Offset, o.End)
	}
	return fmt.Sprintf("%v at %d", o.Partition, o.Offset)
}

func sortOutOfRange(outside []OutOfRange) {
	slices.SortFunc(outside, func(a, b OutOfRange) int { return splits.Compare(a.Partition, b.Partition) })
}

// OutOfRangeError says that positions are not within the log, and what to do.
type OutOfRangeError struct {
	// Of tells whose positions they are.
	Of string
	// WayOut is what the user can set.
	WayOut     string
	Partitions []OutOfRange
}

func (e *OutOfRangeError) Error() string {
	list := make([]string, 0, len(e.Partitions))
	for i, o := range e.Partitions {
		if i == 30 {
			list = append(list, fmt.Sprintf("and %d more", len(e.Partitions)-i))
			break
		}
		list = append(list, o.String())
	}
	return fmt.Sprintf("%s not in the log%s; %s", e.Of, fmt.Sprintf(e.cause(), strings.Join(list, "; ")), e.WayOut)
}

// cause is what the list goes into.
func (e *OutOfRangeError) cause() string {
	isBeyond := func(o OutOfRange) bool { return o.Offset > o.End && o.End >= 0 }
	if slices.ContainsFunc(e.Partitions, func(o OutOfRange) bool { return !isBeyond(o) }) {
		return " any more (%s): retention deleted the records, or the log was cut or its topic created again"
	}
	return " (%s): they are beyond its end, since the log was cut or its topic created again, or they are those of another topic or cluster"
}

func committedOutOfRange(s Start, outside []OutOfRange) error {
	return startOutOfRange(fmt.Sprintf("startup.mode %s: committed offsets of group %q are", s.Mode, s.Group), outside)
}

func specificOutOfRange(outside []OutOfRange) error {
	return startOutOfRange("startup.mode specific-offsets: startup.specific_offsets are", outside)
}

func startOutOfRange(of string, outside []OutOfRange) error {
	if len(outside) == 0 {
		return nil
	}
	sortOutOfRange(outside)
	return &OutOfRangeError{
		Of: of, WayOut: "set startup.offset_reset to earliest or latest for such partitions", Partitions: outside}
}

func restoredOutOfRange(outside []OutOfRange) error {
	if len(outside) == 0 {
		return nil
	}
	return &OutOfRangeError{
		Of: "restored positions are",
		WayOut: "set checkpoint.on_restore_out_of_range to earliest to read such partitions from the first record they " +
			"still have",
		Partitions: outside,
	}
}

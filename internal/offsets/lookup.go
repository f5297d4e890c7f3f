package offsets

import (
	"context"
	"slices"

	"github.com/tidegate/tidegate/internal/splits"
)

// Position is an offset with the leader epoch the log has there, -1 where unknown.
type Position struct {
	Offset      int64
	LeaderEpoch int32
}

// Lookup asks the cluster. An answer has an entry for every partition asked for, but for AtTime and Committed, which
// leave out those that have none.
type Lookup interface {
	// Earliest returns the first offset of each partition.
	Earliest(ctx context.Context, parts []splits.Partition) (map[splits.Partition]Position, error)
	// Latest returns the high watermark of each partition, also under read_committed, as Flink's initialisers do.
	Latest(ctx context.Context, parts []splits.Partition) (map[splits.Partition]Position, error)
	// AtTime returns the first offset whose record has the timestamp, in milliseconds since the epoch, or a later one. It
	// leaves out partitions that have no such record.
	AtTime(ctx context.Context, ms int64, parts []splits.Partition) (map[splits.Partition]Position, error)
	// Committed returns the group's committed offsets.
	Committed(ctx context.Context, group string, parts []splits.Partition) (map[splits.Partition]Position, error)
	// EpochEnds returns for each position with a leader epoch where the log of that epoch ends, -1 where the cluster
	// cannot tell. An end below the position means that the log was cut there.
	EpochEnds(ctx context.Context, positions map[splits.Partition]Position) (map[splits.Partition]int64, error)
}

// Needs says which answers a resolution reads.
type Needs struct {
	Earliest, Latest bool
	// Group is set where its committed offsets are needed.
	Group string
	// Times are the timestamps whose offsets are needed.
	Times []int64
}

// And returns the union of both needs; at most one of them names a group.
func (n Needs) And(o Needs) Needs {
	n.Earliest = n.Earliest || o.Earliest
	n.Latest = n.Latest || o.Latest
	if n.Group == "" {
		n.Group = o.Group
	}
	for _, ms := range o.Times {
		if !slices.Contains(n.Times, ms) {
			n.Times = append(slices.Clip(n.Times), ms)
		}
	}
	return n
}

// Answers are the cluster's answers at one moment. Start and stop are resolved from the same ones, so that a bounded
// latest-offset start reads nothing instead of what arrived in between.
type Answers struct {
	Earliest, Latest, Committed map[splits.Partition]Position
	// AtTime has the offsets by timestamp.
	AtTime map[int64]map[splits.Partition]Position
}

// Fetch asks for what is needed.
func Fetch(ctx context.Context, lookup Lookup, n Needs, parts []splits.Partition) (a Answers, err error) {
	if len(parts) == 0 {
		return a, nil
	}
	if n.Group != "" {
		if a.Committed, err = lookup.Committed(ctx, n.Group, parts); err != nil {
			return a, err
		}
	}
	if n.Earliest {
		if a.Earliest, err = lookup.Earliest(ctx, parts); err != nil {
			return a, err
		}
	}
	if n.Latest {
		if a.Latest, err = lookup.Latest(ctx, parts); err != nil {
			return a, err
		}
	}
	// After the ends: where a timestamp has no match, the end stands for it, and what came in between is not passed over.
	for _, ms := range n.Times {
		at, err := lookup.AtTime(ctx, ms, parts)
		if err != nil {
			return a, err
		}
		if a.AtTime == nil {
			a.AtTime = make(map[int64]map[splits.Partition]Position)
		}
		a.AtTime[ms] = at
	}
	return a, nil
}

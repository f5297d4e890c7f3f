package topics

import (
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
)

// recipes are the topics of the table: how many partitions they have and what is in them.
var recipes = map[string]struct {
	partitions int32
	configs    map[string]string
	fill       func(w *World, topic string)
}{
	// fixture is the one of the reference: record i of every partition has offset i, value i and the timestamp i seconds;
	// what lies before offset p is deleted in partition p.
	"fixture": {partitions: 10, fill: func(w *World, topic string) {
		for p := range int32(10) {
			w.Append(topic, p, 10)
		}
		for p := range int32(10) {
			w.DeleteBefore(topic, p, int64(p))
		}
	}},
	// pair has three records in each of two partitions.
	"pair": {partitions: 2, fill: func(w *World, topic string) {
		w.Append(topic, 0, 3)
		w.Append(topic, 1, 3)
	}},
	"empty": {partitions: 3, fill: func(*World, string) {}},
	// gaps has records in its partition 1 only; in partition 2 all were deleted.
	"gaps": {partitions: 3, fill: func(w *World, topic string) {
		w.Append(topic, 1, 5)
		w.Append(topic, 2, 5)
		w.DeleteBefore(topic, 2, 5)
	}},
	// transactions ends, in each partition, with control records: 0 with those of an aborted transaction behind a committed
	// one, 1 has nothing but aborted records, 2 one committed record, 3 nothing.
	"transactions": {partitions: 4, fill: func(w *World, topic string) {
		w.Append(topic, 0, 1)
		w.Transact(topic, 0, true, 1, 2)
		w.Transact(topic, 0, false, 4)
		w.Transact(topic, 1, false, 0, 1)
		w.Transact(topic, 2, true, 0)
	}},
	// open has one plain record, and two of a transaction that is open.
	"open": {partitions: 1, fill: func(w *World, topic string) {
		w.Append(topic, 0, 1)
		w.End = w.Begin(topic, 0, 1, 2)
	}},
	// compacted has no records with offsets from 0 to 19, and later ones with the same key.
	"compacted": {partitions: 1, configs: map[string]string{
		"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "100", "delete.retention.ms": "0",
	}, fill: func(w *World, topic string) {
		w.Append(topic, 0, 20)
		require.Eventually(w.t, func() bool {
			w.Append(topic, 0, 1)
			return w.first(topic, 0) >= 20
		}, limit, 200*time.Millisecond)
	}},
}

// groups tell what a group has committed for a partition.
var groups = map[string]func(topic string, partition int32) (int64, bool){
	"committed": func(topic string, p int32) (int64, bool) {
		switch topic {
		case "fixture":
			return min(int64(p)+2, 10), true
		case "open", "pair":
			return 2, true
		case "gaps":
			return []int64{0, 1, 5}[p], true
		case "transactions":
			return []int64{1, 1, 1, 0}[p], true
		case "empty":
			return 0, true
		}
		return 1, true
	},
	// partly has nothing for odd partitions.
	"partly": func(_ string, p int32) (int64, bool) { return int64(p) + 1, p%2 == 0 },
	// beyond is past the end of partition 9 of the fixture, behind before the start of all but its partition 0.
	"beyond": func(_ string, p int32) (int64, bool) { return int64(p) + 2, true },
	"behind": func(string, int32) (int64, bool) { return 0, true },
	"none":   func(string, int32) (int64, bool) { return 0, false },
}

// Groups are the names of the groups that Commit knows.
func Groups() []string { return slices.Sorted(maps.Keys(groups)) }

package kafkasource

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/internal/splits"
)

// A partition whose leader is gone, where no other replica can lead it, cannot be read until that broker is back. The
// client says nothing of it and goes on with the others; so do we, but not in silence: the question for the ends of the
// log, which is asked of each leader every few seconds, tells which partitions these are.

// unavailableAfter is after how many such questions in a row it is logged. An election takes less.
const unavailableAfter = 2

// unavailable is a partition that no broker tells the end of.
type unavailable struct {
	since time.Time
	// asked is how often the question was in vain; told is set once it was logged.
	asked int
	told  bool
}

// noteUnavailable compares what brokers have refused of what they were asked with what they refused before. Only measure
// calls it.
func (r *Reader) noteUnavailable(now time.Time, asked []splits.Partition, refused map[splits.Partition]error) {
	var back []splits.Partition
	for _, p := range slices.SortedFunc(maps.Keys(r.unavailable), splits.Compare) {
		u := r.unavailable[p]
		if _, still := refused[p]; still {
			continue
		}
		delete(r.unavailable, p)
		if u.told && slices.Contains(asked, p) { // else it is read no more: it is gone, or at its stop
			back = append(back, p)
		}
	}
	silent := r.ear.silence() >= r.cfg.EndInterval // nobody answers at all: setSilent says so
	reasons := map[string][]splits.Partition{}
	for p, err := range refused {
		u := r.unavailable[p]
		if u == nil {
			u = &unavailable{since: now}
			r.unavailable[p] = u
		}
		if u.asked++; u.asked >= unavailableAfter && !u.told && !silent {
			u.told = true
			reason := unavailableReason(err)
			reasons[reason] = append(reasons[reason], p)
		}
		if now.Sub(u.since) >= r.cfg.LostAfter {
			r.meter.forgetEnd(p)
		}
	}
	if r.cfg.Metrics.UnavailablePartitions != nil {
		r.cfg.Metrics.UnavailablePartitions(int64(len(refused)))
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		parts := reasons[reason]
		slices.SortFunc(parts, splits.Compare)
		r.log.Warn("partitions cannot be read, and are read on from their positions when that is over; the others go on meanwhile",
			"partitions", splits.Format(parts), "reason", reason)
	}
	if len(back) > 0 {
		r.log.Info("partitions can be read again", "partitions", splits.Format(back))
	}
}

// unavailableReason is why a partition cannot be read, for people.
func unavailableReason(err error) string {
	switch {
	case err == nil:
		return "the broker's answer cannot be understood"
	case errors.Is(err, kerr.LeaderNotAvailable):
		return fmt.Sprintf("%v The brokers that have a replica are down, or no in-sync one is left that could lead the partition", err)
	}
	return kafkaclient.WithCause(err).Error()
}

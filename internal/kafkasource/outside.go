package kafkasource

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/offsets"
	"github.com/tidegate/tidegate/internal/repeats"
	"github.com/tidegate/tidegate/internal/splits"
)

// A log may lose records before they are read: retention overtakes a slow reader, or somebody deletes them. The config
// says what that means, as it does at a start: checkpoint.on_restore_out_of_range with checkpoints, startup.offset_reset
// without. Either the source ends, or it reads on where there is something left, and what is lost is counted and logged.

// rangeTimeout bounds the question for a log's range.
const rangeTimeout = 5 * time.Second

// stepOver decides about positions that the broker does not have. What was fetched before is emitted by now, so a
// position that moves passes over nothing but what the log has lost.
func (r *Reader) stepOver(ctx context.Context, a *attempt, parts []splits.Partition) {
	slices.SortFunc(parts, splits.Compare)
	for _, p := range slices.Compact(parts) {
		r.mu.Lock()
		s := a.byPart[p.Topic][p.Partition]
		if r.att != a || a.halted || s == nil || s.gone || s.pos.AtStop() {
			r.mu.Unlock()
			continue
		}
		pos := s.pos
		r.mu.Unlock()
		o := r.outOfRange(ctx, p, pos.Offset)
		to, moves := r.replacement(o)
		switch {
		case ctx.Err() != nil:
			r.mu.Lock()
			a.outside = append(a.outside, p) // the question was broken off: the next call asks again
			r.mu.Unlock()
		case o.Start < 0 || o.Offset >= o.Start && o.Offset <= o.End:
			// It is not known why, or it was so for a moment, as on a replica that is behind. The next attempt, a while
			// later, finds out.
			r.breakOff(a)
			r.seat.Failed(a.tag, fmt.Errorf("fetching %v at offset %d: %w", p, pos.Offset, kerr.OffsetOutOfRange))
		case !moves:
			// A new attempt would begin at the same position, or an earlier one.
			r.breakOff(a)
			r.seat.Fatal(&offsets.OutOfRangeError{
				Of: "a position that is being read is", WayOut: r.wayOutOfRange(o), Partitions: []offsets.OutOfRange{o},
			})
			return
		default:
			r.move(a, s, pos, o, to)
		}
	}
}

// breakOff has the attempt emit nothing more.
func (r *Reader) breakOff(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.broken = true
}

// replacement is where to read on instead of a position that is not in the log. With checkpoints a position beyond the
// end is never replaced while running: from the log's start everything would come again, whatever was committed.
func (r *Reader) replacement(o offsets.OutOfRange) (to int64, ok bool) {
	switch {
	case r.solo && r.cfg.Start.Reset == offsets.ResetEarliest:
		return o.Start, true
	case r.solo && r.cfg.Start.Reset == offsets.ResetLatest:
		return o.End, true
	case !r.solo && r.cfg.Restore.Policy == offsets.EarliestOutOfRange && o.Offset < o.Start:
		return o.Start, true
	}
	return 0, false
}

// move sets a position to another offset and has the client read on there. The records in between are lost (rule 12).
func (r *Reader) move(a *attempt, s *split, pos checkpoint.Split, o offsets.OutOfRange, to int64) {
	if pos.Stop != checkpoint.NoStop {
		to = min(to, pos.Stop)
	}
	r.mu.Lock()
	if r.att != a || a.halted || s.gone || s.pos != pos {
		r.mu.Unlock()
		return
	}
	s.pos.Offset, s.pos.LeaderEpoch, s.end = to, -1, o.End
	a.unassign([]splits.Partition{o.Partition})
	r.assign(a, []checkpoint.Split{s.pos})
	r.bump()
	r.mu.Unlock()
	skipped := max(0, to-o.Offset)
	count(r.cfg.Metrics.SkippedOffsets, skipped)
	policy := "checkpoint.on_restore_out_of_range"
	if r.solo {
		policy = "startup.offset_reset"
	}
	r.log.ErrorContext(repeats.Always(r.stopped), "records were deleted before they were read, by a retention that is too short for "+
		"this pipeline as a rule; reading on from what is left, as "+policy+" says", "topic", o.Topic, "partition",
		o.Partition.Partition, "position", o.Offset, "log_start", o.Start, "log_end", o.End, "reads_on_at", to, "offsets_lost", skipped)
}

// outOfRange adds the log's range, which the answer to a fetch out of range does not hold.
func (r *Reader) outOfRange(ctx context.Context, at splits.Partition, offset int64) offsets.OutOfRange {
	ctx, cancel := context.WithTimeout(ctx, rangeTimeout)
	defer cancel()
	out := offsets.OutOfRange{Partition: at, Offset: offset, Start: -1, End: -1}
	answers, err := offsets.Fetch(ctx, r.cluster(), offsets.Needs{Earliest: true, Latest: true}, []splits.Partition{at})
	if err == nil {
		out.Start, out.End = answers.Earliest[at].Offset, answers.Latest[at].Offset
	}
	return out
}

// wayOutOfRange says how to go on from a position that the log does not have.
func (r *Reader) wayOutOfRange(o offsets.OutOfRange) string {
	switch {
	case r.solo:
		return "set startup.offset_reset to earliest, to read on from the first record that is left, or to latest, from the end, and " +
			"start again"
	case o.Offset < o.Start:
		return "set checkpoint.on_restore_out_of_range to earliest to read on from the first record that is left, also while the source runs"
	}
	return "start again: checkpoint.on_restore_out_of_range says then whether the source fails (fail) or reads on from the " +
		"first record that is left (earliest)"
}

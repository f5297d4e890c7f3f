package kafkasource

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/killpoint"
	"github.com/tidegate/tidegate/internal/offsets"
	"github.com/tidegate/tidegate/internal/splits"
)

// takeUp has the attempt read partitions that are new, from their first record (rule 3).
//
// Race: everything between this and the next checkpoint that holds the partitions. A barrier under way reports positions
// with them at their beginning or without them, by whether it has drained; either way nothing of them was emitted before
// it. If the process dies, or the stream goes back to a checkpoint without them, or to before one, then nothing that they
// had emitted is committed: they are new once more, to the next start (Resolve) or to the next attempt, whose beginning
// wakes the watch at once.
func (r *Reader) takeUp(ctx context.Context, a *attempt, topics []splits.Topic, parts []splits.Partition) error {
	begin, err := r.beginnings(ctx, topics, parts)
	if err != nil {
		return fmt.Errorf("taking up partitions %s: %w", splits.Format(parts), err)
	}
	if len(begin) == 0 {
		return nil // none of them has an end yet
	}
	parts = partitionsOf(begin)
	killpoint.Hit("discovery", "found")
	if r.adopt != nil {
		if err := r.adopt(ctx, begin); err != nil {
			return fmt.Errorf("taking up partitions %s, whose beginning has to be in the consumer group first: %w",
				splits.Format(parts), err)
		}
		killpoint.Hit("discovery", "committed")
	}
	r.mu.Lock()
	if r.att != a || a.halted || a.broken || r.closing {
		r.mu.Unlock()
		return nil // the next attempt, or the next start, finds them again
	}
	r.add(a, begin)
	for _, p := range parts {
		delete(r.renewed, p)
	}
	r.bump()
	r.mu.Unlock()
	r.reportTakenUp(parts, begin)
	killpoint.Hit("discovery", "taken up")
	return nil
}

// beginnings are where new partitions begin.
func (r *Reader) beginnings(ctx context.Context, topics []splits.Topic, parts []splits.Partition) ([]checkpoint.Split, error) {
	r.mu.Lock()
	renewed := slices.ContainsFunc(parts, func(p splits.Partition) bool { return r.renewed[p] })
	r.mu.Unlock()
	p := newPlan(r.cfg, topics)
	p.running = true
	p.cfg.Start = offsets.Start{Mode: offsets.EarliestStart}
	if !renewed && r.solo && r.cfg.Start.Mode == offsets.GroupStart {
		// What the group has read of a partition is not new to it. Race: a process takes up a partition and commits; the
		// next one starts while a broker does not know the partition yet, and finds it later.
		p.cfg.Start = offsets.Start{Mode: offsets.GroupStart, Group: r.cfg.Group, Reset: offsets.ResetEarliest}
	}
	begin, err := p.fresh(ctx, r.cluster().quiet(), topics, parts)
	if err != nil {
		return nil, err
	}
	r.reportReset(p.reset, begin)
	r.warnEndless(p.endless)
	slices.SortFunc(begin, checkpoint.CompareSplits)
	return begin, nil
}

// reportTakenUp logs and counts partitions that are read from now on; it counts each once.
func (r *Reader) reportTakenUp(parts []splits.Partition, begin []checkpoint.Split) {
	fresh := slices.DeleteFunc(slices.Clone(parts), func(p splits.Partition) bool { return r.discovered[p] })
	for _, p := range fresh {
		r.discovered[p] = true
	}
	count(r.cfg.Metrics.DiscoveredPartitions, int64(len(fresh)))
	what := "new partitions discovered, reading them from their beginning"
	if len(fresh) == 0 {
		what = "discovered partitions are read from their beginning again: no checkpoint that the stream could go back to holds them"
	}
	r.log.Info(what, "positions", describe(checkpoint.SourceState{Splits: begin}))
}

// warnEndless says once of each new partition that it waits for an end, which each look asks for again, or the next start.
func (r *Reader) warnEndless(parts []splits.Partition) {
	if fresh := r.firstIgnored(parts); len(fresh) > 0 {
		when := "they are read once it has"
		if r.cfg.DiscoveryInterval <= 0 {
			when = "they are read by the first start after it has, since discovery_interval is off"
		}
		r.log.Warn("new partitions are not read yet: with bounded.mode: group-offsets they end where the group has committed, and it has "+
			"committed nothing for them; "+when, "partitions", splits.Format(fresh), "group", r.cfg.Stop.Group)
	}
}

// firstIgnored returns those partitions of which nothing was said yet, and notes that something is now.
func (r *Reader) firstIgnored(parts []splits.Partition) []splits.Partition {
	fresh := slices.DeleteFunc(slices.Clone(parts), func(p splits.Partition) bool { return r.ignored[p] })
	for _, p := range fresh {
		r.ignored[p] = true
	}
	return fresh
}

// warnIgnored says once of each partition that it is not read where discovery is off (rule 12).
func (r *Reader) warnIgnored(parts []splits.Partition) {
	fresh := r.firstIgnored(parts)
	if len(fresh) == 0 {
		return
	}
	way := "discovery_interval is off: set it, such as 5m, or start again, which reads them from their first record"
	switch {
	case r.cfg.Stop.Bounded():
		way = "a bounded source reads the partitions that there were when it started; a later start reads them too"
	case r.solo:
		way = "discovery_interval is off: set it, such as 5m, or start again: they begin as startup.mode says then, with " +
			"group-offsets as startup.offset_reset says (earliest skips nothing)"
	}
	r.log.Warn("partitions were added while the source is running, and are not read", "partitions", splits.Format(fresh),
		"way_out", way)
}

// quiet asks without a word in the log.
func (c cluster) quiet() cluster {
	return cluster{client: c.client, log: slog.New(slog.DiscardHandler)}
}

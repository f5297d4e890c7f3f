package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/offsets"
	"github.com/tidegate/tidegate/internal/repeats"
	"github.com/tidegate/tidegate/internal/splits"
)

// A topic that was created a moment ago, or got partitions, may not have reached every broker: it is asked for a few
// times, and so of several brokers, before it, or a partition that one of them has told of, counts as missing.
const (
	missingTries = 4
	missingPause = 500 * time.Millisecond
)

// Verify compares a restored state with the cluster, before anything is committed: a state of another cluster, of
// topics that were created again, or of another share of the partitions ends the start-up.
func (r *Reader) Verify(ctx context.Context, restored checkpoint.SourceState) error {
	if restored.ClusterID != "" && r.clusterID != "" && restored.ClusterID != r.clusterID {
		return fmt.Errorf("verifying the checkpoint of %s: its positions belong to cluster %q, and bootstrap_servers [%s] "+
			"lead to cluster %q; point bootstrap_servers at the old cluster, or %s", r.cfg.Key, restored.ClusterID,
			strings.Join(r.cfg.Connection.BootstrapServers, ", "), r.clusterID, checkpoint.StartAnew)
	}
	if restored.Parallelism != r.cfg.Share.Parallelism || restored.Index != r.cfg.Share.Index {
		return fmt.Errorf("verifying the checkpoint of %s: it was written with parallelism %d and index %d, and the config "+
			"has parallelism %d and index %d, which read other partitions; change them back; or stop every process cleanly with the "+
			"old numbers, so that everything is committed, set startup.mode: group-offsets, and with the new ones %s", r.cfg.Key, restored.Parallelism, restored.Index,
			r.cfg.Share.Parallelism, r.cfg.Share.Index, checkpoint.StartAnew)
	}
	topics, err := r.subscribedTopics(ctx, r.cluster(), restored.Splits)
	if err != nil {
		return fmt.Errorf("verifying the checkpoint of %s: %w", r.cfg.Key, err)
	}
	if err := r.lost(splits.Diff(restored.Splits, r.cfg.Subscription, r.cfg.Share, topics)); err != nil {
		return fmt.Errorf("verifying the checkpoint of %s: %w", r.cfg.Key, err)
	}
	return nil
}

// subscribedTopics describes the topics of the subscription, or fails with *splits.MissingError, with the others.
// It takes known splits for gone only where several answers have it so.
func (r *Reader) subscribedTopics(ctx context.Context, c cluster, known []checkpoint.Split) (topics []splits.Topic, err error) {
	for try := 1; ; try++ {
		if topics, err = c.describe(ctx, r.cfg.Subscription); err != nil {
			return nil, err
		}
		_, err = r.cfg.Subscription.Select(r.cfg.Share, topics)
		gone := err != nil || splits.Diff(known, r.cfg.Subscription, r.cfg.Share, topics).Lost() != nil
		if !gone || try == missingTries {
			return topics, err
		}
		t := time.NewTimer(missingPause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		}
	}
}

// Resolve returns concrete positions: those of restored where there are any, else those of the start-up mode. The
// coordinator writes them durably, with the set of partitions, before the first record is emitted (rule 2).
func (r *Reader) Resolve(ctx context.Context, restored *checkpoint.SourceState) (checkpoint.SourceState, error) {
	// Here the state store is open, so our own marks can be told from those of others.
	if err := r.CheckGroup(ctx); err != nil {
		return checkpoint.SourceState{}, err
	}
	p, err := r.plan(ctx, restored, offsets.Needs{})
	if p != nil {
		r.reportOutOfRange(p.outside, err)
	}
	if err != nil {
		return checkpoint.SourceState{}, err
	}
	state := checkpoint.SourceState{
		Source: r.cfg.Key, ClusterID: r.clusterID, Parallelism: r.cfg.Share.Parallelism, Index: r.cfg.Share.Index, Splits: p.splits,
	}
	r.reportReset(p.reset, state.Splits)
	r.noteGone(p.vanished)
	slices.SortFunc(state.Splits, checkpoint.CompareSplits)
	state.Finished = r.cfg.Stop.Bounded() && r.allAtStop(state.Splits)
	state.Publish = r.publishes(ctx, restored, p)
	if len(p.unsubscribed) > 0 {
		r.log.Warn("the checkpoint has positions of topics that are no longer in topics: they are kept and not read",
			"partitions", splits.Format(p.unsubscribed))
	}
	r.warnEndless(p.endless)
	if len(p.vanished) > 0 {
		r.log.Warn("partitions of the checkpoint are not there any more: their positions are kept, and they are read on when they "+
			"come back", "partitions", splits.Format(partitionsOf(p.vanished)))
	}
	if len(p.recreated) > 0 {
		r.log.Warn("topics of the checkpoint were deleted and created again, and are read from their first record",
			"partitions", splits.Format(p.recreated))
	}
	if len(p.unmatched) > 0 {
		r.log.Warn("partitions have no record since startup.timestamp, and begin at their end", "partitions", splits.Format(p.unmatched))
	}
	r.warnOfNothing(state.Splits)
	if state.Finished && p.keptStops > 0 {
		r.log.Info("an earlier start has read everything up to the ends, and nothing is read now: ends are resolved once, at the "+
			"first start, and kept with the checkpoint, whatever bounded says later. To read on to new ends, start once with "+
			"bounded.mode: unbounded, or for a job that is run again and again set startup.mode: group-offsets and checkpoint.on_stop: delete",
			"ends", describe(state), "records_behind_them", p.behindStops())
	}
	r.describe(len(p.origins), p.summary(), p.keptStops > 0)
	return state, nil
}

// warnOfNothing tells of what is legal, as in Flink, and as a rule a slip of the pen: that nothing is there to be read.
func (r *Reader) warnOfNothing(all []checkpoint.Split) {
	var behind []splits.Partition
	for _, s := range all {
		if s.Stop != checkpoint.NoStop && s.Offset > s.Stop {
			behind = append(behind, at(s))
		}
	}
	switch {
	case len(behind) > 0:
		r.log.Warn("partitions begin behind where they end, and nothing is read of them: bounded ends before startup begins, or before "+
			"the checkpoint", "partitions", splits.Format(behind))
	case len(all) == 0 && r.cfg.Share.Parallelism > 1:
		r.log.Warn("no partition is left for this process: parallelism is more than there are partitions, or another process's index "+
			"has them", "parallelism", r.cfg.Share.Parallelism, "index", r.cfg.Share.Index)
	case len(all) == 0 && r.cfg.Subscription.Pattern != nil:
		r.log.Warn("topic_pattern matches the whole name of no topic that there is, or that the principal may describe",
			"topic_pattern", r.cfg.Subscription.Pattern.String())
	}
}

// plan decides where partitions begin and stop, and changes nothing. also says what is to be asked of the cluster beyond
// what the decision needs. Where it fails after the decision was begun, it returns what came of it beside the error.
func (r *Reader) plan(ctx context.Context, restored *checkpoint.SourceState, also offsets.Needs) (*plan, error) {
	topics, err := r.subscribedTopics(ctx, r.cluster(), nil)
	if err != nil {
		return nil, fmt.Errorf("resolving the positions of %s: %w", r.cfg.Key, err)
	}
	parts, err := r.cfg.Subscription.Select(r.cfg.Share, topics)
	if err != nil {
		return nil, fmt.Errorf("resolving the positions of %s: %w", r.cfg.Key, err)
	}
	p := newPlan(r.cfg, topics)
	p.also = also
	if restored == nil {
		p.splits, err = p.fresh(ctx, r.cluster(), topics, parts)
	} else {
		p.splits, err = p.restored(ctx, r.cluster(), parts, restored.Splits)
	}
	if err != nil {
		return p, fmt.Errorf("resolving the positions of %s: %w", r.cfg.Key, err)
	}
	return p, nil
}

// reportOutOfRange counts and logs restored positions that the log no longer has (rule 12). Where the policy is to fail,
// err ends the start-up and says it all.
func (r *Reader) reportOutOfRange(outside []offsets.OutOfRange, err error) {
	count(r.cfg.Metrics.RestoredOutOfRange, int64(len(outside)))
	if err != nil {
		return
	}
	for _, o := range outside {
		count(r.cfg.Metrics.SkippedOffsets, o.Skipped())
		r.log.ErrorContext(repeats.Always(r.stopped), "restored position is not in the log any more; reading on from the log's start, as "+
			"checkpoint.on_restore_out_of_range says", "topic", o.Topic, "partition", o.Partition.Partition,
			"restored", o.Offset, "log_start", o.Start, "log_end", o.End, "offsets_lost", o.Skipped())
	}
}

// reportReset counts and logs offsets of a group or of the config that the log does not have, and that offset_reset has
// replaced (rule 12).
func (r *Reader) reportReset(reset []offsets.OutOfRange, begin []checkpoint.Split) {
	count(r.cfg.Metrics.RestoredOutOfRange, int64(len(reset)))
	for _, o := range reset {
		i := slices.IndexFunc(begin, func(s checkpoint.Split) bool { return s.Topic == o.Topic && s.Partition == o.Partition.Partition })
		skipped := max(0, begin[i].Offset-o.Offset)
		count(r.cfg.Metrics.SkippedOffsets, skipped)
		r.log.ErrorContext(repeats.Always(r.stopped), "offset is not in the log; reading from where startup.offset_reset says", "topic", o.Topic,
			"partition", o.Partition.Partition, "offset", o.Offset, "log_start", o.Start, "log_end", o.End,
			"begins_at", begin[i].Offset, "offsets_lost", skipped)
	}
}

func partitionsOf(all []checkpoint.Split) []splits.Partition {
	out := make([]splits.Partition, len(all))
	for i, s := range all {
		out[i] = at(s)
	}
	return out
}

// allAtStop tells whether every split that is read has reached its stop.
func (r *Reader) allAtStop(all []checkpoint.Split) bool {
	for _, s := range all {
		if r.cfg.Subscription.Covers(at(s)) && !r.isGone(s) && !s.AtStop() {
			return false
		}
	}
	return true
}

// plan is one resolution under way, and what there is to say of it.
type plan struct {
	cfg  Config
	ids  map[string][16]byte
	also offsets.Needs
	// splits are the result, origins the rules that gave it, and answers what the cluster has said.
	splits       []checkpoint.Split
	origins      map[splits.Partition]offsets.Origin
	answers      offsets.Answers
	outside      []offsets.OutOfRange
	unsubscribed []splits.Partition
	// reset are offsets that the log does not have and startup.offset_reset has replaced, unmatched partitions without a
	// record since startup.timestamp.
	reset     []offsets.OutOfRange
	unmatched []splits.Partition
	// keptStops counts partitions whose stop is that of the checkpoint.
	keptStops int
	// vanished are positions of partitions that a pattern covers and that are not there any more, recreated partitions whose
	// topic is another one than that of the checkpoint.
	vanished  []checkpoint.Split
	recreated []splits.Partition
	// running is set where the source reads already, and parts are what it has discovered. endless are new partitions that
	// have no end to read to yet, and are not read until they have.
	running bool
	endless []splits.Partition
}

func newPlan(cfg Config, topics []splits.Topic) *plan {
	p := &plan{cfg: cfg, ids: make(map[string][16]byte), origins: make(map[splits.Partition]offsets.Origin)}
	for _, t := range topics {
		p.ids[t.Name] = t.ID
	}
	return p
}

// resolvedForGood tells whether there are positions that another resolution might not give again.
func (p *plan) resolvedForGood() bool {
	for _, origin := range p.origins {
		switch origin {
		case offsets.FromLatest, offsets.FromTimestamp, offsets.FromTimestampEnd, offsets.FromSpecific, offsets.FromResetLatest:
			return true
		}
	}
	return false
}

func (p *plan) split(at splits.Partition, from offsets.Resolved, stop int64) checkpoint.Split {
	p.origins[at] = from.Origin
	return checkpoint.Split{
		Topic: at.Topic, TopicID: p.ids[at.Topic], Partition: at.Partition,
		Offset: from.Offset, LeaderEpoch: from.LeaderEpoch, Stop: stop,
	}
}

// fresh resolves the start-up mode for parts, which are all of topics or a share.
func (p *plan) fresh(ctx context.Context, lookup offsets.Lookup, topics []splits.Topic, parts []splits.Partition,
) ([]checkpoint.Split, error) {
	if err := errors.Join(p.cfg.Start.Fits(topics), p.cfg.Stop.Fits(topics)); err != nil {
		return nil, err
	}
	answers, err := offsets.Fetch(ctx, lookup, p.cfg.Start.Needs().And(p.cfg.Stop.Needs()).And(p.also), parts)
	if err != nil {
		return nil, err
	}
	p.answers = answers
	starts, err := p.cfg.Start.Decide(parts, answers)
	if err != nil {
		return nil, err
	}
	p.reset = starts.Replaced
	out := make([]checkpoint.Split, 0, len(parts))
	for _, at := range parts {
		stop, ok, err := p.stop(at, p.running)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if starts.At[at].Origin == offsets.FromTimestampEnd {
			p.unmatched = append(p.unmatched, at)
		}
		out = append(out, p.split(at, starts.At[at], stop))
	}
	return out, nil
}

// stop is where a partition ends. The second result is false where there is no such place yet: Flink's reader dies of it,
// where the group has committed nothing for a partition that somebody has added. A source that keeps running can wait.
func (p *plan) stop(at splits.Partition, isNew bool) (int64, bool, error) {
	stop, err := p.cfg.Stop.Decide(at, p.answers)
	var none *offsets.NoCommittedStopError
	if isNew && p.cfg.Stop.KeepRunning && errors.As(err, &none) {
		p.endless = append(p.endless, at)
		return 0, false, nil
	}
	return stop, true, err
}

// restored resolves the positions of a checkpoint. Partitions it does not hold begin at their earliest offset (rule 3),
// since it holds every partition there was when the start-up mode was resolved. Stops stay those of the checkpoint, but
// for a source that has been made bounded, or unbounded, since.
func (p *plan) restored(ctx context.Context, lookup offsets.Lookup, parts []splits.Partition, old []checkpoint.Split,
) ([]checkpoint.Split, error) {
	answers, err := offsets.Fetch(ctx, lookup, p.cfg.Restore.Needs().And(p.cfg.Stop.Needs()).And(p.also), parts)
	if err != nil {
		return nil, err
	}
	p.answers = answers
	positions := make(map[splits.Partition]offsets.Position)
	known := make(map[splits.Partition]checkpoint.Split)
	var out []checkpoint.Split
	for _, s := range old {
		at := at(s)
		switch {
		case !slices.Contains(parts, at):
			if p.cfg.Subscription.Covers(at) {
				p.vanished = append(p.vanished, s)
			} else {
				p.unsubscribed = append(p.unsubscribed, at)
			}
			out = append(out, s)
			continue
		case splits.IsRecreated(s.TopicID, p.ids[at.Topic]):
			p.recreated = append(p.recreated, at) // a new partition: the old position means nothing in it
			continue
		}
		known[at] = s
		if p.cfg.Stop.Stops() && s.AtStop() {
			continue // nothing is read of it any more, so the log need not have it
		}
		positions[at] = offsets.Position{Offset: s.Offset, LeaderEpoch: s.LeaderEpoch}
	}
	ends, err := lookup.EpochEnds(ctx, positions)
	if err != nil {
		return nil, err
	}
	resolved, outside, err := p.cfg.Restore.Decide(positions, answers, ends)
	p.outside = outside
	if err != nil {
		return nil, err
	}
	for _, at := range parts {
		s, isKnown := known[at]
		stop := s.Stop
		if isKnown && p.cfg.Stop.Stops() && stop != checkpoint.NoStop {
			p.keptStops++ // rule 2: resolved once
		} else {
			var ok bool
			if stop, ok, err = p.stop(at, !isKnown); err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
		}
		if !isKnown {
			out = append(out, p.split(at, offsets.Resolved{Position: answers.Earliest[at], Origin: offsets.FromNewPartition}, stop))
			continue
		}
		from, checked := resolved[at]
		if !checked {
			from = offsets.Resolved{
				Position: offsets.Position{Offset: s.Offset, LeaderEpoch: s.LeaderEpoch}, Origin: offsets.FromCheckpoint}
		}
		out = append(out, p.split(at, from, stop))
	}
	return out, nil
}

// behindStops counts the offsets between the stops and the ends of the log.
func (p *plan) behindStops() (n int64) {
	for _, s := range p.splits {
		if end, ok := p.answers.Latest[at(s)]; ok && s.Stop != checkpoint.NoStop {
			n += max(0, end.Offset-s.Stop)
		}
	}
	return n
}

// summary counts partitions by the rule that gave their position: "checkpoint 3, new partition, earliest 1".
func (p *plan) summary() string {
	counts := make(map[offsets.Origin]int)
	for _, o := range p.origins {
		counts[o]++
	}
	parts := make([]string, 0, len(counts))
	for _, o := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s: %d", o, counts[o]))
	}
	return strings.Join(parts, "; ")
}

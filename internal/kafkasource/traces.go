package kafkasource

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/internal/splits"
)

// overtakenTimeout bounds the look for a newer checkpoint: a group coordinator that is away does not stop a start for it.
const overtakenTimeout = 20 * time.Second

// Traces looks for offsets in the consumer group that another state store of Tidegate's, or another stream of the same
// store, has committed for a topic that this source reads; other partitions are other processes'.
func (r *Reader) Traces(ctx context.Context) (string, error) {
	if r.cfg.Group == "" {
		return "", nil
	}
	marks, err := r.marks(ctx)
	if kafkaclient.Classify(err) == kafkaclient.ClassAuthorisation {
		// Who may not read the group may still run: without it nothing but monitoring is missing.
		r.log.Warn("the consumer group cannot be read, so a lost state store would not be noticed", "cause", err)
		return "", nil
	}
	for _, p := range slices.SortedFunc(maps.Keys(marks), splits.Compare) {
		m := marks[p]
		switch {
		case m.store == noStore || r.isOurs(m): // without checkpoints there is no state that could be missing
		case m.store == r.storeID():
			return fmt.Sprintf("group %q has offset %d of %v, which a checkpoint of the stream %q in this same store has committed (%s); a "+
				"stream's state goes by the stream's id, so that one which was renamed needs its old id back", r.cfg.Group, m.offset, p,
				m.stream, m.text), nil
		default:
			return fmt.Sprintf("group %q has offset %d of %v, which a checkpoint in another store has committed (%s)",
				r.cfg.Group, m.offset, p, m.text), nil
		}
	}
	return "", err
}

// isOurs tells whether this stream has left a mark, now or in an earlier process on this store.
func (r *Reader) isOurs(m ownersMark) bool {
	return m.store == r.storeID() && m.store != noStore && m.stream == orDash(r.cfg.StreamID)
}

// Overtaken looks for offsets in the consumer group that this very store has committed and that are beyond every position
// of its newest record: a group is never ahead of the record (rule 1), so there was a newer one. It only warns of offsets
// that somebody else has committed.
//
// What it passes over: a record without a checkpoint, whose positions may have begun anew, and offsets beyond the end of
// the log, which are of a log that was cut.
func (r *Reader) Overtaken(ctx context.Context, newest *checkpoint.Record) (string, error) {
	restored := newest.Source(r.cfg.Key)
	if r.cfg.Group == "" || !r.cfg.CommitOffsets || restored == nil || restored.ClusterID != r.clusterID { // Verify has more to say then
		return "", nil
	}
	bounded, cancel := context.WithTimeout(ctx, overtakenTimeout)
	defer cancel()
	ahead, err := r.ahead(bounded, restored, newest.Positions)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		r.log.Warn("the consumer group cannot be read, so an old copy of the state would not be noticed", "cause", err)
		return "", nil
	}
	var ours, others []string
	for _, m := range ahead {
		if r.isOurs(m.ownersMark) && newest.LastCheckpoint > 0 {
			ours = append(ours, m.beyond())
		} else {
			others = append(others, m.beyond())
		}
	}
	if len(others) > 0 {
		r.log.Warn("the consumer group is ahead of the checkpoint, as after a run without checkpoints or with another state: a "+
			"start goes on from the checkpoint, and what that run has read comes again", "group", r.cfg.Group, "ahead", strings.Join(others, ", "))
	}
	if len(ours) == 0 {
		return "", nil
	}
	return fmt.Sprintf("group %q has offsets that a newer checkpoint of this store has committed (%s)", r.cfg.Group, strings.Join(ours, ", ")), nil
}

// aheadMark is a mark whose offset is beyond position.
type aheadMark struct {
	ownersMark
	position int64
}

func (m aheadMark) beyond() string {
	return fmt.Sprintf("%v at %d, where the checkpoint has %d, committed at %s", m.partition, m.offset, m.position,
		m.at.UTC().Format(time.RFC3339))
}

// maxAhead bounds the partitions that a message lists.
const maxAhead = 10

// ahead are marks in the group beyond all positions that there are of their partitions: sources of one stream may have one
// group, and each commits to it.
func (r *Reader) ahead(ctx context.Context, restored *checkpoint.SourceState, all []checkpoint.SourceState) ([]aheadMark, error) {
	marks, err := r.marks(ctx)
	if err != nil || len(marks) == 0 {
		return nil, err
	}
	highest := make(map[splits.Partition]int64)
	for _, s := range all {
		for _, split := range s.Splits {
			if s.ClusterID == restored.ClusterID {
				highest[at(split)] = max(highest[at(split)], split.Offset)
			}
		}
	}
	topics, err := r.cluster().describe(ctx, r.cfg.Subscription)
	if err != nil {
		return nil, err
	}
	there := newPlan(r.cfg, topics)
	var out []aheadMark
	var parts []splits.Partition
	for _, split := range restored.Splits {
		p, id := at(split), there.ids[split.Topic]
		m, ok := marks[p]
		if ok && m.offset > highest[p] && id == split.TopicID && len(out) < maxAhead {
			out, parts = append(out, aheadMark{m, highest[p]}), append(parts, p)
		}
	}
	if len(parts) == 0 {
		return nil, nil
	}
	ends, err := r.cluster().Latest(ctx, parts)
	return slices.DeleteFunc(out, func(m aheadMark) bool { return m.offset > ends[m.partition].Offset }), err
}

// publishes tells whether the group has to show the positions before anything is read: where another resolution might not
// give them again, and where they go back behind what this stream has committed, which the next start would take for the
// sign of an old copy of the state (Overtaken).
func (r *Reader) publishes(ctx context.Context, restored *checkpoint.SourceState, p *plan) bool {
	if restored != nil {
		return len(p.outside) > 0 || len(p.recreated) > 0
	}
	if p.resolvedForGood() || r.cfg.Group == "" || !r.cfg.CommitOffsets {
		return p.resolvedForGood()
	}
	ctx, cancel := context.WithTimeout(ctx, overtakenTimeout)
	defer cancel()
	marks, err := r.marks(ctx)
	return err == nil && slices.ContainsFunc(p.splits, func(s checkpoint.Split) bool {
		m, ok := marks[at(s)]
		return ok && r.isOurs(m) && m.offset > s.Offset
	})
}

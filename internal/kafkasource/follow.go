package kafkasource

import (
	"slices"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/splits"
)

// A source that names its topics ends where one of them is gone. One that follows a pattern reads what there is: a topic
// that is not there any more is no fault. Its positions stay in the state for now (forget.go says how long), since one that
// only may not be described for a while comes back under the same id; under another id it is a new topic.

// lost says why known positions can no longer be followed.
func (r *Reader) lost(changes splits.Changes) error {
	if r.cfg.Subscription.Pattern != nil && !r.cfg.Stop.Bounded() {
		return nil
	}
	return changes.Lost()
}

// isGone tells whether a split's partition is known to be gone. r.mu is held.
func (r *Reader) isGone(s checkpoint.Split) bool {
	g, gone := r.gone[at(s)]
	return gone && g.id == s.TopicID
}

// noteGone keeps later attempts from reading partitions that are not there.
func (r *Reader) noteGone(all []checkpoint.Split) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range all {
		r.setGone(s)
	}
}

// setGone notes that a split's partition is gone. r.mu is held.
func (r *Reader) setGone(s checkpoint.Split) {
	r.gone[at(s)] = absence{id: s.TopicID}
}

// follow does what a pattern asks for: it stops reading partitions that are gone, reads those on that are back, and takes
// those of topics that were created again for new. What is left of the changes is for the caller.
func (r *Reader) follow(a *attempt, topics []splits.Topic, changes splits.Changes) splits.Changes {
	if r.cfg.Subscription.Pattern == nil || r.cfg.Stop.Bounded() {
		return changes // Where there is an end, a partition that is not there has not reached it.
	}
	r.mu.Lock()
	if r.att != a || a.halted || r.closing {
		r.mu.Unlock()
		return splits.Changes{}
	}
	r.retire(a, changes.Vanished)
	var renewed []string
	for _, again := range changes.Recreated {
		changes.New = append(changes.New, r.renew(a, again, topics)...)
		renewed = append(renewed, again.Topic)
	}
	r.readOn(a, topics)
	client := a.client
	r.mu.Unlock()
	if client != nil {
		// Else it would go on to ask for the old id. It waits for the client's look at the cluster, so nobody may wait for us.
		client.PurgeTopicsFromConsuming(renewed...)
	}
	slices.SortFunc(changes.New, splits.Compare)
	return splits.Changes{New: changes.New}
}

// retire stops reading partitions. What was fetched of them is still emitted.
func (r *Reader) retire(a *attempt, parts []splits.Partition) {
	var fresh []splits.Partition
	for _, p := range parts {
		s := a.byPart[p.Topic][p.Partition]
		if s == nil || s.gone {
			continue
		}
		fresh = append(fresh, p)
		s.gone = true
		r.setGone(s.pos)
	}
	if len(fresh) == 0 {
		return
	}
	a.unassign(fresh)
	r.log.Warn("partitions are not there any more and no longer read: their topic was deleted, or the principal may no longer "+
		"describe it; their positions are kept, and they are read on when they come back", "partitions", splits.Format(fresh))
	r.bump() // it may have been the last one that had not reached its stop
}

// renew drops the positions of a topic that was created again, and returns its partitions, which are new.
func (r *Reader) renew(a *attempt, again splits.Recreation, topics []splits.Topic) (parts []splits.Partition) {
	var unread int64
	a.splits = slices.DeleteFunc(a.splits, func(s *split) bool {
		if s.pos.Topic != again.Topic {
			return false
		}
		unread += max(0, s.end-s.pos.Offset)
		delete(a.byPart[again.Topic], s.pos.Partition)
		// An attempt that goes back to a checkpoint of the old topic is not to ask the new one for its positions.
		r.setGone(s.pos)
		return true
	})
	for _, t := range topics {
		for _, n := range t.Partitions {
			if p := (splits.Partition{Topic: t.Name, Partition: n}); t.Name == again.Topic && r.cfg.Share.Owns(p) {
				parts = append(parts, p)
				r.renewed[p] = true
			}
		}
	}
	count(r.cfg.Metrics.SkippedOffsets, unread)
	r.log.Error("a topic was deleted and created again: what was unread of the old one is gone, the new one is read from its "+
		"first record", "topic", again.Topic, "offsets_lost_as_far_as_known", unread)
	return parts
}

// readOn reads partitions that are back, under the id they had, from their positions.
func (r *Reader) readOn(a *attempt, topics []splits.Topic) {
	var back []checkpoint.Split
	for _, t := range topics {
		for n, s := range a.byPart[t.Name] {
			if s.gone && s.pos.TopicID == t.ID && slices.Contains(t.Partitions, n) {
				s.gone = false
				delete(r.gone, at(s.pos))
				back = append(back, s.pos)
			}
		}
	}
	if len(back) == 0 {
		return
	}
	r.assign(a, back)
	r.log.Info("partitions are back and read on from their positions", "positions", describe(checkpoint.SourceState{Splits: sortedSplits(back)}))
	r.bump()
}

// unassign has the client fetch partitions no more.
func (a *attempt) unassign(parts []splits.Partition) {
	if a.client == nil || len(parts) == 0 {
		return
	}
	topics := make(map[string][]int32)
	for _, p := range parts {
		topics[p.Topic] = append(topics[p.Topic], p.Partition)
	}
	a.client.RemoveConsumePartitions(topics)
}

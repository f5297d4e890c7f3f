package kafkasource

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/repeats"
	"github.com/tidegate/tidegate/internal/splits"
)

// A deleted topic is not to stay in the state for ever, and a topic that lives is never to lose its position there: it would
// be read again from its first record. A topic that is missing from what a broker lists proves nothing: the principal may
// have lost the right to describe it, and a broker that has just started may not know it yet. But a topic's id is given
// once, and asked for an id brokers tell one that does not exist (UNKNOWN_TOPIC_ID) from one that may not be described. So
// a position is dropped when every broker of the cluster has said so of its topic's id at each look for ForgetAfter. A
// topic that is created again has another id, and is new whether the old position is still there or not.

// defaultForgetAfter is at least two discoveries too.
const defaultForgetAfter = 10 * time.Minute

// byTopicID is the version of the metadata request from which brokers can be asked by id (KIP-516).
const byTopicID = 12

// absence is what is known of a partition that is not there.
type absence struct {
	id [16]byte
	// dropped is when its position was dropped, zero before that.
	dropped time.Time
}

// forget drops the positions of topics that are certainly deleted. It belongs to the watch.
func (r *Reader) forget(a *attempt) {
	ids := r.unreadTopics(a)
	maps.DeleteFunc(r.unknownSince, func(id [16]byte, _ time.Time) bool { return !slices.Contains(ids, id) })
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(r.stopped, lookLimit)
	defer cancel()
	unknown, err := r.cluster().unknownIDs(ctx, ids)
	if err != nil {
		unknown = nil // nothing is certain where one broker does not answer
	}
	var drop [][16]byte
	for _, id := range ids {
		since, known := r.unknownSince[id]
		switch {
		case !slices.Contains(unknown, id):
			delete(r.unknownSince, id)
		case !known:
			r.unknownSince[id] = time.Now()
		case time.Since(since) >= r.cfg.ForgetAfter:
			drop = append(drop, id)
		}
	}
	if len(drop) > 0 {
		r.drop(a, drop)
	}
}

// unreadTopics are the ids of topics of which positions are kept and nothing is read.
func (r *Reader) unreadTopics(a *attempt) (ids [][16]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.gone, func(_ splits.Partition, g absence) bool {
		return !g.dropped.IsZero() && time.Since(g.dropped) >= r.cfg.ForgetAfter
	})
	note := func(id [16]byte) {
		if id != [16]byte{} && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, s := range a.splits {
		if s.gone {
			note(s.pos.TopicID)
		}
	}
	for _, pos := range a.unread {
		note(pos.TopicID)
	}
	return ids
}

// drop takes the positions of topics out of the state: the next record is without them. What was emitted of them is
// acknowledged by then, or they stay until it is.
//
// Race: the stream goes back to an older checkpoint, which holds them. Its attempt does not read them, and they are dropped
// again after a while.
func (r *Reader) drop(a *attempt, ids [][16]byte) {
	var dropped []checkpoint.Split
	var names []string
	var lost int64
	r.mu.Lock()
	if r.att != a || a.halted || r.closing {
		r.mu.Unlock()
		return
	}
	a.splits = slices.DeleteFunc(a.splits, func(s *split) bool {
		busy := len(s.unacked) > 0 || slices.ContainsFunc(a.pending, func(c chunk) bool { return c.split == s })
		if !s.gone || busy || !slices.Contains(ids, s.pos.TopicID) {
			return false
		}
		delete(a.byPart[s.pos.Topic], s.pos.Partition)
		if len(a.byPart[s.pos.Topic]) == 0 {
			delete(a.byPart, s.pos.Topic)
			names = append(names, s.pos.Topic)
		}
		// For a while longer, an attempt that goes back to an older checkpoint is not to read it.
		r.gone[at(s.pos)] = absence{s.pos.TopicID, time.Now()}
		lost += max(0, s.end-s.pos.Offset)
		dropped = append(dropped, s.pos)
		return true
	})
	a.unread = slices.DeleteFunc(a.unread, func(pos checkpoint.Split) bool {
		if !slices.Contains(ids, pos.TopicID) {
			return false
		}
		dropped = append(dropped, pos)
		return true
	})
	client := a.client
	r.bump()
	r.mu.Unlock()
	if client != nil {
		client.PurgeTopicsFromConsuming(names...) // as for a topic that was created again, see follow
	}
	for _, p := range partitionsOf(dropped) {
		delete(r.discovered, p)
		delete(r.ignored, p)
		r.meter.drop(p)
	}
	r.reportDropped(dropped, lost)
}

// reportDropped says what went, and counts what was not read of it (rule 12).
func (r *Reader) reportDropped(dropped []checkpoint.Split, lost int64) {
	if len(dropped) == 0 {
		return
	}
	args := []any{"partitions", splits.Format(partitionsOf(dropped)), "for", r.cfg.ForgetAfter}
	const text = "positions of deleted topics are dropped: no broker has known the ids of the topics for a while"
	if lost == 0 {
		r.log.Info(text, args...)
		return
	}
	count(r.cfg.Metrics.SkippedOffsets, lost)
	r.log.ErrorContext(repeats.Always(r.stopped), text+"; they were deleted before they were read to their end",
		append(args, "offsets_lost_as_far_as_known", lost)...)
}

// unknownIDs returns those of the ids that no broker of the cluster knows. It fails where a broker does not answer, or is
// too old to be asked.
func (c cluster) unknownIDs(ctx context.Context, ids [][16]byte) ([][16]byte, error) {
	// Most that are asked for are there as a rule: topics that are no longer subscribed. Any broker can say that.
	ids, brokers, err := c.unknownTo(ctx, c.client.Request, ids)
	for _, b := range brokers {
		if err != nil || len(ids) == 0 {
			break
		}
		ids, _, err = c.unknownTo(ctx, c.client.Broker(int(b.NodeID)).Request, ids)
	}
	return ids, err
}

// unknownTo returns those of the ids that one broker does not know, and the brokers that it knows.
func (c cluster) unknownTo(ctx context.Context, ask func(context.Context, kmsg.Request) (kmsg.Response, error), ids [][16]byte,
) (unknown [][16]byte, brokers []kmsg.MetadataResponseBroker, err error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, id := range ids {
		rt := kmsg.NewMetadataRequestTopic()
		rt.TopicID = id
		req.Topics = append(req.Topics, rt)
	}
	kresp, err := ask(ctx, req)
	if err != nil {
		return nil, nil, fmt.Errorf("asking for topics by their ids: %w", err)
	}
	resp := kresp.(*kmsg.MetadataResponse)
	if resp.Version < byTopicID {
		return nil, nil, fmt.Errorf("asking for topics by their ids: %w", kerr.UnsupportedVersion)
	}
	if c.id != "" && resp.ClusterID != nil && *resp.ClusterID != c.id {
		// The addresses have come to be those of another cluster: there no id of this one is known.
		return nil, nil, fmt.Errorf("asking for topics by their ids: cluster %s has answered instead of %s", *resp.ClusterID, c.id)
	}
	for _, t := range resp.Topics {
		if t.ErrorCode == kerr.UnknownTopicID.Code && slices.Contains(ids, t.TopicID) {
			unknown = append(unknown, t.TopicID)
		}
	}
	return unknown, resp.Brokers, nil
}

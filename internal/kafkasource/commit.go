package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkaclient"
)

// ownerMark begins the metadata of every offset that Tidegate commits; what follows tells which job it was.
const ownerMark = "tidegate/1"

// errSuperseded ends a commit that is still being tried when a newer one has come: positions never move backwards.
var errSuperseded = errors.New("a newer commit has come")

// committer lets one commit go at a time, in order.
type committer struct {
	turn   chan struct{}
	newest atomic.Int64
}

// CommitOffsets commits positions to the consumer group as a client that is no member. The coordinator calls it only
// after everything of the checkpoint is committed (rule 1). Nothing depends on it but what people see, so a failure is
// counted and logged here; it is returned as well, since a stop that would delete the checkpoints has to know.
func (r *Reader) CommitOffsets(ctx context.Context, positions checkpoint.SourceState) error {
	if r.cfg.Group == "" || !r.cfg.CommitOffsets {
		return nil
	}
	n := r.commits.newest.Add(1)
	select {
	case r.commits.turn <- struct{}{}:
		defer func() { <-r.commits.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.stopped, cancel)()
	req := r.commitRequest(positions)
	if len(req.Topics) == 0 {
		return nil
	}
	err := retry(ctx, r.log, fmt.Sprintf("committing offsets to group %q", r.cfg.Group), func(ctx context.Context) error {
		if r.commits.newest.Load() != n {
			return errSuperseded
		}
		resp, err := req.RequestWith(ctx, r.admin)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return fmt.Errorf("partition %d of topic %q: %w", p.Partition, topicName(t, positions), err)
				}
			}
		}
		return nil
	})
	switch {
	case err == nil:
		count(r.cfg.Metrics.CommitsSucceeded, 1)
	case errors.Is(err, errSuperseded), kafkaclient.Classify(err) == kafkaclient.ClassEnded:
	default:
		count(r.cfg.Metrics.CommitsFailed, 1)
		r.log.Warn("offsets were not committed to the consumer group; what is delivered does not depend on it, but the "+
			"group's lag is out of date until the next checkpoint", "group", r.cfg.Group, "err", err)
	}
	return err
}

// commitRequest has no member and no generation: the broker takes it while the group has no members.
func (r *Reader) commitRequest(positions checkpoint.SourceState) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = r.cfg.Group
	mark := r.mark()
	topic := -1
	for _, s := range positions.Splits { // sorted by topic
		if !r.cfg.Subscription.Contains(s.Topic) {
			continue
		}
		if topic < 0 || req.Topics[topic].Topic != s.Topic {
			rt := kmsg.NewOffsetCommitRequestTopic()
			rt.Topic, rt.TopicID = s.Topic, s.TopicID
			req.Topics = append(req.Topics, rt)
			topic = len(req.Topics) - 1
		}
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = s.Partition, s.Offset, s.LeaderEpoch, &mark
		req.Topics[topic].Partitions = append(req.Topics[topic].Partitions, rp)
	}
	return req
}

// topicName finds the name of a topic that newer brokers answer with its id alone.
func topicName(t kmsg.OffsetCommitResponseTopic, positions checkpoint.SourceState) string {
	for _, s := range positions.Splits {
		if t.Topic == "" && s.TopicID == t.TopicID {
			return s.Topic
		}
	}
	return t.Topic
}

// mark is the metadata of a commit: `tidegate/1 <store uuid> <stream id> <unix ms>`, with a dash for what is empty.
func (r *Reader) mark() string {
	store := ""
	if r.cfg.StoreID != nil {
		store = r.cfg.StoreID()
	}
	dash := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	return fmt.Sprintf("%s %s %s %d", ownerMark, dash(store), dash(r.cfg.StreamID), time.Now().UnixMilli())
}

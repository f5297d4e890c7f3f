package kafkasource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkaclient"
)

// ownerMark begins the metadata of every offset that Tidegate commits; what follows tells which job it was.
const (
	ownerMark = "tidegate/1"
	// noStore stands in the mark for the store of a run without checkpoints, and for a stream without an id.
	noStore = "-"
)

// unknownTries is how often a commit is tried that the broker refuses since it does not know a topic: one that is new to
// it, for a moment, or one that is gone, for ever. Newer positions wait behind the commit.
const unknownTries = 6

// CommitOffsets commits positions to the consumer group as a client that is no member. The coordinator calls it only
// after everything of the checkpoint is committed (rule 1), one call after another, and logs its error; nothing depends
// on it but what people see. A Solo calls it with positions before which everything is acknowledged.
func (r *Reader) CommitOffsets(ctx context.Context, positions checkpoint.SourceState) error {
	if r.cfg.Group == "" || !r.cfg.CommitOffsets {
		r.noteCommitted(positions) // in the state store
		return nil
	}
	req := r.commitRequest(positions)
	if len(req.Topics) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.stopped, cancel)()
	unknown := 0
	err := retry(ctx, r.admin, r.log, fmt.Sprintf("committing offsets to group %q", r.cfg.Group), func(ctx context.Context) error {
		resp, err := req.RequestWith(ctx, r.admin)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				err := kerr.ErrorForCode(p.ErrorCode)
				if errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.UnknownTopicOrPartition) {
					if unknown++; unknown >= unknownTries {
						err = &goneError{err}
					}
				}
				if err != nil {
					return fmt.Errorf("partition %d of topic %q: %w", p.Partition, topicName(t, positions), err)
				}
			}
		}
		return nil
	})
	switch kafkaclient.Classify(err) {
	case kafkaclient.ClassNone:
		count(r.cfg.Metrics.CommitsSucceeded, 1)
		r.noteCommitted(positions)
	case kafkaclient.ClassEnded:
	default:
		count(r.cfg.Metrics.CommitsFailed, 1)
	}
	return err
}

// goneError says that the broker goes on not knowing a topic. It does not wrap what the broker has said, which is tried
// again elsewhere.
type goneError struct{ said error }

func (e *goneError) Error() string {
	return fmt.Sprintf("the broker does not know the topic any more, as after it was deleted (%v)", e.said)
}

// noteCommitted is for the metrics.
func (r *Reader) noteCommitted(positions checkpoint.SourceState) {
	r.meter.committed(slices.DeleteFunc(slices.Clone(positions.Splits), func(s checkpoint.Split) bool {
		return !r.cfg.Subscription.Covers(at(s))
	}))
}

// commitRequest has no member and no generation: the broker takes it while the group has no members.
func (r *Reader) commitRequest(positions checkpoint.SourceState) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = r.cfg.Group
	mark := r.mark()
	topic := -1
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range positions.Splits { // sorted by topic
		if !r.cfg.Subscription.Covers(at(s)) || r.isGone(s) {
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
	return fmt.Sprintf("%s %s %s %d", ownerMark, r.storeID(), orDash(r.cfg.StreamID), time.Now().UnixMilli())
}

// storeID is the state store's uuid, or a dash.
func (r *Reader) storeID() string {
	if r.cfg.StoreID == nil {
		return noStore
	}
	return orDash(r.cfg.StoreID())
}

func orDash(s string) string { return cmp.Or(s, noStore) }

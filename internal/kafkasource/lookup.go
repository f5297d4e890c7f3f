package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/internal/offsets"
	"github.com/tidegate/tidegate/internal/splits"
)

// ListOffsets asks for an offset by timestamp; these two stand for the ends of the log.
const (
	listEarliest int64 = -2
	listLatest   int64 = -1
)

// cluster asks one Kafka cluster what the source needs to know. It fulfils offsets.Lookup.
type cluster struct {
	client *kgo.Client
	log    *slog.Logger
	// id is the cluster's own, empty where it is not known yet; principal is the user that it logs in as, for messages.
	id, principal string
}

// describe returns those topics of a subscription that exist, always fresh from a broker. As in Kafka's own clients a
// pattern never covers internal topics.
func (c cluster) describe(ctx context.Context, sub splits.Subscription) ([]splits.Topic, error) {
	var topics []splits.Topic
	err := retry(ctx, c.client, c.log, "describing topics", func(ctx context.Context) error {
		req := kmsg.NewPtrMetadataRequest()
		for _, name := range sub.Names() { // none asks for all
			rt := kmsg.NewMetadataRequestTopic()
			rt.Topic = kmsg.StringPtr(name)
			req.Topics = append(req.Topics, rt)
		}
		resp, err := req.RequestWith(ctx, c.client)
		if err != nil {
			return err
		}
		topics = topics[:0]
		for _, t := range resp.Topics {
			if t.Topic == nil || sub.Pattern != nil && (t.IsInternal || !sub.Pattern.MatchString(*t.Topic)) {
				continue
			}
			err := kerr.ErrorForCode(t.ErrorCode)
			if errors.Is(err, kerr.UnknownTopicOrPartition) {
				continue
			}
			if err != nil {
				return named(*t.Topic, kafkaclient.Access(*t.Topic, kafkaclient.OperationRead, c.principal, err))
			}
			topic := splits.Topic{Name: *t.Topic, ID: t.TopicID}
			for _, p := range t.Partitions {
				topic.Partitions = append(topic.Partitions, p.Partition)
			}
			slices.Sort(topic.Partitions)
			topics = append(topics, topic)
		}
		return nil
	})
	return topics, err
}

// named adds the topic's name to an error that does not have it.
func named(topic string, err error) error {
	if _, has := errors.AsType[*kafkaclient.AccessError](err); has {
		return err
	}
	return fmt.Errorf("topic %q: %w", topic, err)
}

// Earliest returns the first offset of each partition.
func (c cluster) Earliest(ctx context.Context, parts []splits.Partition) (map[splits.Partition]offsets.Position, error) {
	return c.ends(ctx, "asking for earliest offsets", listEarliest, parts)
}

// Latest returns the high watermark of each partition: the isolation of the request stays read_uncommitted.
func (c cluster) Latest(ctx context.Context, parts []splits.Partition) (map[splits.Partition]offsets.Position, error) {
	return c.ends(ctx, "asking for latest offsets", listLatest, parts)
}

// AtTime returns the first offset whose record has the timestamp or a later one, where there is such a record.
func (c cluster) AtTime(ctx context.Context, ms int64, parts []splits.Partition) (map[splits.Partition]offsets.Position, error) {
	return c.list(ctx, "asking for the offsets of a timestamp", ms, parts, func(offsets.Position) bool { return true })
}

// ends asks for what every partition has.
func (c cluster) ends(ctx context.Context, doing string, timestamp int64, parts []splits.Partition,
) (map[splits.Partition]offsets.Position, error) {
	return c.list(ctx, doing, timestamp, parts, func(p offsets.Position) bool { return p.Offset >= 0 })
}

// list asks until there is a valid answer for each partition. An answer without an offset is left out.
func (c cluster) list(ctx context.Context, doing string, timestamp int64, parts []splits.Partition, valid func(offsets.Position) bool,
) (map[splits.Partition]offsets.Position, error) {
	var out map[splits.Partition]offsets.Position
	err := retry(ctx, c.client, c.log, doing, func(ctx context.Context) error {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID = -1
		for topic, ps := range byTopic(parts) {
			rt := kmsg.NewListOffsetsRequestTopic()
			rt.Topic = topic
			for _, p := range ps {
				rp := kmsg.NewListOffsetsRequestTopicPartition()
				rp.Partition, rp.Timestamp = p, timestamp
				rt.Partitions = append(rt.Partitions, rp)
			}
			req.Topics = append(req.Topics, rt)
		}
		resp, err := req.RequestWith(ctx, c.client)
		if err != nil {
			return err
		}
		out = make(map[splits.Partition]offsets.Position, len(parts))
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				at := splits.Partition{Topic: t.Topic, Partition: p.Partition}
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return fmt.Errorf("partition %v: %w", at, kafkaclient.Access(t.Topic, kafkaclient.OperationRead, c.principal, err))
				}
				out[at] = offsets.Position{Offset: p.Offset, LeaderEpoch: p.LeaderEpoch}
			}
		}
		for _, p := range parts {
			switch pos, ok := out[p]; {
			case !ok || !valid(pos):
				return fmt.Errorf("partition %v: %w", p, errIncomplete)
			case pos.Offset < 0:
				delete(out, p)
			}
		}
		return nil
	})
	return out, err
}

// Committed returns the group's committed offsets. It waits for transactional offset commits that are pending.
func (c cluster) Committed(ctx context.Context, group string, parts []splits.Partition,
) (map[splits.Partition]offsets.Position, error) {
	out := make(map[splits.Partition]offsets.Position)
	err := retry(ctx, c.client, c.log, fmt.Sprintf("asking for the committed offsets of group %q", group), func(ctx context.Context) error {
		resp, err := kadm.NewClient(c.client).FetchOffsets(kadm.RequireStable(ctx), group)
		if errors.Is(err, kerr.GroupIDNotFound) {
			return nil // a group that was never used has committed nothing
		}
		if err != nil {
			return err
		}
		clear(out)
		for _, p := range parts {
			o, ok := resp.Lookup(p.Topic, p.Partition)
			if !ok || o.At < 0 && o.Err == nil {
				continue
			}
			if o.Err != nil {
				return fmt.Errorf("partition %v: %w", p, o.Err)
			}
			out[p] = offsets.Position{Offset: o.At, LeaderEpoch: o.LeaderEpoch}
		}
		return nil
	})
	return out, err
}

// EpochEnds returns where the log of each position's leader epoch ends; brokers before 2.0 cannot tell.
func (c cluster) EpochEnds(ctx context.Context, positions map[splits.Partition]offsets.Position) (map[splits.Partition]int64, error) {
	var req kadm.OffsetForLeaderEpochRequest
	for p, pos := range positions {
		if pos.LeaderEpoch >= 0 {
			req.Add(p.Topic, p.Partition, pos.LeaderEpoch)
		}
	}
	ends := make(map[splits.Partition]int64)
	if len(req) == 0 {
		return ends, nil
	}
	err := retry(ctx, c.client, c.log, "asking where leader epochs end", func(ctx context.Context) error {
		resp, err := kadm.NewClient(c.client).OffsetForLeaderEpoch(ctx, req)
		if err != nil {
			return err
		}
		clear(ends)
		for topic, ps := range resp {
			for n, e := range ps {
				if e.Err != nil {
					return fmt.Errorf("partition %s-%d: %w", topic, n, e.Err)
				}
				ends[splits.Partition{Topic: topic, Partition: n}] = e.EndOffset
			}
		}
		return nil
	})
	if errors.Is(err, kerr.UnsupportedVersion) {
		return nil, nil
	}
	return ends, err
}

func byTopic(parts []splits.Partition) map[string][]int32 {
	m := make(map[string][]int32)
	for _, p := range parts {
		m[p.Topic] = append(m[p.Topic], p.Partition)
	}
	return m
}

// logEnds asks where the log of each partition ends, for readers of the isolation level, and why that cannot be told of the
// others.
func (c cluster) logEnds(ctx context.Context, parts []splits.Partition, readCommitted bool,
) (ends map[splits.Partition]int64, refused map[splits.Partition]error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	if readCommitted {
		req.IsolationLevel = 1
	}
	for topic, ps := range byTopic(parts) {
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = topic
		for _, p := range ps {
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Partition, rp.Timestamp = p, listLatest
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	ends, refused = map[splits.Partition]int64{}, map[splits.Partition]error{}
	for _, shard := range c.client.RequestSharded(ctx, req) {
		resp, ok := shard.Resp.(*kmsg.ListOffsetsResponse)
		if shard.Err != nil || !ok {
			for _, p := range askedFor(shard.Req) {
				refused[p] = shard.Err
			}
			continue
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				at := splits.Partition{Topic: t.Topic, Partition: p.Partition}
				switch err := kerr.ErrorForCode(p.ErrorCode); {
				case err != nil:
					refused[at] = err
				case p.Offset >= 0:
					ends[at] = p.Offset
				}
			}
		}
	}
	return ends, refused
}

// askedFor are the partitions of a question for the ends of logs.
func askedFor(req kmsg.Request) (parts []splits.Partition) {
	asked, _ := req.(*kmsg.ListOffsetsRequest)
	if asked == nil {
		return nil
	}
	for _, t := range asked.Topics {
		for _, p := range t.Partitions {
			parts = append(parts, splits.Partition{Topic: t.Topic, Partition: p.Partition})
		}
	}
	return parts
}

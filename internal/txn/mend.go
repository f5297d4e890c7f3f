package txn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// A transaction is over on a partition when its marker is written there. The coordinator writes the markers after it has
// decided, and a broker that has just been started may decide and write none: it takes partitions whose leader it does
// not know yet for deleted (Kafka 4.3.1, TransactionMarkerChannelManager: "these partitions are likely deleted already
// and hence can be skipped"). To the coordinator the transaction is complete then, and on the partition it is open. The
// next marker of the same producer id decides for both: a commit shows what was aborted, an abort loses what was
// committed. So wherever a broker may have died over a transaction its partitions are asked, before anything else happens
// to its id, and what is open there gets the marker that it lacks, by a transaction that writes nothing else.

// hanging is what is open on the partitions although the coordinator says it is complete.
type hanging struct {
	id    string
	as    owner
	kind  bool // true: committed
	parts map[string][]int32
	// told is set where the brokers have told so; else it is what may be.
	told bool
}

// mend waits until no transaction of the ids is open on a partition of the topics whose coordinator says that it is
// complete. Ids whose transaction is open to the coordinator too are left alone. Where the brokers do not tell what is
// open (DescribeProducers needs the ACL operation Read on the topic), every partition gets a marker, once.
func (b *Broker) mend(ctx context.Context, ids []string, topics []string) error {
	if len(ids) == 0 || len(topics) == 0 {
		return nil
	}
	blind := false
	return b.persist(ctx, fmt.Sprintf("looking for what is left open by %q", ids[0]), func(ctx context.Context) error {
		seen, err := b.describeAll(ctx, ids)
		var refused *AuthorizationError
		switch {
		case errors.As(err, &refused), errors.Is(err, kerr.UnsupportedVersion):
			return nil // Brokers that do not tell this tell nothing of partitions either.
		case err != nil:
			return err
		case !slices.ContainsFunc(slices.Collect(maps.Values(seen)), described.complete):
			return nil
		}
		open, told, err := b.openOn(ctx, topics)
		if err != nil || !told && blind {
			return err
		}
		left := hangingIn(seen, open, told)
		for _, h := range left {
			if err := b.mark(ctx, h); err != nil {
				return err
			}
		}
		blind = !told
		if len(left) > 0 {
			return errSettling // and look once more
		}
		return nil
	})
}

// complete tells whether nothing of the id is open to its coordinator.
func (d described) complete() bool {
	return d != absent && (strings.HasPrefix(d.state, "Complete") || d.state == "Empty")
}

// openOn tells which producer ids have a transaction open on which partitions. Where the brokers do not tell, all
// partitions stand under no producer id.
func (b *Broker) openOn(ctx context.Context, topics []string) (open map[int64]map[string][]int32, told bool, err error) {
	admin := kadm.NewClient(b.current)
	listed, err := admin.ListTopics(ctx, topics...)
	if err != nil {
		return nil, false, err
	}
	set := kadm.TopicsSet{}
	open = map[int64]map[string][]int32{}
	for name, t := range listed {
		switch {
		case t.Err == nil && len(t.Partitions) > 0:
			set.Add(name, t.Partitions.Numbers()...)
			add(open, -1, name, t.Partitions.Numbers()...)
		case t.Err != nil && again(t.Err) && !errors.Is(t.Err, kerr.UnknownTopicOrPartition):
			return nil, false, t.Err
		}
	}
	if len(set) == 0 {
		return nil, true, nil
	}
	described, err := admin.DescribeProducers(ctx, set)
	var refused *kadm.AuthError
	if errors.As(err, &refused) || errors.Is(err, kerr.UnsupportedVersion) {
		return open, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	open = map[int64]map[string][]int32{}
	described.EachPartition(func(p kadm.DescribedProducersPartition) {
		if p.Err != nil && err == nil {
			err = fmt.Errorf("asking for the producers of %s/%d: %w", p.Topic, p.Partition, p.Err)
		}
		for _, producer := range p.ActiveProducers {
			if producer.CurrentTxnStartOffset >= 0 {
				add(open, producer.ProducerID, p.Topic, p.Partition)
			}
		}
	})
	return open, true, err
}

func add(open map[int64]map[string][]int32, producerID int64, topic string, partitions ...int32) {
	if open[producerID] == nil {
		open[producerID] = map[string][]int32{}
	}
	open[producerID][topic] = append(open[producerID][topic], partitions...)
}

// hangingIn compares what the coordinators and the partitions say. Behind an initialisation only an abort can be lacking:
// what was committed before is looked after before the id is initialised.
func hangingIn(seen Standing, open map[int64]map[string][]int32, told bool) []hanging {
	var out []hanging
	for id, d := range seen {
		producerID := d.producerID
		if !told {
			producerID = -1
		}
		if parts := open[producerID]; d.complete() && len(parts) > 0 {
			out = append(out, hanging{id: id, as: owner{d.producerID, d.epoch}, kind: d.state == "CompleteCommit", parts: parts, told: told})
		}
	}
	slices.SortFunc(out, func(a, b hanging) int { return strings.Compare(a.id, b.id) })
	return out
}

// mark gives what hangs its markers: it adds the partitions to a transaction of the id and ends that as the one before
// was ended.
func (b *Broker) mark(ctx context.Context, h hanging) error {
	level := slog.LevelDebug
	if h.told {
		level = slog.LevelWarn
	}
	b.log.Log(ctx, level, "a broker has ended a transaction and left it open on partitions; ending it there",
		"transactional_id", h.id, "producer_id", h.as.producerID, "epoch", h.as.epoch, "commit", h.kind, "partitions", h.parts)
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID = h.id
	req.ProducerID, req.ProducerEpoch = h.as.producerID, h.as.epoch
	for topic, partitions := range h.parts {
		t := kmsg.NewAddPartitionsToTxnRequestTopic()
		t.Topic, t.Partitions = topic, partitions
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, b.old)
	if err != nil {
		return b.refusal(h.id, "Write", err)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return b.fencedAs(h, err)
			}
		}
	}
	c := checkpoint.Committable{TransactionalID: h.id, ProducerID: h.as.producerID, Epoch: h.as.epoch}
	return b.fencedAs(h, b.endTxnAs(ctx, b.old, c, h.kind))
}

func (b *Broker) fencedAs(h hanging, err error) error {
	if err != nil && fencing(err) {
		return &FencedError{TransactionalID: h.id, ProducerID: h.as.producerID, Epoch: h.as.epoch, Err: err}
	}
	return err
}

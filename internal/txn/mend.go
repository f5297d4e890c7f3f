package txn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkaclient"
)

// A transaction is over on a partition when its marker is written there. The coordinator writes the markers after it has
// decided, and a broker that has just been started may decide and write none: it takes partitions whose leader it does
// not know yet for deleted (Kafka 4.3.1, TransactionMarkerChannelManager: "these partitions are likely deleted already
// and hence can be skipped"). To the coordinator the transaction is complete then, and on the partition it is open. The
// next marker of the same producer id decides for both: a commit shows what was aborted, an abort loses what was
// committed. So wherever a broker may have died over a transaction its partitions are asked, before anything else happens
// to its id, and what is open there gets the marker that it lacks, by a transaction that writes nothing else.

// hanging is what is open on partitions although the coordinator says it is complete.
type hanging struct {
	id     string
	as     owner
	commit bool
	parts  map[string][]int32
	// told is set where the brokers have told so; else it is what may be.
	told bool
}

// mendPatience is how long partitions that do not answer are asked, since none of them may be concerned.
const mendPatience = 20 * time.Second

// mending is one call of mend.
type mending struct {
	ids, topics []string
	// blind lets every partition get a marker where the brokers do not tell which are open (DescribeProducers needs the
	// ACL operation Read on the topic). It is for ids that this process owns: to another owner it would be a commit.
	blind   bool
	began   time.Time
	blinded bool
}

// mend waits until no transaction of the ids is open on a partition of the topics whose coordinator says that it is
// complete. Ids whose transaction is open to the coordinator too are left alone.
func (b *Broker) mend(ctx context.Context, m mending) error {
	if len(m.ids) == 0 || len(m.topics) == 0 {
		return nil
	}
	m.began = time.Now()
	what := fmt.Sprintf("looking for what brokers have left open of %q", m.ids[0])
	err := b.persist(ctx, what, func(ctx context.Context) error {
		left, err := b.hanging(ctx, &m)
		var refused *AuthorizationError
		switch {
		case errors.As(err, &refused), errors.Is(err, kerr.UnsupportedVersion):
			return nil // Brokers that do not tell this tell nothing of partitions either.
		case err != nil:
			return err
		}
		for _, h := range left {
			if err := b.mark(ctx, h); err != nil {
				return err
			}
		}
		if len(left) > 0 {
			return errSettling // and look once more
		}
		return nil
	})
	if denied, ok := errors.AsType[*kafkaclient.AccessError](err); ok {
		return denied // says it all; what was being done is of no help
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// hanging asks twice, coordinators and partitions in turn: what is open at one place in both looks, while the coordinator
// says in between that nothing is, no owner can have opened.
func (b *Broker) hanging(ctx context.Context, m *mending) ([]hanging, error) {
	first, err := b.describeAll(ctx, m.ids)
	if err != nil || !slices.ContainsFunc(slices.Collect(maps.Values(first)), described.complete) {
		return nil, err
	}
	before, told, err := b.openOn(ctx, m)
	switch {
	case err != nil:
		return nil, err
	case !told && (!m.blind || m.blinded):
		return nil, nil
	case len(before) == 0:
		return nil, nil
	}
	seen, err := b.describeAll(ctx, m.ids)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(seen, func(id string, d described) bool { return d != first[id] })
	if !told {
		m.blinded = true
		return hangingIn(seen, before, false), nil
	}
	after, _, err := b.openOn(ctx, m)
	if err != nil {
		return nil, err
	}
	return hangingIn(seen, before.both(after), true), nil
}

// opened are places where a transaction is open, with the offset it begins at.
type opened map[place]int64

// place is a partition, to one producer id; -1 for all.
type place struct {
	producerID int64
	topic      string
	partition  int32
}

// both are those that are open in two looks.
func (o opened) both(other opened) opened {
	out := opened{}
	for at, offset := range o {
		if again, is := other[at]; is && again == offset {
			out[at] = offset
		}
	}
	return out
}

// complete tells whether nothing of the id is open to its coordinator.
func (d described) complete() bool {
	return d != absent && (strings.HasPrefix(d.state, "Complete") || d.state == "Empty")
}

// openOn tells which producer ids have a transaction open on which partitions. Where the brokers do not tell, all
// partitions stand under no producer id.
func (b *Broker) openOn(ctx context.Context, m *mending) (open opened, told bool, err error) {
	admin := kadm.NewClient(b.current)
	listed, err := admin.ListTopics(ctx, m.topics...)
	if err != nil {
		return nil, false, fmt.Errorf("listing topics: %w", err)
	}
	set, all := kadm.TopicsSet{}, opened{}
	for name, t := range listed {
		switch {
		case t.Err == nil && len(t.Partitions) > 0:
			set.Add(name, t.Partitions.Numbers()...)
			for _, n := range t.Partitions.Numbers() {
				all[place{-1, name, n}] = 0
			}
		case t.Err != nil && again(t.Err) && !errors.Is(t.Err, kerr.UnknownTopicOrPartition):
			return nil, false, fmt.Errorf("listing topic %q: %w", name, t.Err)
		}
	}
	if len(set) == 0 {
		return nil, true, nil
	}
	described, err := admin.DescribeProducers(ctx, set)
	var refused *kadm.AuthError
	if errors.As(err, &refused) || errors.Is(err, kerr.UnsupportedVersion) {
		return all, false, nil
	}
	open = opened{}
	described.EachPartition(func(p kadm.DescribedProducersPartition) {
		if p.Err != nil && err == nil {
			err = fmt.Errorf("asking for the producers of %s/%d: %w", p.Topic, p.Partition, p.Err)
		}
		for _, producer := range p.ActiveProducers {
			if producer.CurrentTxnStartOffset >= 0 {
				open[place{producer.ProducerID, p.Topic, p.Partition}] = producer.CurrentTxnStartOffset
			}
		}
	})
	if err != nil && time.Since(m.began) < mendPatience {
		return nil, false, err
	}
	if err != nil {
		b.log.Error("some partitions do not tell whether a broker has left a transaction open there; going on without them",
			"for", mendPatience.String(), "cause", err.Error())
	}
	return open, true, nil
}

// hangingIn compares what the coordinators and the partitions say. Behind an initialisation only an abort can be lacking:
// what was committed before is looked after before the id is initialised.
func hangingIn(seen Standing, open opened, told bool) []hanging {
	var out []hanging
	for id, d := range seen {
		producerID := d.producerID
		if !told {
			producerID = -1
		}
		parts := map[string][]int32{}
		for at := range open {
			if at.producerID == producerID {
				parts[at.topic] = append(parts[at.topic], at.partition)
			}
		}
		if d.complete() && len(parts) > 0 {
			out = append(out, hanging{
				id: id, as: owner{d.producerID, d.epoch}, commit: d.state == "CompleteCommit", parts: parts, told: told,
			})
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
		"transactional_id", h.id, "producer_id", h.as.producerID, "epoch", h.as.epoch, "commit", h.commit, "partitions", h.parts)
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
			// The others of a request that was refused for one are not attempted, which says nothing of them.
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil && !errors.Is(err, kerr.OperationNotAttempted) {
				err = kafkaclient.Access(t.Topic, kafkaclient.OperationWrite, b.principal, err)
				return b.fencedAs(h, fmt.Errorf("adding %s/%d to a transaction of id %q: %w", t.Topic, p.Partition, h.id, err))
			}
		}
	}
	c := checkpoint.Committable{TransactionalID: h.id, ProducerID: h.as.producerID, Epoch: h.as.epoch}
	return b.fencedAs(h, b.endTxnAs(ctx, b.old, c, h.commit))
}

func (b *Broker) fencedAs(h hanging, err error) error {
	if err != nil && fencing(err) {
		return &FencedError{TransactionalID: h.id, ProducerID: h.as.producerID, Epoch: h.as.epoch, Err: err}
	}
	return err
}

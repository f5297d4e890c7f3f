package devbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Fence is the end of each partition of a topic at one moment: one past the last record of any kind, control records
// and those of open transactions included.
type Fence map[int32]int64

// FenceOf takes the fence of a topic now.
func FenceOf(ctx context.Context, bootstrap []string, topic string) (Fence, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...))
	if err != nil {
		return nil, fmt.Errorf("asking for the end of topic %q: %w", topic, err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("asking for the end of topic %q: %w", topic, err)
	}
	fence := Fence{}
	ends.Each(func(o kadm.ListedOffset) { fence[o.Partition] = o.Offset })
	return fence, nil
}

// Total is the number of offsets before the fence in all partitions. In a topic without transactions, compaction and
// retention it is the number of records.
func (f Fence) Total() int64 {
	var sum int64
	for _, end := range f {
		sum += end
	}
	return sum
}

// Observer reads topics from their beginning as a read_committed consumer. It is for one goroutine.
type Observer struct {
	client    *kgo.Client
	topic     string // the first one
	positions map[string]map[int32]int64
}

// Observe returns an observer of a topic, and of others beside it. Nothing is read before the first Poll.
func Observe(bootstrap []string, topic string, more ...string) (*Observer, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap...),
		kgo.ConsumeTopics(append(more, topic)...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// The markers of commits and aborts are records with offsets. Without them the position would never reach a
		// fence that stands behind one.
		kgo.KeepControlRecords(),
	)
	if err != nil {
		return nil, fmt.Errorf("reading topic %q: %w", topic, err)
	}
	return &Observer{client: client, topic: topic, positions: make(map[string]map[int32]int64)}, nil
}

// Poll waits until committed records or markers are there and hands each record, but no marker, to see. It returns
// the context's error when the context ends first.
func (o *Observer) Poll(ctx context.Context, see func(*kgo.Record)) error {
	fetches := o.client.PollFetches(ctx)
	fetches.EachRecord(func(r *kgo.Record) {
		if o.positions[r.Topic] == nil {
			o.positions[r.Topic] = make(map[int32]int64)
		}
		o.positions[r.Topic][r.Partition] = r.Offset + 1
		if !r.Attrs.IsControl() {
			see(r)
		}
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, e := range fetches.Errors() {
		return fmt.Errorf("reading topic %q partition %d: %w", e.Topic, e.Partition, e.Err)
	}
	return nil
}

// PollTo polls until the positions in the topic, the first one, have reached the fence. Where the context ends first,
// the error says which partitions are behind; a transaction that is still open is the usual reason.
func (o *Observer) PollTo(ctx context.Context, fence Fence, see func(*kgo.Record)) error {
	return o.PollTopicTo(ctx, o.topic, fence, see)
}

// PollTopicTo is PollTo for any of the topics.
func (o *Observer) PollTopicTo(ctx context.Context, topic string, fence Fence, see func(*kgo.Record)) error {
	for {
		behind := o.behind(topic, fence)
		if len(behind) == 0 {
			return nil
		}
		if err := o.Poll(ctx, see); err != nil {
			if errors.Is(err, ctx.Err()) {
				return fmt.Errorf("reading topic %q to its end: committed records end before it in %v, a transaction may have been left open: %w",
					topic, behind, err)
			}
			return err
		}
	}
}

// behind lists the partitions of a topic whose position is before the fence.
func (o *Observer) behind(topic string, fence Fence) []string {
	var behind []string
	for p, end := range fence {
		if at := o.positions[topic][p]; at < end {
			behind = append(behind, fmt.Sprintf("partition %d at %d of %d", p, at, end))
		}
	}
	slices.Sort(behind)
	return behind
}

// Close ends the observer.
func (o *Observer) Close() { o.client.Close() }

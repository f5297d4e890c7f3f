package crash

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// producer goes on writing numbered records to every partition of one topic or more until it is stopped. Its partitions
// are numbered through all topics.
type producer struct {
	client  *kgo.Client
	topics  []string
	each    int32 // partitions of a topic
	began   time.Time
	written []int64 // per partition; the goroutine's own until ended is closed
	// recordOf makes the records: record, unless a scenario has others.
	recordOf maker
	// perSecond is how many records a second each partition gets.
	perSecond atomic.Int64
	// open is how many partitions exist.
	open atomic.Int32

	stop    context.CancelFunc
	ended   chan struct{}
	mu      sync.Mutex
	acked   []int64 // records that are in the topic, per partition; guarded by mu
	failure error   // guarded by mu
}

// maker makes record n of a partition, always the same for the same time of the first one.
type maker func(topic string, partition int32, n int64, began time.Time) *kgo.Record

// newProducer returns a producer that does not write yet.
func newProducer(bootstrap, topics []string, partitions int32) (*producer, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		// A topic that was made a moment ago may not be known to every broker.
		kgo.UnknownTopicRetries(100), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return nil, fmt.Errorf("making the producer: %w", err)
	}
	p := &producer{
		client: client, topics: topics, each: partitions, recordOf: record, began: time.Now().Truncate(time.Millisecond),
		written: make([]int64, int(partitions)*len(topics)), acked: make([]int64, int(partitions)*len(topics)),
		stop: func() {}, ended: make(chan struct{}),
	}
	p.open.Store(int32(len(p.written)))
	return p, nil
}

// startProducer starts a producer that writes so many records a second to each partition; recordOf is nil for the usual ones.
func startProducer(bootstrap, topics []string, partitions int32, perSecond int, recordOf maker) (*producer, error) {
	p, err := newProducer(bootstrap, topics, partitions)
	if err != nil {
		return nil, err
	}
	p.start(perSecond, recordOf)
	return p, nil
}

// start lets it write.
func (p *producer) start(perSecond int, recordOf maker) {
	if recordOf != nil {
		p.recordOf = recordOf
	}
	p.perSecond.Store(int64(perSecond))
	var ctx context.Context
	ctx, p.stop = context.WithCancel(context.Background())
	go p.run(ctx)
}

// grow adds a partition to the topic, which is written to as soon as it is there.
func (p *producer) grow(ctx context.Context) error {
	number := p.open.Load()
	if number == p.each {
		return fmt.Errorf("the input has %d partitions, and cannot have more", number)
	}
	resp, err := kadm.NewClient(p.client).UpdatePartitions(ctx, int(number)+1, p.topics[0])
	if err = cmp.Or(err, resp.Error()); err != nil {
		return fmt.Errorf("adding partition %d: %w", number, err)
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		p.client.ForceMetadataRefresh()
		if leader, _, err := p.client.PartitionLeader(p.topics[0], number); err == nil && leader >= 0 {
			p.open.Store(number + 1)
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for partition %d: %w", number, ctx.Err())
		}
	}
}

// writeAll writes so many records to each partition, and waits until they are there.
func writeAll(bootstrap, topics []string, partitions int32, each int) (*producer, error) {
	p, err := newProducer(bootstrap, topics, partitions)
	if err != nil {
		return nil, err
	}
	p.write(each)
	close(p.ended)
	ctx, cancel := context.WithTimeout(context.Background(), stallLimit)
	defer cancel()
	_, err = p.end(ctx)
	return p, err
}

// write writes so many records to each partition.
func (p *producer) write(each int) {
	for partition := range p.open.Load() {
		for range each {
			// Without a limit: what was begun is to be written, or the numbers would have holes.
			p.client.Produce(context.Background(), p.record(partition, p.written[partition]), p.acknowledged)
			p.written[partition]++
		}
	}
}

func (p *producer) run(ctx context.Context) {
	defer close(p.ended)
	const every = 20 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	owed := int64(0) // in records a second
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		owed += p.perSecond.Load() * int64(every)
		p.write(int(owed / int64(time.Second)))
		owed %= int64(time.Second)
	}
}

func (p *producer) record(partition int32, n int64) *kgo.Record {
	r := p.recordOf(p.topics[partition/p.each], partition, n, p.began)
	r.Partition = partition % p.each
	return r
}

// acknowledged is told of the records of a partition in their order.
func (p *producer) acknowledged(r *kgo.Record, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	partition, _, numberErr := numberOf(r)
	if err = cmp.Or(err, numberErr); err != nil {
		p.failure = err
		return
	}
	p.acked[partition]++
}

// soFar is how many records each partition has now.
func (p *producer) soFar() []int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.acked)
}

// end stops writing, waits until the broker has everything, and returns how many records each partition has got.
func (p *producer) end(ctx context.Context) ([]int64, error) {
	p.stop()
	<-p.ended
	defer p.client.Close()
	if err := p.client.Flush(ctx); err != nil {
		return nil, fmt.Errorf("writing the input: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure != nil {
		return nil, fmt.Errorf("writing the input: %w", p.failure)
	}
	return p.written, nil
}

package crash

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// producer goes on writing numbered records to every partition of a topic until it is stopped.
type producer struct {
	client  *kgo.Client
	topic   string
	began   time.Time
	written []int64 // per partition; the goroutine's own until ended is closed

	stop    context.CancelFunc
	ended   chan struct{}
	mu      sync.Mutex
	acked   []int64 // records that are in the topic, per partition; guarded by mu
	failure error   // guarded by mu
}

// startProducer starts a producer that writes so many records a second to each partition.
func startProducer(bootstrap []string, topic string, partitions int32, perSecond int) (*producer, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return nil, fmt.Errorf("making the producer: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &producer{
		client: client, topic: topic, began: time.Now().Truncate(time.Millisecond), written: make([]int64, partitions),
		acked: make([]int64, partitions),
		stop:  stop, ended: make(chan struct{}),
	}
	go p.run(ctx, perSecond)
	return p, nil
}

func (p *producer) run(ctx context.Context, perSecond int) {
	defer close(p.ended)
	const every = 20 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	each := max(1, perSecond*int(every)/int(time.Second))
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for partition := range int32(len(p.written)) {
			for range each {
				// Not with ctx: what was begun is to be written, or the numbers would have holes.
				p.client.Produce(context.Background(), p.record(partition, p.written[partition]), p.acknowledged)
				p.written[partition]++
			}
		}
	}
}

func (p *producer) record(partition int32, n int64) *kgo.Record {
	return record(p.topic, partition, n, p.began)
}

// acknowledged is told of the records of a partition in their order.
func (p *producer) acknowledged(r *kgo.Record, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failure = err
		return
	}
	p.acked[r.Partition]++
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

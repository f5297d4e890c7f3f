package kafkasink

import (
	"context"
	"errors"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/txn"
)

// attempt is one run between two failovers, or without checkpoints the only one.
type attempt struct {
	tag checkpoint.Tag
	// failed is the first failure. settled is closed once it is known what it means and it has been reported; it is set
	// together with failed. Both are guarded by Sink.mu.
	failed  error
	settled chan struct{}
}

// outlet is where records go: one transaction, or the plain client of one attempt.
type outlet struct {
	sink    *Sink
	attempt *attempt
	tx      *txn.Transaction // nil without transactions
	plain   *kgo.Client      // nil with them
	window  *window

	writers  int           // that have entered; guarded by Sink.mu
	stopped  chan struct{} // closed by stop
	stopOnce sync.Once
}

// newOutlet returns the outlet of an attempt; with transactions that of an id. It sends nothing.
func (s *Sink) newOutlet(a *attempt, id int32) (*outlet, error) {
	o := &outlet{
		sink: s, attempt: a, stopped: make(chan struct{}),
		window: newWindow(s.cfg.MaxBufferedRecords, s.cfg.MaxBufferedBytes),
	}
	if s.pool != nil {
		o.tx = s.pool.Begin(id, o.acked)
		return o, nil
	}
	client, err := kgo.NewClient(s.cfg.options()...)
	if err != nil {
		return nil, err
	}
	o.plain = client
	return o, nil
}

// ready waits until the outlet may be produced to.
func (o *outlet) ready(ctx context.Context) error {
	if o.tx != nil {
		return o.tx.Ready(ctx)
	}
	return nil
}

// produce hands records over and returns at once. It calls handled, if that is not nil, for each record that nothing
// holds any more.
func (o *outlet) produce(records []*kgo.Record, handled func()) {
	if o.tx != nil {
		o.tx.ProduceThen(records, handled)
		return
	}
	promise := o.acked
	if handled != nil {
		promise = func(r *kgo.Record, err error) {
			o.acked(r, err)
			handled()
		}
	}
	o.produceTo(context.Background(), records, promise)
}

// produceTo is produce without a transaction, with another promise in place of the outlet's own reaction to failures.
// Records that were not sent when ctx ends fail.
func (o *outlet) produceTo(ctx context.Context, records []*kgo.Record, promise func(*kgo.Record, error)) {
	for _, r := range records {
		o.plain.Produce(ctx, r, promise)
	}
}

// acked is the promise of every record of an attempt. The client calls it in one goroutine at a time.
func (o *outlet) acked(r *kgo.Record, err error) {
	size := userSize(r)
	o.window.release(size)
	o.sink.acks.count(size, err)
	if err != nil {
		o.sink.sendFailed(o, r.Topic, err)
	}
}

// flush waits until every record is acknowledged or has failed.
func (o *outlet) flush(ctx context.Context) error {
	if o.tx != nil {
		return o.tx.Flush(ctx)
	}
	return o.plain.Flush(ctx)
}

// stop closes the client without sending anything. Whoever waits on the outlet returns, and what fails from here on is a
// consequence.
func (o *outlet) stop() {
	o.stopOnce.Do(func() {
		close(o.stopped)
		if o.tx != nil {
			o.tx.Close()
		} else {
			o.plain.Close()
		}
	})
}

func (o *outlet) isStopped() bool {
	select {
	case <-o.stopped:
		return true
	default:
		return false
	}
}

// pending waits for the acknowledgement of one batch.
type pending struct {
	mu    sync.Mutex
	left  int
	first error
	done  chan struct{}
}

func newPending(records int) *pending {
	return &pending{left: records, done: make(chan struct{})}
}

// settle counts one record of the batch.
func (p *pending) settle(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && p.first == nil {
		p.first = err
	}
	if p.left--; p.left == 0 {
		close(p.done)
	}
}

// wait returns the first error of the batch, or ctx's.
func (p *pending) wait(ctx context.Context) error {
	select {
	case <-p.done:
		p.mu.Lock()
		defer p.mu.Unlock()
		if errors.Is(p.first, kgo.ErrClientClosed) {
			return errEnded
		}
		return p.first
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errEnded answers who waits for an acknowledgement when the client is closed before it comes.
var errEnded = errors.New("the attempt ended before the broker acknowledged the batch; it may be there or not")

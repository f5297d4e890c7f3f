package txn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// Transaction is one id's transaction: open until it is sealed, sealed until it is ended or closed.
type Transaction struct {
	pool *Pool
	id   int32
	name string
	done func(*kgo.Record, error)
	// promise is settle, made once and not for each record.
	promise func(*kgo.Record, error)

	// ready is closed once the transaction has begun or never will; err, client, producer id and epoch are set before.
	ready chan struct{}
	err   error
	// producerID and epoch are those the client began with. They serve the diagnosis of an error alone: a committable
	// takes them from the acknowledged records (rule 5).
	producerID int64
	epoch      int16

	mu      sync.Mutex
	started bool    // a goroutine runs begin, or has
	closed  bool    // the client is closed, or given back to the pool
	client  *client // set by begin
	sealed  *checkpoint.Committable

	// began is when the first record was produced, nil before.
	began atomic.Pointer[time.Time]
	topic atomic.Pointer[string] // of the record produced last
	sent  atomic.Int64
	// acked is added to after tally was written: who reads acked == sent may read tally.
	acked atomic.Int64
	tally tally
}

func newTransaction(p *Pool, id int32, done func(*kgo.Record, error)) *Transaction {
	t := &Transaction{
		pool: p, id: id, name: ID(p.cfg.Pool, id), done: done,
		ready: make(chan struct{}), producerID: -1, epoch: -1,
	}
	t.promise = t.settle
	return t
}

// TransactionalID returns the transaction's id.
func (t *Transaction) TransactionalID() string { return t.name }

// Ready begins the transaction, if nobody has yet, and waits until it may be produced to. The context ends only the
// waiting. It returns ErrClosed after Close.
func (t *Transaction) Ready(ctx context.Context) error {
	t.mu.Lock()
	if !t.started && !t.closed {
		t.started = true
		t.pool.wg.Go(t.begin)
	}
	t.mu.Unlock()
	select {
	case <-t.ready:
		return t.begun()
	default:
	}
	select {
	case <-t.ready:
		return t.begun()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begun returns how beginning ended, after ready is closed.
func (t *Transaction) begun() error {
	if t.isClosed() {
		return ErrClosed
	}
	return t.err
}

// begin gets a client and begins the transaction on it. A new client sends InitProducerId here.
//
// Race: Close may come at any moment. Before the client is stored, it finds none; begin then sees closed under the same
// lock and closes the client itself. After, Close closes the client, which ends a BeginTransaction that waits for a
// broker; its error is reported as ErrClosed.
func (t *Transaction) begin() {
	defer close(t.ready)
	client, err := t.pool.client(t.pool.ctx, t)
	if err != nil {
		t.err = err
		return
	}
	t.mu.Lock()
	closed := t.closed
	if !closed {
		t.client = client
	}
	t.mu.Unlock()
	if closed {
		client.Close()
		return
	}
	if err := t.beginOn(client); err != nil {
		t.err = fmt.Errorf("beginning transaction of id %q: %w", t.name, t.pool.cfg.Broker.refusal(t.name, "Write", err))
	}
}

func (t *Transaction) beginOn(client *client) error {
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	// Where no broker answered, BeginTransaction leaves the initialisation to whatever comes next. It is done here, so
	// that an error belongs to the transaction and not to some record.
	return t.pool.cfg.Broker.persist(t.pool.ctx, fmt.Sprintf("initialising transactional id %q", t.name),
		func(ctx context.Context) error {
			id, epoch, err := client.ProducerID(ctx)
			switch {
			case err != nil && t.isClosed():
				return ErrClosed
			case err != nil:
				return err
			case id < 0:
				return &UnsupportedError{What: "transactions"}
			}
			t.producerID, t.epoch = id, epoch
			return t.pool.confirm(t.id, owner{id, epoch})
		})
}

// Produce sends records in the transaction; Ready must have returned nil. It does not wait, and the pool's clients
// must be set to buffer without limit.
func (t *Transaction) Produce(records []*kgo.Record) { t.ProduceThen(records, nil) }

// ProduceThen is Produce for a caller who wants the records back: handled is called for each one when its outcome has been
// taken, after which nothing here holds it, nor does the client (its promise is the last thing it does with a record).
func (t *Transaction) ProduceThen(records []*kgo.Record, handled func()) {
	if t.began.Load() == nil {
		now := time.Now()
		if t.began.CompareAndSwap(nil, &now) {
			t.pool.mu.Lock()
			t.pool.began[t.id], t.pool.written[t.id] = now, true
			t.pool.mu.Unlock()
		}
	}
	promise := t.promise
	if handled != nil {
		promise = func(r *kgo.Record, err error) {
			t.settle(r, err)
			handled()
		}
	}
	t.sent.Add(int64(len(records)))
	for _, r := range records {
		if last := t.topic.Load(); last == nil || *last != r.Topic { // neighbours mostly share one
			topic := r.Topic // not &r.Topic: the record may be somebody else's when this is next looked at
			t.topic.Store(&topic)
			t.pool.Know(topic)
		}
		t.client.Produce(context.Background(), r, promise)
	}
}

// settle is called by one goroutine at a time.
func (t *Transaction) settle(r *kgo.Record, err error) {
	if err == nil {
		t.tally.add(r)
		t.acked.Add(1)
	}
	t.done(r, err)
}

// Flush waits until every record is acknowledged or has failed.
func (t *Transaction) Flush(ctx context.Context) error {
	if t.sent.Load() == 0 {
		return nil
	}
	return t.client.Flush(ctx)
}

// Seal returns the committable of a flushed transaction, or nil where nothing was written to it (rule 4): then it stays
// open. It sends nothing. It fails where any record is not acknowledged, or where they do not all carry one producer id
// and epoch: then a part was written to some other transaction (rule 5).
func (t *Transaction) Seal() (*checkpoint.Committable, error) {
	sent := t.sent.Load()
	if sent == 0 {
		return nil, nil
	}
	if acked := t.acked.Load(); acked != sent {
		return nil, fmt.Errorf("sealing transaction of id %q: %d of %d records are not acknowledged", t.name, sent-acked, sent)
	}
	if t.tally.mixed {
		return nil, fmt.Errorf("sealing transaction of id %q: its records carry more than one producer id or epoch, so the "+
			"client has initialised the id in between, which aborted a part of them", t.name)
	}
	if t.tally.producerID < 0 || t.tally.epoch < 0 {
		return nil, fmt.Errorf("sealing transaction of id %q: its records were acknowledged without a producer id", t.name)
	}
	c := t.committable()
	c.ProducerID, c.Epoch = t.tally.producerID, t.tally.epoch
	c.BeganUnixMs = t.began.Load().UnixMilli()
	c.Records, c.Topics = sent, t.tally.shares()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, fmt.Errorf("sealing transaction of id %q: %w", t.name, ErrClosed)
	}
	t.sealed = &c
	out := c
	return &out, nil
}

// committable returns what is known of the transaction before it is sealed.
func (t *Transaction) committable() checkpoint.Committable {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	return checkpoint.Committable{
		Sink: t.pool.cfg.Sink, ClusterID: t.pool.cfg.Pool.ClusterID, TransactionalID: t.name,
		ProducerID: t.producerID, Epoch: t.epoch, TimeoutMs: int32(t.pool.timeout.Milliseconds()),
	}
}

// Diagnose tells what an error of the transaction or of one of its records means: nil for a failure that a new attempt
// heals, a *FencedError where another owner has taken the id. It asks the broker, where the error can be either.
func (t *Transaction) Diagnose(ctx context.Context, cause error) error {
	var fenced *FencedError
	if errors.As(cause, &fenced) {
		return fenced
	}
	if !fencing(cause) {
		return nil
	}
	<-t.ready // a record or begin has failed, so it is closed
	ctx, cancel := t.pool.bound(ctx)
	defer cancel()
	var began time.Time
	if first := t.began.Load(); first != nil {
		began = *first
	}
	return t.pool.cfg.Broker.Diagnose(ctx, t.committable(), began, cause)
}

// end commits by the transaction's own client, which is kept where that succeeds and closed where it does not, or where
// it is not certain that the commit is complete on every partition.
func (t *Transaction) end(ctx context.Context) (complete bool, err error) {
	t.mu.Lock()
	client, closed := t.client, t.closed
	t.mu.Unlock()
	if closed {
		return false, ErrClosed
	}
	// Nothing but Close may follow an error: the outcome is open, and a second try would first run InitProducerId.
	ends, links := client.sent.ends.Load(), client.sent.links.Load()
	err = client.EndTransaction(ctx, kgo.TryCommit)
	if err == nil {
		// One that was sent more than once, since its answer did not come in time, may still be on its way. Below
		// transaction.version 2 it would commit the next transaction of this client, which has the same epoch, while that
		// is open. The client that comes after this one takes another epoch.
		complete = client.sent.ends.Load() <= ends+1 && client.settled(ctx, t.name, tellSlow(t.pool.cfg.Log, t.name)) && client.sent.links.Load() == links
		// From transaction.version 2 on the answer brings the next epoch.
		if id, epoch, err := client.ProducerID(ctx); err == nil {
			t.pool.own(t.id, owner{id, epoch})
		}
	}
	t.mu.Lock()
	closed = t.closed
	t.closed = true
	t.mu.Unlock()
	switch {
	case closed: // by Close meanwhile, which also closed the client
		return false, errors.Join(err, ErrClosed)
	case err != nil, !complete:
		client.Close()
		return false, err
	}
	t.pool.keep(t.id, client)
	return true, nil
}

// isSealedAs tells whether the transaction is the living one of a committable.
func (t *Transaction) isSealedAs(c checkpoint.Committable) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.closed && t.sealed != nil && t.sealed.ProducerID == c.ProducerID && t.sealed.Epoch == c.Epoch
}

// Close closes the client. It sends nothing: what is open stays open, what is sealed stays sealed. It ends a Ready, a
// Flush and a Produce that wait, and may be called more than once.
func (t *Transaction) Close() {
	t.mu.Lock()
	closed, started, client := t.closed, t.started, t.client
	t.closed, t.started = true, true
	t.mu.Unlock()
	if closed {
		return
	}
	if !started { // begin will not run
		close(t.ready)
		return
	}
	if client != nil {
		client.Close()
	}
}

func (t *Transaction) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

package kafkasink

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/internal/txn"
)

// opened is what a group needs of its transaction; *txn.Transaction fulfils it.
type opened interface {
	Ready(context.Context) error
	Produce([]*kgo.Record)
	Flush(context.Context) error
	Seal() (*checkpoint.Committable, error)
	Diagnose(context.Context, error) error
	Close()
}

// ledger is what groups need of the pool of transactional ids.
type ledger interface {
	begin(id int32, done func(*kgo.Record, error)) opened
	commit(context.Context, checkpoint.Committable) (checkpoint.Verdict, error)
	abort(ctx context.Context, id int32) error
}

type poolLedger struct{ pool *txn.Pool }

func (l poolLedger) begin(id int32, done func(*kgo.Record, error)) opened {
	return l.pool.Begin(id, done)
}

func (l poolLedger) commit(ctx context.Context, c checkpoint.Committable) (checkpoint.Verdict, error) {
	return l.pool.Commit(ctx, c)
}
func (l poolLedger) abort(ctx context.Context, id int32) error { return l.pool.Abort(ctx, id) }

// entry is one batch whose writer waits.
type entry struct {
	records []*kgo.Record
	bytes   int64
	answer  chan error // capacity 1
	// done is set once it is answered, or its writer has gone. Guarded by groups.mu.
	done bool
	// produced is set once its records are in the transaction of the group it is in. It belongs to whoever hands it over,
	// and after that to the settler.
	produced bool
	// refused is the first error of one of its records that names the record as the cause, since the last attempt to
	// write it. Guarded by group.mu of the group it is in.
	refused error
}

// entryKey leads from a record to its entry, by the record's context.
type entryKey struct{}

func newEntry(records []*kgo.Record, bytes int64) *entry {
	e := &entry{records: records, bytes: bytes, answer: make(chan error, 1)}
	ctx := context.WithValue(context.Background(), entryKey{}, e)
	for _, r := range records {
		r.Context = ctx //nolint:fatcontext // every record has the same
	}
	return e
}

// group is a transaction and the batches in it.
type group struct {
	window  *window
	acks    *acks
	explain func(topic string, err error) error
	id      int32
	tx      opened
	// records is how many are committed.
	records int64

	// entries, handing and closed are guarded by groups.mu; entries are constant once closed.
	entries []*entry
	handing int  // writers that have not handed their records over yet
	closed  bool // nobody joins any more
	// handed is closed once it is closed and nobody is handing over.
	handed chan struct{}

	// life ends with the first failure, or stop.
	life context.Context
	end  context.CancelFunc

	mu    sync.Mutex
	cause error // of the first failure
	// left counts the records that have no answer of the broker, and one for the group itself until all are handed over;
	// quiet is closed when it comes to nothing.
	left  atomic.Int64
	quiet chan struct{}
}

// errStopped is the cause of a group that was stopped without a failure.
var errStopped = errors.New("the transaction was given up")

func newGroup(l ledger, id int32, w *window, a *acks, explain func(string, error) error) *group {
	g := &group{window: w, acks: a, explain: explain, id: id, handed: make(chan struct{}), quiet: make(chan struct{})}
	g.life, g.end = context.WithCancel(context.Background())
	g.left.Store(1)
	g.tx = l.begin(id, g.acked)
	return g
}

// hand hands a batch's records to the client, all or none. It returns an error only where ctx has ended before.
func (g *group) hand(ctx context.Context, e *entry) error {
	e.produced = false
	if err := g.ready(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		g.fail(err, nil, "")
		return nil
	}
	ok, err := g.window.reserve(ctx, g.life.Done(), len(e.records), e.bytes)
	if err != nil || !ok {
		return err
	}
	e.produced = true
	g.left.Add(int64(len(e.records)))
	g.tx.Produce(e.records)
	return nil
}

// ready waits until the transaction may be produced to, until ctx ends or the group has failed.
func (g *group) ready(ctx context.Context) error {
	if err := g.tx.Ready(ended); !errors.Is(err, context.Canceled) {
		return err // all writers but the first find it so, and need no context of their own
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.life, cancel)()
	return g.tx.Ready(ctx)
}

// ended is a context for a look without waiting.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// acked is the promise of every record. The client calls it in one goroutine at a time.
func (g *group) acked(r *kgo.Record, err error) {
	size := userSize(r)
	g.window.release(size)
	g.acks.count(size, err)
	if err != nil {
		e, _ := r.Context.Value(entryKey{}).(*entry)
		g.fail(err, e, r.Topic)
	}
	g.settled()
}

func (g *group) settled() {
	if g.left.Add(-1) == 0 {
		close(g.quiet)
	}
}

// fail takes a failure of the group, and of the batch and topic it came from where they are known. What comes after stop
// is a consequence.
func (g *group) fail(err error, e *entry, topic string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if errors.Is(g.cause, errStopped) || g.cause != nil && errors.Is(err, kgo.ErrClientClosed) {
		return
	}
	if e != nil && e.refused == nil && refusesRecord(err) {
		e.refused = g.explain(topic, err)
	}
	if g.cause == nil {
		g.cause = err
		g.end()
	}
}

// failure is the cause of the first failure, or nil.
func (g *group) failure() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cause
}

// refusedOnes are the batches of which the broker has refused a record.
func (g *group) refusedOnes() map[*entry]error {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := map[*entry]error{}
	for _, e := range g.entries {
		if e.refused != nil {
			out[e] = e.refused
			e.refused = nil
		}
	}
	return out
}

// isRefused tells whether the broker has refused a record of any batch.
func (g *group) isRefused() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range g.entries {
		if e.refused != nil {
			return true
		}
	}
	return false
}

// errSlow is the cause of a group whose records were not acknowledged for long.
var errSlow = errors.New("the broker has not acknowledged its records for long")

// flush waits until the broker has acknowledged every record, a failure, or the end of ctx. A client whose broker died
// in the middle of a transaction may not get through until that times out, so it is given up on after patience: nothing
// of it was asked to commit.
func (g *group) flush(ctx context.Context, patience time.Duration) {
	timer := time.AfterFunc(patience, func() { g.fail(errSlow, nil, "") })
	defer timer.Stop()
	select {
	case <-g.handed:
	case <-g.life.Done():
		return
	case <-ctx.Done():
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.life, cancel)()
	if err := g.tx.Flush(ctx); err != nil && ctx.Err() == nil {
		g.fail(err, nil, "")
	}
}

// stop closes the client without sending anything, and returns once no record of the group is on its way any more: they
// may be written again.
func (g *group) stop() {
	g.fail(errStopped, nil, "")
	g.tx.Close() // ends whoever waits for a broker in it
	<-g.handed
	g.settled()
	<-g.quiet
}

// refusesRecord tells whether an error of a record says that the broker will never take this record, so that its batch is to
// be found and handed back. What can have to do with the transaction, with the connection or with the state of the
// cluster is none.
func refusesRecord(err error) bool {
	for _, e := range []*kerr.Error{
		kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping, kerr.InvalidTxnState,
		kerr.TransactionAbortable, kerr.OutOfOrderSequenceNumber, kerr.DuplicateSequenceNumber, kerr.UnknownProducerID,
		kerr.TransactionalIDAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed,
		kerr.TransactionCoordinatorFenced, kerr.UnknownServerError,
	} {
		if errors.Is(err, e) {
			return false
		}
	}
	// The client asks for a topic several times before it says so.
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return true
	}
	switch kafkaclient.Classify(err) {
	case kafkaclient.ClassFatal, kafkaclient.ClassAuthorisation:
		return true
	}
	return false
}

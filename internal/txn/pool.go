package txn

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// PoolConfig is what a Pool is made of.
type PoolConfig struct {
	Broker *Broker
	// Sink is the key of the sink's declaration, for committables.
	Sink string
	// Pool names the ids.
	Pool     checkpoint.Pool
	Timeouts Timeouts
	// Topics are those that are known beforehand.
	Topics []string
	// Client are the options of every id's client: connection and producing. Id and timeout are added.
	Client []kgo.Opt
	Log    *slog.Logger
}

// Pool holds the clients of one sink's transactional ids. Which id is free is the coordinator's business; a Pool does
// with an id what it is told. Its methods may be called by several goroutines at a time.
type Pool struct {
	cfg PoolConfig

	// ctx ends with Close: nothing is sent for any id afterwards.
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // the goroutines that begin transactions

	// building is held while a client is made: the options hold slices that NewClient writes to.
	building sync.Mutex

	mu      sync.Mutex
	timeout time.Duration          // that ids are initialised with
	taken   map[int32]*Transaction // begun or sealed, by id
	idle    map[int32]*client      // whose last EndTransaction returned nil, by id
	// owned is what this process owns an id as, as far as it knows; began is when the transaction that is open or sealed
	// on it began.
	owned map[int32]owner
	began map[int32]time.Time
	// asking are the initialisations of clients that have not told what they own their id as.
	asking map[int32]*requestCount
	turns  map[int32]chan struct{} // to initialise an id
	// written are the ids whose transactions may have left something open, known the topics they may have done so on.
	written map[int32]bool
	known   map[string]bool
	closed  bool
}

// NewPool returns a pool without any client.
func NewPool(cfg PoolConfig) *Pool {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Pool{
		cfg: cfg, ctx: ctx, cancel: cancel, timeout: cfg.Timeouts.Candidates[0],
		taken: map[int32]*Transaction{}, idle: map[int32]*client{},
		owned: map[int32]owner{}, began: map[int32]time.Time{}, asking: map[int32]*requestCount{},
		turns: map[int32]chan struct{}{}, written: map[int32]bool{}, known: map[string]bool{},
	}
	p.Know(cfg.Topics...)
	return p
}

// Know tells of topics that the ids have written to.
func (p *Pool) Know(topics ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range topics {
		p.known[t] = true
	}
}

func (p *Pool) topics() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.known))
}

// wrote tells whether a transaction of the id may have left something open, cleaned that none has.
func (p *Pool) wrote(id int32) bool { p.mu.Lock(); defer p.mu.Unlock(); return p.written[id] }
func (p *Pool) cleaned(id int32)    { p.mu.Lock(); defer p.mu.Unlock(); delete(p.written, id) }

// Init initialises every id of the pools, those of an old prefix or size included, and returns the transaction timeout
// that the broker accepted. See Broker.Init for before.
func (p *Pool) Init(ctx context.Context, pools []checkpoint.Pool, before Standing) (time.Duration, error) {
	ctx, cancel := p.bound(ctx)
	defer cancel()
	accepted, owned, err := p.cfg.Broker.takeOver(ctx, IDs(pools), p.topics(), p.cfg.Timeouts, before)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timeout = accepted
	for id := range p.cfg.Pool.Size {
		if as, ok := owned[ID(p.cfg.Pool, id)]; ok {
			p.owned[id] = as
		}
	}
	return accepted, nil
}

// closeTransaction notes that no transaction of ours is open on the id, so that no timeout explains a raised epoch.
func (p *Pool) closeTransaction(id int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.began, id)
}

// Holds tells whether a transaction of the id has records, and has not been committed.
func (p *Pool) Holds(id int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, began := p.began[id]
	return began
}

// own notes what an id is owned as.
func (p *Pool) own(id int32, as owner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owned[id] = as
	delete(p.asking, id)
}

// Begin returns the transaction that records of a free id go to. It sends nothing: the id is initialised when the first
// record needs it, unless a client of the id was kept. done is told of every record that was acknowledged or failed, by
// one goroutine at a time, and must not block.
func (p *Pool) Begin(id int32, done func(*kgo.Record, error)) *Transaction {
	t := newTransaction(p, id, done)
	p.mu.Lock()
	before := p.taken[id]
	p.taken[id] = t
	closed := p.closed
	p.mu.Unlock()
	if before != nil {
		before.Close() // it was aborted, or never held a record; as a rule it is closed already
	}
	if closed {
		t.Close()
	}
	return t
}

// Commit commits a sealed transaction and returns a definite verdict: by its own client where that is alive, else, and
// after any error of the client, by raw EndTxn.
func (p *Pool) Commit(ctx context.Context, c checkpoint.Committable) (checkpoint.Verdict, error) {
	ctx, cancel := p.bound(ctx)
	defer cancel()
	if t := p.takeSealed(c); t != nil {
		complete, err := t.end(ctx)
		if err == nil {
			p.closeTransaction(t.id)
			if complete {
				p.cleaned(t.id)
				return checkpoint.Committed, nil
			}
			return checkpoint.Committed, p.mend(ctx, t.id)
		}
		if p.ctx.Err() != nil {
			return 0, fmt.Errorf("committing transaction of id %q: %w", c.TransactionalID, ErrClosed)
		}
		p.cfg.Log.Warn("the transaction's own client could not end it; asking the coordinator",
			"transactional_id", c.TransactionalID, "cause", err.Error())
	}
	verdict, err := p.cfg.Broker.Commit(ctx, c)
	if err != nil || verdict != checkpoint.Committed {
		// One that was aborted by its timeout goes on to explain where its id stands, until the id is initialised again.
		return verdict, err
	}
	for id := range p.cfg.Pool.Size {
		if ID(p.cfg.Pool, id) == c.TransactionalID {
			p.closeTransaction(id)
			err = p.mend(ctx, id)
		}
	}
	return verdict, err
}

// mend shows what a transaction of the id that was committed has left open. In a recovery Init does.
func (p *Pool) mend(ctx context.Context, id int32) error {
	if err := p.cfg.Broker.mend(ctx, p.mending(id)); err != nil {
		return fmt.Errorf("completing the commit of transactional id %q: %w", ID(p.cfg.Pool, id), err)
	}
	p.cleaned(id)
	return nil
}

// mending is what there may be to mend of an id of ours: nothing where it was not written to.
func (p *Pool) mending(id int32) mending {
	m := mending{ids: []string{ID(p.cfg.Pool, id)}, blind: true}
	if p.wrote(id) {
		m.topics = p.topics()
	}
	return m
}

// takeSealed takes the living transaction of a committable out of the pool.
func (p *Pool) takeSealed(c checkpoint.Committable) *Transaction {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, t := range p.taken {
		if t.name == c.TransactionalID && t.isSealedAs(c) {
			delete(p.taken, id)
			return t
		}
	}
	return nil
}

// keep puts a client whose EndTransaction returned nil aside for its id's next transaction.
func (p *Pool) keep(id int32, cl *client) {
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.idle[id] = cl
	}
	p.mu.Unlock()
	if closed {
		cl.Close()
	}
}

// client returns the kept client of an id, else a new one. A new client initialises the id whoever owns it, so before
// that the id is initialised as its owner: a process that has slept while another took its ids over ends here.
func (p *Pool) client(ctx context.Context, t *Transaction) (*client, error) {
	id := t.id
	p.mu.Lock()
	cl, timeout, closed := p.idle[id], p.timeout, p.closed
	delete(p.idle, id)
	p.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	if cl != nil {
		return cl, nil
	}
	sent := &requestCount{}
	opts := p.cfg.Client
	p.building.Lock()
	made, err := kgo.NewClient(append(opts[:len(opts):len(opts)],
		kgo.TransactionalID(ID(p.cfg.Pool, id)),
		kgo.TransactionTimeout(timeout),
		kgo.WithHooks(sent),
		kgo.DisableClientMetrics(), // Close would wait up to a second for a last push
	)...)
	p.building.Unlock()
	if err != nil {
		return nil, fmt.Errorf("creating Kafka client for transactional id %q: %w", ID(p.cfg.Pool, id), err)
	}
	greet(ctx, made, ID(p.cfg.Pool, id))
	if err := p.reinit(ctx, id, t.isClosed); err != nil {
		made.Close()
		return nil, err
	}
	p.mu.Lock()
	p.asking[id] = sent
	p.mu.Unlock()
	return &client{made, sent}, nil
}

// Abort closes the id's client, which unblocks a blocked produce, and initialises the id, which aborts what was open in
// it. There is no other way: waiting for buffered records can hang on a silent broker, and after a plain EndTxn(abort)
// a late produce would open a transaction that hangs.
func (p *Pool) Abort(ctx context.Context, id int32) error {
	p.mu.Lock()
	t, cl := p.taken[id], p.idle[id]
	delete(p.taken, id)
	delete(p.idle, id)
	p.mu.Unlock()
	if t != nil {
		t.Close()
	}
	if cl != nil {
		cl.Close()
	}
	ctx, cancel := p.bound(ctx)
	defer cancel()
	return p.reinit(ctx, id, func() bool { return false })
}

// Close closes every client and ends no transaction: what is sealed stays sealed for the next process, what is open is
// aborted by its initialisation or by its timeout. It waits for the goroutines of the pool.
func (p *Pool) Close() {
	p.cancel()
	p.mu.Lock()
	p.closed = true
	taken, idle := p.taken, p.idle
	p.taken, p.idle = map[int32]*Transaction{}, map[int32]*client{}
	p.mu.Unlock()
	for _, t := range taken {
		t.Close()
	}
	for _, cl := range idle {
		cl.Close()
	}
	p.wg.Wait()
}

// bound ends a context with the pool.
func (p *Pool) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(p.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

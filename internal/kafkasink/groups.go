package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// UnsettledError says that nobody knows, or is going to tell, whether a batch was written. Its sender must be told
// neither that it was nor that it was not.
type UnsettledError struct{ Err error }

func (e *UnsettledError) Error() string {
	return fmt.Sprintf("whether the batch was written is not known: %v", e.Err)
}

func (e *UnsettledError) Unwrap() error { return e.Err }

// groups writes batches in transactions of their own, where no checkpoint decides when to commit: a batch joins the
// transaction that is open and is answered when that has committed (group commit).
//
// One goroutine, settler, ends transactions, one after the other and in the order in which they were opened. While it
// does, the next one takes writes. So at most two are under way, and the writes of a busy stream fill one while the
// broker commits the other.
type groups struct {
	ledger  ledger
	window  *window
	explain func(topic string, err error) error
	fatal   func(error)
	metrics Metrics
	acks    *acks
	pool    int // how many ids there are
	log     *slog.Logger

	// ctx ends with close, or when the settler has ended.
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	look   chan struct{} // capacity 1: the settler is to look again

	patience time.Duration // with the broker's acknowledgements; the settler's own

	mu     sync.Mutex
	gather gather
	free   []int32 // ids, the one that was used longest ago first
	open   *group  // that takes writes
	over   error   // why there are no writes any more
}

// idsForGroups is how many transactional ids groups need: one that takes writes, and one that is being ended.
const idsForGroups = 2

// newGroups returns groups over the ids of a pool, all of which are initialised.
func newGroups(s *Sink, l ledger) *groups {
	ctx, cancel := context.WithCancel(context.Background())
	w := &groups{
		ledger: l, window: newWindow(s.cfg.MaxBufferedRecords, s.cfg.MaxBufferedBytes),
		explain: s.sendError, fatal: s.cfg.Seat.Fatal, metrics: s.cfg.Metrics, acks: &s.acks, pool: int(s.cfg.Pool.Size), log: s.cfg.Log,
		ctx: ctx, cancel: cancel, look: make(chan struct{}, 1), patience: shortestPatience, gather: newGather(s.cfg),
	}
	for id := range s.cfg.Pool.Size {
		w.free = append(w.free, id)
	}
	w.wg.Go(w.settler)
	return w
}

// write joins the open transaction and waits until its outcome is definite. It returns nil where the batch is
// committed, an *UnsettledError where ctx or the sink has ended before the outcome was known, and any other error where
// the batch is certainly not there.
func (w *groups) write(ctx context.Context, records []*kgo.Record, bytes int64) error {
	if len(records) == 0 {
		return nil
	}
	e, g, err := w.join(records, bytes)
	if err != nil {
		return err
	}
	if err := g.hand(ctx, e); err != nil {
		w.giveUp(e) // before anybody can take it for handed over, and commit a transaction that it is not in
		w.handedOver(g)
		return &UnsettledError{err}
	}
	w.handedOver(g)
	select {
	case err := <-e.answer:
		return err
	case <-ctx.Done():
	}
	w.giveUp(e)
	select {
	case err := <-e.answer: // it was faster
		return err
	default:
		return &UnsettledError{ctx.Err()}
	}
}

func (w *groups) join(records []*kgo.Record, bytes int64) (*entry, *group, error) {
	e := newEntry(records, bytes)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over != nil {
		return nil, nil, w.over
	}
	if w.open == nil {
		w.open = w.begin()
	}
	g := w.open
	g.entries = append(g.entries, e)
	g.handing++
	if w.gather.join(time.Now(), len(records), bytes) {
		w.wake()
	}
	return e, g, nil
}

// begin begins a group on the next id. w.mu is held. There is one: see groups.
func (w *groups) begin() *group {
	id := w.free[0]
	w.free = w.free[1:]
	return newGroup(w.ledger, id, w.window, w.acks, w.explain)
}

// release gives an id back whose transaction has ended for certain.
func (w *groups) release(id int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free = append(w.free, id)
}

func (w *groups) handedOver(g *group) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g.handing--; g.handing == 0 && g.closed {
		close(g.handed)
	}
}

// giveUp takes that a batch's writer waits no more.
func (w *groups) giveUp(e *entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finish(e)
}

// finish tells whether a batch is still to be answered, and that it will not be again. w.mu is held.
func (w *groups) finish(e *entry) bool {
	if e.done {
		return false
	}
	e.done = true
	w.gather.answered()
	return true
}

// answer tells the writers of batches.
func (w *groups) answer(batches []*entry, err error) { w.answerCounted(batches, err, func(int) {}) }

// answerCounted is answer, with how many writers are still there to be told, before they are.
func (w *groups) answerCounted(batches []*entry, err error, count func(told int)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var waiting []*entry
	for _, e := range batches {
		if w.finish(e) {
			waiting = append(waiting, e)
		}
	}
	count(len(waiting))
	for _, e := range waiting {
		e.answer <- err
	}
}

func (w *groups) wake() {
	select {
	case w.look <- struct{}{}:
	default:
	}
}

// settler ends one transaction after the other.
func (w *groups) settler() {
	defer w.cancel()
	for {
		g := w.next()
		if g == nil {
			w.end(ErrClosed)
			return
		}
		if cause := w.settle(g); cause != nil {
			w.end(cause)
			return
		}
	}
}

// next waits until the open transaction is complete and closes it for writes. It returns nil when there are no more.
func (w *groups) next() *group {
	for {
		w.mu.Lock()
		wait, failed := w.gather.due(time.Now()), (<-chan struct{})(nil)
		if w.open != nil {
			failed = w.open.life.Done()
			if w.open.life.Err() != nil {
				wait = 0 // what joins it would have to be written again
			}
		}
		if wait == 0 {
			g := w.open
			w.open = nil
			w.gather.take()
			w.shut(g)
			w.mu.Unlock()
			return g
		}
		w.mu.Unlock()
		if !w.sleep(wait, failed) {
			return nil
		}
	}
}

// shut lets nobody join any more. w.mu is held.
func (w *groups) shut(g *group) {
	g.closed = true
	if g.handing == 0 {
		close(g.handed)
	}
}

// sleep waits until there may be something to do, d at most unless it is negative. It returns false at the end.
func (w *groups) sleep(d time.Duration, failed <-chan struct{}) bool {
	var after <-chan time.Time
	if d >= 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		after = timer.C
	}
	select {
	case <-after:
	case <-w.look:
	case <-failed:
	case <-w.ctx.Done():
	}
	return w.ctx.Err() == nil
}

// end ends all writing. What is in the open transaction is certainly not written, since that will never be committed;
// where the sink was closed, the end of the process tells its senders.
func (w *groups) end(cause error) {
	w.mu.Lock()
	w.over = cause
	g := w.open
	w.open = nil
	if g != nil {
		w.shut(g)
	}
	w.mu.Unlock()
	if g == nil {
		return
	}
	g.stop()
	if errors.Is(cause, ErrClosed) {
		cause = &UnsettledError{cause}
	}
	w.answer(g.entries, cause)
}

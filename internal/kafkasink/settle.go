package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/internal/killpoint"
)

// How long the broker is left alone before batches are written again.
const (
	shortestPause = 100 * time.Millisecond
	longestPause  = 10 * time.Second
)

// A transaction may wait so long for the broker's acknowledgements, the first time and after several.
const (
	shortestPatience = 15 * time.Second
	longestPatience  = 2 * time.Minute
)

// fate is what became of a transaction.
type fate uint8

const (
	// fateCommitted: all of it is there.
	fateCommitted fate = iota
	// fateAborted: nothing of it is there, and no batch of it is to blame.
	fateAborted
	// fateRefused: nothing of it is there, since the broker has refused a record.
	fateRefused
	// fateOver: no transaction will be written any more.
	fateOver
)

// settle ends a group and answers every batch of it, whatever it takes: what the broker has aborted is written again,
// and of what it refuses the one batch is looked for that is to blame. It returns why there is to be no more writing,
// or nil.
func (w *groups) settle(g *group) error {
	var todo [][]*entry // each to be written in a transaction of its own
	pause := time.Duration(0)
	for {
		what, cause := w.finishGroup(g)
		switch {
		case what == fateOver:
			w.answer(slices.Concat(todo...), cause)
			return cause
		case what == fateCommitted:
			w.answerCounted(g.entries, nil, g.committed(w.metrics))
			pause = 0
		case what == fateAborted:
			todo = slices.Insert(todo, 0, g.entries)
			pause = min(max(2*pause, shortestPause), longestPause)
		case len(g.entries) > 1:
			todo = slices.Insert(todo, 0, oneByOne(g)...)
			pause = 0
		default:
			w.answer(g.entries, g.refusedOnes()[g.entries[0]])
			// The culprit is found, so the others may go together. Should there be another one, it is looked for anew.
			todo = [][]*entry{slices.Concat(todo...)}
			pause = 0
		}
		g = nil
		for g == nil {
			if todo = slices.DeleteFunc(todo, func(batches []*entry) bool { return len(batches) == 0 }); len(todo) == 0 {
				return nil
			}
			if !w.pause(pause) {
				w.answer(slices.Concat(todo...), &UnsettledError{ErrClosed})
				return ErrClosed
			}
			g = w.again(todo[0])
			todo = todo[1:]
		}
	}
}

// oneByOne are the batches of a group each for itself, those first of which a record was refused: one of them is to
// blame as a rule, and the others were with it in one request.
func oneByOne(g *group) [][]*entry {
	suspects := g.refusedOnes()
	var first, then [][]*entry
	for _, e := range g.entries {
		if suspects[e] != nil {
			first = append(first, []*entry{e})
		} else {
			then = append(then, []*entry{e})
		}
	}
	return append(first, then...)
}

// pause leaves the broker alone for about d. It returns false at the end.
func (w *groups) pause(d time.Duration) bool {
	if d > 0 {
		timer := time.NewTimer(d + rand.N(d/4))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-w.ctx.Done():
		}
	}
	return w.ctx.Err() == nil
}

// again writes batches in a new transaction, but for those whose writers have gone. It returns nil where all have.
func (w *groups) again(batches []*entry) *group {
	w.mu.Lock()
	batches = slices.DeleteFunc(slices.Clone(batches), func(e *entry) bool { return e.done })
	if len(batches) == 0 {
		w.mu.Unlock()
		return nil
	}
	g := w.begin()
	g.entries = batches
	w.shut(g)
	w.mu.Unlock()
	for _, e := range batches {
		if g.hand(w.ctx, e) != nil {
			break // the end, which finishGroup finds too
		}
	}
	return g
}

// finishGroup commits a group, or aborts it where it has failed. It returns only when it is certain what became of it,
// or at the end, with the cause of what it returns.
func (w *groups) finishGroup(g *group) (fate, error) {
	g.flush(w.ctx, w.patience)
	if errors.Is(g.failure(), errSlow) {
		w.patience = min(2*w.patience, longestPatience) // it may be slow for good
	}
	if g.failure() == nil && w.ctx.Err() == nil {
		c, err := g.tx.Seal()
		switch {
		case err != nil:
			g.fail(err, nil, "")
		case c == nil: // everybody has gone before a record was sent
			w.release(g.id)
			return fateCommitted, nil
		default:
			return w.commit(g, *c)
		}
	}
	return w.abort(g)
}

// commit sends EndTxn for as long as its outcome is open.
func (w *groups) commit(g *group, c checkpoint.Committable) (fate, error) {
	killpoint.Hit("group", "before commit")
	began := time.Now()
	verdict, err := w.ledger.commit(w.ctx, c)
	killpoint.Hit("group", "after commit")
	switch {
	case err != nil && w.ctx.Err() != nil:
		return w.unsettled(g, ErrClosed)
	case err != nil:
		err = fmt.Errorf("committing a transaction: %w", err)
		w.fatal(err)
		return w.unsettled(g, err)
	case verdict == checkpoint.Committed:
		w.patience = shortestPatience
		w.release(g.id)
		g.records = c.Records
		w.metrics.Commit(time.Since(began))
		return fateCommitted, nil
	case verdict == checkpoint.Aborted:
		// The client is closed, and the id is initialised with its next transaction.
		w.release(g.id)
		w.rewrite(g, errors.New("it was still open after transactions.timeout"))
		return fateAborted, nil
	}
	err = &UnknownOutcomeError{TransactionalID: c.TransactionalID, Records: c.Records}
	w.fatal(err)
	return w.unsettled(g, err)
}

// unsettled ends all writing while nobody knows what became of a transaction.
func (w *groups) unsettled(g *group, cause error) (fate, error) {
	w.answer(g.entries, &UnsettledError{cause})
	return fateOver, cause
}

// abort makes sure that nothing of a group that has failed will ever be seen. Its transaction was never asked to commit,
// so that is certain even where another owner has taken the id.
func (w *groups) abort(g *group) (fate, error) {
	cause := g.failure()
	g.stop()
	if w.ctx.Err() != nil {
		return w.unsettled(g, ErrClosed)
	}
	if other := g.tx.Diagnose(w.ctx, cause); other != nil {
		return w.refused(g, other)
	}
	if final(cause) || !g.isRefused() && kafkaclient.Classify(cause) == kafkaclient.ClassAuthorisation {
		return w.refused(g, cause) // rule 13
	}
	if err := w.ledger.abort(w.ctx, g.id); err != nil {
		return w.refused(g, err)
	}
	w.release(g.id)
	w.rewrite(g, cause)
	if g.isRefused() {
		return fateRefused, cause
	}
	return fateAborted, cause
}

// refused ends all writing for a reason that nothing heals.
func (w *groups) refused(g *group, cause error) (fate, error) {
	if w.ctx.Err() != nil || errors.Is(cause, context.Canceled) {
		return w.unsettled(g, ErrClosed)
	}
	w.fatal(cause)
	w.answer(g.entries, cause)
	return fateOver, cause
}

// rewrite notes that a transaction was aborted.
func (w *groups) rewrite(g *group, cause error) {
	w.metrics.Aborted()
	w.log.Warn("a transaction was aborted; what is in it is written again", "batches", len(g.entries), "cause", cause.Error())
}

// UnknownOutcomeError says that the broker cannot tell any more what became of a transaction.
type UnknownOutcomeError struct {
	TransactionalID string
	Records         int64
}

func (e *UnknownOutcomeError) Error() string {
	return fmt.Sprintf("whether a transaction of id %q with %d records was committed is not known: the broker does not tell, "+
		"since the id was initialised by another owner, or has expired, while the answer to its EndTxn was lost. The senders "+
		"of these records were told nothing. Make sure that no other process or sink uses the same "+
		"`transactional_id_prefix` and `index`, and start again; what is sent again may be there twice",
		e.TransactionalID, e.Records)
}

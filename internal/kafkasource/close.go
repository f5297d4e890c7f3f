package kafkasource

import (
	"context"
	"fmt"
	"time"
)

// hardStopGrace is how long Close looks for signs of a hard stop while a batch is not acknowledged. At a hard stop the
// engine first lets go of the acknowledgements it waits for, and only then, in another goroutine, ends the context that
// acknowledgements come with: for a moment a hard stop looks like a soft one.
const hardStopGrace = 100 * time.Millisecond

// Close ends the source: softly, with a last checkpoint, where everything that was emitted is accounted for, and hard
// where it is not. The engine calls it once it has all the acknowledgements it waits for, with the output still alive.
func (r *Reader) Close(ctx context.Context) error {
	soft := r.stopEmitting()
	err := r.leave(ctx, soft)

	r.mu.Lock()
	if r.att != nil {
		r.att.halt(&r.background)
	}
	r.stop()
	r.bump()
	r.mu.Unlock()
	r.background.Wait()
	if r.admin != nil {
		r.admin.Close()
	}
	return err
}

// stopEmitting tells whether the stop is a soft one.
func (r *Reader) stopEmitting() (soft bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closing = true
	r.bump()
	a, ackCtx := r.att, r.ackCtx
	if r.cfg.ClosedHard != "" {
		// The context of acknowledgements says nothing then. An acknowledgement that has not come will not come; the
		// batch that nobody has taken needs none.
		if e := r.last; e != nil && !r.taken && !e.settled && e.att == a {
			e.forget()
			r.bump()
		}
		return a == nil || a.inFlight == 0
	}
	if ackCtx != nil && ackCtx.Err() != nil {
		return false
	}
	if a == nil || a.inFlight == 0 {
		return true
	}
	// On a soft stop the engine drops the batch that Next returned last, if no stage has taken it yet; its
	// acknowledgement never comes. Anything else that is not acknowledged may have been delivered, or not.
	last := r.last
	if a.inFlight > 1 || last == nil || last.att != a || last.settled || ackCtx == nil && r.taken {
		return false
	}
	if ackCtx == nil { // it is the first of all
		last.forget()
		r.bump()
		return true
	}
	r.mu.Unlock()
	t := time.NewTimer(hardStopGrace)
	select {
	case <-ackCtx.Done():
	case <-t.C:
	}
	t.Stop()
	r.mu.Lock()
	if ackCtx.Err() != nil {
		return false
	}
	if !last.settled {
		last.forget()
		r.bump()
	}
	return true
}

// leave ends the source's part in the stream. A hard stop may come while the last checkpoint runs.
func (r *Reader) leave(ctx context.Context, soft bool) error {
	if !soft {
		if by := r.cfg.ClosedHard; by != "" {
			r.seat.Fatal(fmt.Errorf("%s has ended its input before every acknowledgement was back, which it does not wait for, "+
				"so there was no last checkpoint: nothing is lost, the next start goes on from the one before. Few are missing "+
				"with pipeline.threads 1, max_in_flight 1 and no batching behind it; an idle_timeout has to be longer than the "+
				"slowest batch takes", by))
		}
		return r.seat.Close(ctx, true)
	}
	r.mu.Lock()
	ackCtx := r.ackCtx
	r.mu.Unlock()
	if ackCtx == nil || r.cfg.ClosedHard != "" {
		return r.seat.Close(ctx, false)
	}
	softCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ackCtx, cancel)()
	err := r.seat.Close(softCtx, false)
	if err != nil && ackCtx.Err() != nil {
		return r.seat.Close(ctx, true)
	}
	return err
}

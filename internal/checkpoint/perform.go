package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/killpoint"
)

// handle gives the Machine an event and begins what it asks for, in order.
func (r *run) handle(ev Event) {
	killpoint.Hit(r.m.phase, "event", ev)
	for _, a := range slices.Clone(r.m.Step(ev)) {
		killpoint.Hit(r.m.phase, "action", a)
		r.observe(a)
		r.perform(a)
	}
	r.stream.mu.Lock()
	r.stream.lastAttempt = max(r.stream.lastAttempt, r.m.attempt)
	r.stream.mu.Unlock()
}

func (r *run) seatOf(key string) *Seat {
	// The newest seat of a key is the one that is joined: a late source has the key of one that left.
	seats := r.seats()
	for i := len(seats) - 1; i >= 0; i-- {
		if seats[i].key == key {
			return seats[i]
		}
	}
	return nil
}

func (r *run) tag(attempt uint64) Tag { return Tag{Stream: r.stream, Attempt: attempt} }

// perform begins one action. What may block runs in a goroutine of its own and answers with an event.
func (r *run) perform(a Action) {
	switch a := a.(type) {
	case Verify:
		r.verify(a)
	case Commit:
		r.ask(r.ctx, func(ctx context.Context) (Event, error) {
			began := time.Now()
			done, err := r.commit(ctx, a)
			if err == nil {
				r.stream.opts.Metrics.Time(metricCommit, time.Since(began))
			}
			r.countVerdicts(done.Verdicts)
			return done, err
		}, r.broken)
	case Resolve:
		src := r.seatOf(a.Source).asSource
		r.ask(r.ctx, func(ctx context.Context) (Event, error) {
			st, err := src.Resolve(ctx, a.Restored)
			st.Source = a.Source
			return Resolved{State: st}, err
		}, r.broken)
	case Write:
		r.writeRecord(a)
	case InitIDs:
		sink := r.seatOf(a.Sink).asSink
		r.ask(r.ctx, func(ctx context.Context) (Event, error) {
			return IDsReady{Sink: a.Sink}, sink.InitIDs(ctx, a.Pools)
		}, r.broken)
	case Abort:
		sink := r.seatOf(a.Sink).asSink
		r.ask(r.ctx, func(ctx context.Context) (Event, error) {
			return AbortDone{Sink: a.Sink, ID: a.ID}, sink.Abort(ctx, a.ID)
		}, r.broken)
	case Halt:
		r.halt(a)
	case Pause, Flush, Seal, CancelBarrier:
		r.performBarrier(a)
	case StartSource, StartSink, Open, Resume, Finish:
		r.performStart(a)
	case CommitOffsets:
		r.offsets.commit(r, a)
	case CloseDone:
		r.closeDone(a)
	case SetTimer:
		r.setTimer(a.Timer, a.After)
	case StopTimer:
		if t := r.timers[a.Timer]; t != nil {
			t.Stop()
			delete(r.timers, a.Timer)
		}
	case Report:
		r.report(a)
	case Die:
		r.die(a.Cause)
	}
}

// ask runs one request; its error, unless the context has ended, goes to failed.
func (r *run) ask(ctx context.Context, request func(context.Context) (Event, error), failed func(error)) {
	r.work.Add(1)
	go func() {
		defer r.work.Done()
		ev, err := request(ctx)
		switch {
		case err == nil:
			r.post(ev)
		case ctx.Err() == nil:
			failed(err)
		}
	}()
}

// broken reports what nothing heals. At a stop that is forced the engine closes the outputs under what they do, and what
// fails then is a consequence.
func (r *run) broken(err error) {
	if slices.ContainsFunc(r.seats(), func(s *Seat) bool { return s.sink != nil && r.hasLeft(s) }) {
		err = fmt.Errorf("%w: an output was closed while it was at work: %w", errNoLast, err)
	}
	r.post(Broken{Cause: err})
}

func (r *run) verify(a Verify) {
	seat := r.seatOf(a.Key)
	r.ask(r.ctx, func(ctx context.Context) (Event, error) {
		if a.Source != nil {
			return Verified{Key: a.Key}, seat.asSource.Verify(ctx, *a.Source)
		}
		return Verified{Key: a.Key}, seat.asSink.Verify(ctx, *a.Sink, a.Committables)
	}, r.broken)
}

// commit finds the verdict of each committable. Where there are several, all are described first: while one of them is
// lost and none is committed, the checkpoint can still be replayed as a whole.
func (r *run) commit(ctx context.Context, a Commit) (CommitDone, error) {
	verdicts := make([]Verdict, len(a.Committables))
	if len(a.Committables) > 1 && !a.Each {
		lost := false
		for i, c := range a.Committables {
			v, err := r.seatOf(c.Sink).asSink.Describe(ctx, c)
			if err != nil {
				return CommitDone{}, fmt.Errorf("describing transaction %s: %w", c.TransactionalID, err)
			}
			if verdicts[i] = v; v == 0 {
				verdicts[i] = NotTried
			}
			lost = lost || v == Aborted || v == Unknown
		}
		if lost {
			return CommitDone{Checkpoint: a.Checkpoint, Verdicts: verdicts}, nil
		}
	}
	for i, c := range a.Committables {
		v, err := r.seatOf(c.Sink).asSink.Commit(ctx, c)
		if err != nil {
			return CommitDone{}, fmt.Errorf("committing transaction %s: %w", c.TransactionalID, err)
		}
		verdicts[i] = v
	}
	return CommitDone{Checkpoint: a.Checkpoint, Verdicts: verdicts}, nil
}

// writeRecord is not bound to the run's context: a write that has begun ends, one way or the other.
func (r *run) writeRecord(a Write) {
	rec := *a.Record
	rec.WrittenUnixMs = time.Now().UnixMilli()
	r.work.Add(1)
	go func() {
		defer r.work.Done()
		data := EncodeRecord(&rec)
		r.stream.opts.Metrics.Gauge(metricRecordBytes, int64(len(data)))
		began := time.Now()
		err := r.store.Put(context.WithoutCancel(r.ctx), rec.Number, data)
		r.stream.opts.Metrics.Time(metricWrite, time.Since(began))
		done := WriteDone{Number: rec.Number, Outcome: Durable, Cause: err}
		switch {
		case errors.Is(err, ErrNotWritten):
			done.Outcome = NotWritten
		case err != nil:
			done.Outcome = OutcomeUnknown
		}
		r.post(done)
	}()
}

func (r *run) halt(a Halt) {
	seat := r.seatOf(a.Key)
	r.ask(r.ctx, func(ctx context.Context) (Event, error) {
		done := Halted{Attempt: a.Attempt, Key: a.Key}
		if seat.asSource != nil {
			return done, seat.asSource.Halt(ctx)
		}
		return done, seat.asSink.Halt(ctx)
	}, r.broken)
}

func (r *run) performBarrier(a Action) {
	attempt := r.m.attempt
	switch a := a.(type) {
	case Pause:
		src := r.seatOf(a.Source).asSource
		r.pauses.Add(1)
		r.ask(r.barrierCtx, func(ctx context.Context) (Event, error) {
			defer r.pauses.Done()
			began := time.Now()
			st, err := src.Pause(ctx)
			if err == nil {
				r.stream.opts.Metrics.Time(metricDrain, time.Since(began))
			}
			st.Source = a.Source
			return Drained{Checkpoint: a.Checkpoint, State: st}, err
		}, func(err error) { r.failed(attempt, ReasonInput, fmt.Errorf("%s: %w", a.Source, err)) })
	case Flush:
		sink := r.seatOf(a.Sink).asSink
		r.ask(r.barrierCtx, func(ctx context.Context) (Event, error) {
			return Flushed{Checkpoint: a.Checkpoint, Sink: a.Sink}, sink.Flush(ctx)
		}, func(err error) { r.failed(attempt, ReasonOutput, fmt.Errorf("%s: %w", a.Sink, err)) })
	case Seal:
		c, err := r.seatOf(a.Sink).asSink.Seal(a.Next)
		if err != nil {
			r.failed(attempt, ReasonOutput, fmt.Errorf("%s: %w", a.Sink, err))
			return
		}
		if c != nil {
			c.Sink = a.Sink
		}
		r.handle(Sealed{Checkpoint: a.Checkpoint, Sink: a.Sink, Committable: c})
	case CancelBarrier:
		r.cancelBarrier()
		// Race: a Pause whose goroutine runs only after the Resume that follows would silence its source until the next
		// barrier. A Pause whose context has ended returns at once.
		r.pauses.Wait()
		r.barrierCtx, r.cancelBarrier = context.WithCancel(r.ctx)
	}
}

func (r *run) performStart(a Action) {
	switch a := a.(type) {
	case StartSource:
		r.stream.leaves(errNoLast)
		seat := r.seatOf(a.State.Source)
		seat.asSource.Start(r.tag(a.Attempt), a.State)
		seat.start()
		r.announceLate(seat)
	case StartSink:
		seat := r.seatOf(a.Sink)
		seat.asSink.Start(r.tag(a.Attempt), a.ID)
		seat.start()
	case Open:
		r.seatOf(a.Sink).asSink.Open(a.ID)
	case Resume:
		r.seatOf(a.Source).asSource.Resume()
	case Finish:
		r.seatOf(a.Source).asSource.Finish()
	}
}

// closeDone lets a source's Close return once its offsets are in the consumer group, which is waited for only so long.
func (r *run) closeDone(a CloseDone) {
	seat := r.seatOf(a.Source)
	if !r.m.alive() {
		seat.end()
		return
	}
	r.work.Add(1)
	go func() {
		defer r.work.Done()
		defer seat.end()
		r.offsets.wait(offsetCommitWait)
	}()
}

// deleteRecords is checkpoint.on_stop: delete. It waits until every component has left, since a source that ends may be
// followed by another one, and holds only when nothing is left that a record would be needed for.
func (r *run) deleteRecords() {
	if !errors.Is(context.Cause(r.ctx), ErrLeft) || !r.cfg.DeleteOnStop || !r.m.alive() || !r.m.released() || len(r.m.known.Entries) > 0 {
		return
	}
	log := r.stream.opts.Logger
	if !r.offsets.wait(offsetCommitWait) {
		log.Warn("checkpoint records are kept although checkpoint.on_stop is delete: the last positions could not be " +
			"committed to the consumer group")
		return
	}
	if err := r.store.DeleteAll(context.Background()); err != nil {
		log.Error("deleting checkpoint records at the stop failed, the next start goes on from them", "err", err)
	}
}

// offsetCommits sends positions to the consumer groups one after another; of those that wait, the newest of each source.
type offsetCommits struct {
	mu      sync.Mutex
	busy    bool
	waiting *CommitOffsets
	failed  bool
	idle    chan struct{}
}

func (o *offsetCommits) commit(r *run, a CommitOffsets) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy {
		// Race: positions of one source that begins wait, and those of another come before they are sent.
		if o.waiting != nil {
			a.Positions = mergeInto(o.waiting.Positions, a.Positions)
		}
		o.waiting = &a
		return
	}
	o.busy, o.idle = true, make(chan struct{})
	r.work.Add(1)
	go func() {
		defer r.work.Done()
		for next := &a; next != nil; next = o.next() {
			o.send(r, next)
		}
	}()
}

// next returns what has come meanwhile, or nil after noting that the sender is idle.
func (o *offsetCommits) next() *CommitOffsets {
	o.mu.Lock()
	defer o.mu.Unlock()
	next := o.waiting
	o.waiting = nil
	if next == nil {
		o.busy = false
		close(o.idle)
	}
	return next
}

func (o *offsetCommits) send(r *run, a *CommitOffsets) {
	failed := false
	for _, st := range a.Positions {
		seat := r.seatOf(st.Source)
		if seat == nil || seat.asSource == nil || r.hasLeft(seat) {
			continue // A component that the config no longer has, or one that has ended: its last position is in the group.
		}
		if err := seat.asSource.CommitOffsets(r.ctx, st); err != nil {
			failed = true
			r.stream.opts.Logger.Warn("committing offsets to the consumer group failed; they are for monitoring only, "+
				"and the next checkpoint commits newer ones", "source", st.Source, "checkpoint", a.Checkpoint, "err", err)
		}
	}
	o.mu.Lock()
	o.failed = failed
	o.mu.Unlock()
}

func (r *run) hasLeft(s *Seat) bool {
	r.stream.mu.Lock()
	defer r.stream.mu.Unlock()
	return s.left
}

// wait waits until nothing is under way and tells whether the newest positions have arrived.
func (o *offsetCommits) wait(limit time.Duration) bool {
	o.mu.Lock()
	idle := o.idle
	o.mu.Unlock()
	if idle == nil {
		return true
	}
	select {
	case <-idle:
	case <-time.After(limit):
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.failed
}

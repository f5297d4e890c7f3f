package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// eventBound is far above what can be under way: each component has at most a few answers outstanding.
	eventBound = 1024
	// offsetCommitWait bounds how long a stop waits for the consumer group, which is for monitoring only.
	offsetCommitWait = 10 * time.Second
)

// run is one incarnation: a Machine with its goroutine, clock and store.
type run struct {
	stream *Stream
	build  *build
	cfg    Config
	store  Store
	m      *Machine

	// ctx ends with ErrLeft where every component has left.
	ctx    context.Context
	cancel context.CancelCauseFunc
	events chan any
	// begun is closed when the Machine is there, ended when the loop has ended; work counts what the loop has started.
	begun, ended chan struct{}
	work         sync.WaitGroup

	timers        map[Timer]*time.Timer
	barrierCtx    context.Context
	cancelBarrier context.CancelFunc
	pauses        sync.WaitGroup

	failMu        sync.Mutex
	failedAttempt uint64

	offsets offsetCommits
	gauges  gauges
	pulse   *pulse
	// restored is the record that the run began with, nil for none; announced are the components that the log has said are
	// running, nil before the first attempt. The loop's own.
	restored  *Record
	announced map[*Seat]bool
}

// fired is the event of a timer before the loop has checked that the timer was not stopped or set anew meanwhile.
type fired struct {
	timer Timer
	of    *time.Timer
}

func newRun(s *Stream, b *build, cfg Config) *run {
	r := &run{
		stream: s, build: b, cfg: cfg, events: make(chan any, eventBound), begun: make(chan struct{}), ended: make(chan struct{}),
		timers: map[Timer]*time.Timer{}, pulse: newPulse(),
	}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	r.barrierCtx, r.cancelBarrier = context.WithCancel(r.ctx)
	return r
}

// begin loads the newest record and starts the loop.
func (r *run) begin(attempt uint64) {
	go func() {
		defer close(r.ended)
		defer r.closeStore()
		defer r.work.Wait()
		defer r.cancel(nil)
		newest, highest, err := r.load()
		switch {
		case err != nil:
		case newest != nil:
			err = r.checkOvertaken(newest)
		case highest == 0 && !r.cfg.IgnoreMissingState && r.durable():
			err = r.checkTraces()
		}
		if err == nil && newest == nil && (r.cfg.IgnoreMissingState || !r.durable()) {
			r.forgetIDs()
		}
		if r.ctx.Err() != nil {
			return
		}
		if err != nil {
			r.die(err)
			return
		}
		r.m = r.machine(newest, attempt)
		r.m.nextRecord = max(r.m.nextRecord, highest+1)
		if r.stream.leaves(nil); newest != nil {
			r.stream.leaves(errUnrecovered)
		}
		close(r.begun)
		r.restored = newest
		r.gauges.restore(newest)
		zeroMetrics(r.stream.opts.Metrics)
		r.logRestored()
		if newest != nil {
			r.warnOfRemovedSinks(newest)
		}
		r.handle(Begin{})
		r.loop()
		r.work.Wait()
		r.deleteRecords()
	}()
}

func (r *run) machine(newest *Record, attempt uint64) *Machine {
	var sources []SourceSeat
	var sinks []SinkSeat
	for _, s := range r.seats() {
		if s.source != nil {
			sources = append(sources, SourceSeat{Key: s.key})
		} else {
			sinks = append(sinks, SinkSeat{Key: s.key, Pool: s.sink.Pool, OnLost: s.sink.OnLost})
		}
	}
	m := NewMachine(r.cfg, r.stream.opts.ID, sources, sinks, newest)
	m.attempt = attempt
	return m
}

func (r *run) seats() []*Seat {
	r.stream.mu.Lock()
	defer r.stream.mu.Unlock()
	return slices.Clone(r.build.seats)
}

// load returns the newest record, nil where there is none, and the highest number that was ever used.
func (r *run) load() (*Record, uint64, error) {
	var open func(context.Context) (Store, error)
	for _, s := range r.seats() {
		if s.source != nil && s.source.OpenStore != nil {
			open = s.source.OpenStore
		}
	}
	if open == nil {
		return nil, 0, errors.New("checkpoint.store is not set")
	}
	store, err := open(r.ctx)
	if err != nil {
		return nil, 0, err
	}
	r.store = store
	// The store is locked from here on, so whoever takes the ids over from now on has another one.
	if err := r.noteIDs(); err != nil {
		return nil, 0, err
	}
	number, data, err := store.Latest(r.ctx)
	if errors.Is(err, ErrNoRecord) {
		return nil, number, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("reading the newest checkpoint record from %s: %w", store.Describe(), err)
	}
	rec, err := NewestRecord(number, data, store.Describe())
	if err != nil {
		return nil, 0, err
	}
	return rec, number, nil
}

// NewestRecord decodes the newest record of a store, or says why that ends the start-up.
func NewestRecord(number uint64, data []byte, place string) (*Record, error) {
	rec, err := DecodeRecord(data)
	if err == nil && rec.Number != number {
		err = fmt.Errorf("%w: it says it is number %d", ErrRecordDamaged, rec.Number)
	}
	if err != nil {
		return nil, fmt.Errorf("newest checkpoint record %d in %s: %w; an older one is never used in its place, since "+
			"it could lose or double records: restore the state directory from a copy, or point its path at an empty one and set "+
			"startup.ignore_missing_state: true", number, place, err)
	}
	return rec, nil
}

// closeStore lets a store go that has to be closed, so that what it stands on can be.
func (r *run) closeStore() {
	s, ok := r.store.(interface{ Close(context.Context) error })
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.Timeout)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		r.stream.opts.Logger.Warn("closing the state store failed", "store", r.store.Describe(), "err", err)
	}
}

// noteIDs lets the sinks remember who owns their ids before the record is read: what happens to them later comes from
// this recovery, from a timeout, or from somebody else.
func (r *run) noteIDs() error {
	for _, s := range r.seats() {
		if s.asSink == nil {
			continue
		}
		if err := s.asSink.NoteIDs(r.ctx); err != nil {
			return fmt.Errorf("%s: %w", s.key, err)
		}
	}
	return nil
}

// forgetIDs lets a start that does not care for earlier runs take the ids from whoever has them.
func (r *run) forgetIDs() {
	for _, s := range r.seats() {
		if s.asSink != nil {
			s.asSink.ForgetIDs()
		}
	}
}

// durable tells whether the store outlives the process: one that does not has lost its records as a matter of course.
func (r *run) durable() bool {
	s, ok := r.store.(interface{ Durable() bool })
	return !ok || s.Durable()
}

// loop takes events until the run is stopped.
func (r *run) loop() {
	tick, status := time.NewTicker(gaugeInterval), time.NewTicker(minute)
	defer tick.Stop()
	defer status.Stop()
	defer r.endGauges()
	for {
		select {
		case <-r.ctx.Done():
			r.stopTimers()
			return
		case <-tick.C:
			r.setGauges()
		case <-status.C:
			r.minute()
		case ev := <-r.events:
			switch ev := ev.(type) {
			case fired:
				if r.timers[ev.timer] == ev.of {
					delete(r.timers, ev.timer)
					r.handle(Fired{Timer: ev.timer})
				}
			case Event:
				r.handle(ev)
			}
		}
	}
}

func (r *run) stopTimers() {
	for _, t := range r.timers {
		t.Stop()
	}
}

// post hands an event to the loop. It blocks only while the loop is far behind.
func (r *run) post(ev any) {
	select {
	case r.events <- ev:
	case <-r.ctx.Done():
	}
}

// failed posts the first failure of an attempt; what follows is a consequence of it as a rule.
func (r *run) failed(attempt uint64, reason Reason, cause error) {
	r.failMu.Lock()
	first := attempt > r.failedAttempt
	r.failedAttempt = max(r.failedAttempt, attempt)
	r.failMu.Unlock()
	if first {
		r.post(Failed{Attempt: attempt, Reason: reason, Cause: cause})
	}
}

// stop ends the loop after every component has left, and waits for all it has started.
func (r *run) stop() {
	r.cancel(ErrLeft)
	<-r.ended
}

// replace ends the run for a successor: from here on it sends no EndTxn, its components are cut off from their
// clusters, and all it has begun has ended, its write too, so that the successor sees the newest record.
func (r *run) replace() error {
	r.cancel(nil)
	select {
	case <-r.ended:
	case <-time.After(r.cfg.Timeout):
		return fmt.Errorf("the stream was built anew, and the one before has not ended its work after checkpoint.timeout "+
			"%v, as a rule a checkpoint record; "+slowWrite, r.cfg.Timeout)
	}
	for _, s := range r.seats() {
		if s.asSink != nil {
			_ = s.asSink.Halt(context.Background())
		}
		s.end()
	}
	return nil
}

// die ends the run with a cause. Its components go on until they are closed, but nothing they do counts any more.
// Sinks let go of what waits in them, or the process would wait for it until its shutdown timeout.
func (r *run) die(cause error) {
	r.stream.mu.Lock()
	r.stream.fail(r.build, cause)
	r.stream.mu.Unlock()
	for _, s := range r.seats() {
		if s.asSink != nil {
			r.work.Go(func() { _ = s.asSink.Halt(r.ctx) })
		}
	}
}

func (r *run) setTimer(t Timer, after time.Duration) {
	if old := r.timers[t]; old != nil {
		old.Stop()
	}
	if t.Kind == TimerRestart {
		after = RestartDelay(t.Of)
	}
	var timer *time.Timer
	armed := make(chan struct{})
	timer = time.AfterFunc(after, func() {
		<-armed
		r.post(fired{t, timer})
	})
	r.timers[t] = timer
	close(armed)
}

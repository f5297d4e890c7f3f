package checkpoint

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// sinksLate is when a source that waits for sinks says so.
const sinksLate = 10 * time.Second

// Seat is one declared component's end of the coordinator.
type Seat struct {
	stream *Stream
	build  *build
	// base is the key that was declared; key has an ordinal where several components have the same.
	base, key string
	source    *SourceDeclaration
	sink      *SinkDeclaration

	// Guarded by stream.mu until the build runs, then constant.
	asSource Source
	asSink   Sink
	joined   bool
	left     bool
	// begun is set, without checkpoints, once the component is at work.
	begun bool
	// claimed is the cluster that a sink's transactional ids are on, once that is known.
	claimed *string
	// closing is set on a source once the engine closes it.
	closing bool

	// started is closed by the first start of an attempt, closed when the source may end.
	started, closed         chan struct{}
	startedOnce, closedOnce sync.Once
}

// Incarnation is which building of the stream in this process the component belongs to, from 1, as far as any has joined.
func (s *Seat) Incarnation() int {
	s.stream.mu.Lock()
	defer s.stream.mu.Unlock()
	if s.build == s.stream.cur || s.build == s.stream.next && s.stream.late(s.build) {
		return s.stream.incarnations
	}
	return s.stream.incarnations + 1
}

// Key is the component's name in records and logs.
func (s *Seat) Key() string { return s.key }

// Pool is the sink's id pool, with the index it was given.
func (s *Seat) Pool() Pool {
	s.stream.mu.Lock()
	defer s.stream.mu.Unlock()
	return s.sink.Pool
}

// Checkpointed tells whether the stream's sources are checkpointed, as far as they are declared: all are when the first
// component connects.
func (s *Seat) Checkpointed() bool {
	s.stream.mu.Lock()
	defer s.stream.mu.Unlock()
	return s.checkpointing() != nil
}

func (s *Seat) checkpointing() *Config { return s.build.checkpointing() }

// CheckTransactionTimeout refuses a transaction timeout in which not even one checkpoint fits: the broker would abort
// what is still to be committed.
func (s *Seat) CheckTransactionTimeout(timeout time.Duration) error {
	s.stream.mu.Lock()
	defer s.stream.mu.Unlock()
	cfg := s.checkpointing()
	if cfg == nil || timeout >= cfg.Interval+cfg.Timeout {
		return nil
	}
	return fmt.Errorf("transactions.timeout is %v, less than checkpoint.interval %v + checkpoint.timeout %v: the broker "+
		"would abort transactions that wait for their checkpoint; raise it (the broker's transaction.max.timeout.ms is "+
		"the limit), or lower checkpoint.timeout", timeout, cfg.Interval, cfg.Timeout)
}

// ClaimIDs notes on which cluster the sink's transactional ids are, and refuses ids that another sink of the stream has
// there: whoever initialised them second would fence the first. It comes before they are initialised.
func (s *Seat) ClaimIDs(clusterID string) error {
	st := s.stream
	st.mu.Lock()
	defer st.mu.Unlock()
	// Race: the other one may have joined already, and so be known with its cluster.
	s.claimed, s.sink.Pool.ClusterID = &clusterID, clusterID
	for _, o := range s.build.seats {
		if o.claimed == nil || *o.claimed != clusterID {
			continue
		}
		if err := samePrefix(o, s); err != nil {
			st.fail(s.build, err)
			return err
		}
	}
	return nil
}

// JoinSource connects the source and blocks until it was told to start, the context ends, or the start-up failed for
// good. In a stream without checkpoints it returns at once: nobody tells the source to start. sinks is how many sinks the
// stream's config is known to have: the first child of a sequence connects while they are still being declared.
func (s *Seat) JoinSource(ctx context.Context, src Source, sinks int) error {
	if err := s.awaitSinks(ctx, sinks); err != nil {
		return err
	}
	return s.join(ctx, func() { s.asSource = src })
}

// awaitSinks waits until the source's build has its sinks. One that follows others into a running stream has them, and so
// has one behind inputs without checkpoints, whose sinks have joined before it was declared.
func (s *Seat) awaitSinks(ctx context.Context, sinks int) error {
	st := s.stream
	late := time.NewTimer(sinksLate)
	defer late.Stop()
	for {
		st.mu.Lock()
		b := s.build
		grown := b.grown
		there := b != st.next || b.sinks >= sinks || st.late(b) || st.cur != nil && st.cur.run == nil && st.cur.sinks >= sinks
		st.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-grown:
		case <-late.C:
			st.opts.Logger.Warn("the source waits for the stream's outputs to be built", "source", s.key, "outputs", sinks)
		case <-s.closed:
			return ErrLeft
		case <-b.life.Done():
			return cmp.Or(context.Cause(b.life), ErrLeft)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// JoinSink connects the sink and blocks until it may be written to. clusterID is that of the cluster it is connected to.
func (s *Seat) JoinSink(ctx context.Context, clusterID string, sink Sink) error {
	return s.join(ctx, func() {
		s.asSink = sink
		s.sink.Pool.ClusterID = clusterID
	})
}

func (s *Seat) join(ctx context.Context, fill func()) error {
	st := s.stream
	st.mu.Lock()
	if s.left || s.build.life.Err() != nil {
		defer st.mu.Unlock()
		return cmp.Or(context.Cause(s.build.life), ErrLeft)
	}
	if !s.joined {
		fill()
		if err := st.enter(s); err != nil {
			st.mu.Unlock()
			return err
		}
		s.joined = true
		st.startIfComplete(s)
	}
	b := s.build
	if b.life.Err() != nil {
		defer st.mu.Unlock()
		return context.Cause(b.life)
	}
	if s.checkpointing() == nil {
		st.mu.Unlock()
		return nil // Without checkpoints there is nothing to wait for: a sink may come late, or with the first record.
	}
	st.mu.Unlock()
	select {
	case <-s.started:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closed:
	case <-b.life.Done():
	}
	return cmp.Or(context.Cause(b.life), ErrLeft)
}

func (s *Seat) start() { s.startedOnce.Do(func() { close(s.started) }) }
func (s *Seat) end()   { s.closedOnce.Do(func() { close(s.closed) }) }

func (s *Seat) runOrNil() *run {
	s.stream.mu.Lock()
	defer s.stream.mu.Unlock()
	return s.build.run
}

// Failed reports a failure of an attempt: a batch that was not delivered, a record that could not be sent, a
// transaction the broker has aborted. It leads to a failover, once per attempt. It does not block.
func (s *Seat) Failed(tag Tag, cause error) {
	if r := s.runOrNil(); r != nil && tag.Stream == s.stream {
		r.failed(tag.Attempt, s.reason(), fmt.Errorf("%s: %w", s.key, cause))
	}
}

// FatalForAll is Fatal for what is wrong with the stream as a whole, and not with the component that noticed.
func (s *Seat) FatalForAll(cause error) {
	s.stream.mu.Lock()
	defer s.stream.mu.Unlock()
	s.stream.fail(s.build, cause)
}

func (s *Seat) reason() Reason {
	if s.source != nil {
		return ReasonInput
	}
	return ReasonOutput
}

// Fatal reports what no new attempt can heal: another owner of the transactional ids, a refused setting. The process
// ends with the cause.
func (s *Seat) Fatal(cause error) {
	cause = fmt.Errorf("%s: %w", s.key, cause)
	if r := s.runOrNil(); r != nil {
		r.post(Broken{Cause: cause})
		return
	}
	s.stream.mu.Lock()
	defer s.stream.mu.Unlock()
	s.stream.fail(s.build, cause)
}

// AtEnd reports that a bounded source has nothing more to emit in this attempt.
func (s *Seat) AtEnd(tag Tag) {
	if r := s.runOrNil(); r != nil {
		r.post(AtEnd{Attempt: tag.Attempt, Source: s.key})
	}
}

// Close ends a source's part. Soft: it joins a last checkpoint and returns once that is committed, durable, and in the
// consumer group. Hard: it returns soon, and no transaction is ended. A soft Close may be followed by a hard one.
func (s *Seat) Close(ctx context.Context, hard bool) error {
	s.stream.mu.Lock()
	s.closing = true
	r := s.build.run
	others := slices.ContainsFunc(s.build.seats, func(o *Seat) bool { return o.source != nil && !o.closing && !o.left })
	s.stream.mu.Unlock()
	if r != nil {
		select {
		case <-r.begun:
		default:
			if others {
				break
			}
			r.cancel(nil) // The store or a broker has not answered yet; nothing was begun, so there is nothing to end.
		}
		r.post(Closing{Source: s.key, Hard: hard})
		select {
		case <-s.closed:
		case <-r.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.Leave()
	return nil
}

// Life ends when nobody needs to connect or to write any more: the stream has failed, and Failure says why, or all its
// sources have ended before it ran.
func (s *Seat) Life() context.Context {
	s.stream.mu.Lock()
	defer s.stream.mu.Unlock()
	return s.build.life
}

// Failure is why the stream has failed, or nil.
func (s *Seat) Failure() error {
	s.stream.mu.Lock()
	defer s.stream.mu.Unlock()
	return s.build.failure()
}

// Deserted is closed once a source of a stream that has failed leaves as the last one: the stream is being stopped.
func (s *Seat) Deserted() <-chan struct{} {
	s.stream.mu.Lock()
	defer s.stream.mu.Unlock()
	return s.build.deserted
}

// Leave ends a component's part for good. The last one to leave ends the run.
func (s *Seat) Leave() {
	st := s.stream
	st.mu.Lock()
	s.left = true
	s.end()
	b := s.build
	deserted := s.source != nil && !slices.ContainsFunc(b.seats, func(o *Seat) bool { return o.source != nil && !o.left })
	// A stream that runs may get another source, as from a sequence. Without checkpoints it runs from the start, and other
	// inputs may have records for the sinks yet.
	if deserted && s.checkpointing() != nil && !b.running() {
		b.end(ErrLeft)
	}
	if deserted {
		b.desert()
	}
	last := !slices.ContainsFunc(b.seats, func(o *Seat) bool { return !o.left })
	if last && b == st.cur {
		st.cur = nil
	}
	if last && b == st.next {
		st.next = nil // Closed before it connected: what is declared next is another build.
	}
	r, w := b.run, st.unwatch(s)
	st.mu.Unlock()
	if last && r != nil {
		r.stop()
	}
	if w != nil {
		w.end()
	}
}

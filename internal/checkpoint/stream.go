package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Stream is the coordinator of one Benthos stream together with its goroutine, its clock and its state store.
//
// Components are declared in their constructors and join when they connect. The declarations between two joins are a
// build; inputs are built before outputs, so a source declared after a sink begins a new build and drops one that
// nobody joined (Benthos builds components that it never starts). A build begins to run, as an incarnation, when all of
// it has joined. One that joins while another runs is the stream's successor, as after a config reload, and ends the
// other first; a build of sources alone, whose predecessors have left, joins the running one instead (a sequence).
type Stream struct {
	opts StreamOptions

	mu   sync.Mutex
	next *build // declared, nobody has joined
	cur  *build // joined by at least one
	// incarnations counts the builds that somebody has joined.
	incarnations int
	// lastAttempt is the highest attempt of all incarnations: none is used twice (rule 8).
	lastAttempt uint64
}

type build struct {
	seats []*Seat
	sinks bool
	run   *run
	// life ends when nobody needs to connect or to write any more: with the cause why the build has failed, or with
	// ErrLeft when every source has ended before it ran.
	life context.Context
	end  context.CancelCauseFunc
}

func newBuild() *build {
	b := new(build)
	b.life, b.end = context.WithCancelCause(context.Background())
	return b
}

// failure is why the build has failed, or nil.
func (b *build) failure() error {
	if err := context.Cause(b.life); !errors.Is(err, ErrLeft) {
		return err
	}
	return nil
}

// NewStream returns a coordinator that does nothing until components are declared and join.
func NewStream(opts StreamOptions) *Stream {
	if opts.Metrics == nil {
		opts.Metrics = noMetrics{}
	}
	return &Stream{opts: opts}
}

// Seat is one declared component's end of the coordinator.
type Seat struct {
	stream *Stream
	build  *build
	key    string
	source *SourceDeclaration
	sink   *SinkDeclaration

	// Guarded by stream.mu until the build runs, then constant.
	asSource Source
	asSink   Sink
	joined   bool
	left     bool

	// started is closed by the first start of an attempt, closed when the source may end.
	started, closed         chan struct{}
	startedOnce, closedOnce sync.Once
}

// DeclareSource reserves a seat for a source.
func (s *Stream) DeclareSource(d SourceDeclaration) (*Seat, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil || s.next.sinks {
		s.next = newBuild()
	}
	seat := s.seat(d.Key)
	seat.source = &d
	return seat, nil
}

// DeclareSink reserves a seat for a sink.
func (s *Stream) DeclareSink(d SinkDeclaration) (*Seat, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = newBuild()
	}
	s.next.sinks = true
	seat := s.seat(d.Key)
	seat.sink = &d
	return seat, nil
}

// seat adds a seat to the build under way. A key that stands there already gets an ordinal: components that Benthos
// makes of one piece of config have the same path.
func (s *Stream) seat(key string) *Seat {
	seat := &Seat{stream: s, build: s.next, started: make(chan struct{}), closed: make(chan struct{})}
	seat.key = key
	for n := 2; slices.ContainsFunc(s.next.seats, func(o *Seat) bool { return o.key == seat.key }); n++ {
		seat.key = fmt.Sprintf("%s#%d", key, n)
	}
	s.next.seats = append(s.next.seats, seat)
	return seat
}

// Incarnation is which building of the stream in this process the component belongs to, from 1, as far as any has joined.
func (s *Seat) Incarnation() int {
	s.stream.mu.Lock()
	defer s.stream.mu.Unlock()
	if s.build == s.stream.cur {
		return s.stream.incarnations
	}
	return s.stream.incarnations + 1
}

// Key is the component's name in records and logs.
func (s *Seat) Key() string { return s.key }

// Checkpointed tells whether the stream's sources are checkpointed, as far as they are declared: all are when the first
// component connects.
func (s *Seat) Checkpointed() bool {
	s.stream.mu.Lock()
	defer s.stream.mu.Unlock()
	return s.checkpointing() != nil
}

func (s *Seat) checkpointing() *Config { return s.build.checkpointing() }

// checkpointing are the settings of the build's sources, nil without checkpoints or without a build.
func (b *build) checkpointing() *Config {
	if b == nil {
		return nil
	}
	for _, o := range b.seats {
		if o.source != nil && o.source.Checkpoint != nil {
			return o.source.Checkpoint
		}
	}
	return nil
}

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

// JoinSource connects the source and blocks until it was told to start, the context ends, or the start-up failed for
// good. In a stream without checkpoints it returns at once: nobody tells the source to start.
func (s *Seat) JoinSource(ctx context.Context, src Source) error {
	return s.join(ctx, func() { s.asSource = src })
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
		st.startIfComplete(s.build)
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

// running tells whether every sink was told to start.
func (b *build) running() bool {
	return b.run != nil && !slices.ContainsFunc(b.seats, func(o *Seat) bool {
		select {
		case <-o.started:
			return false
		default:
			return o.sink != nil
		}
	})
}

// enter makes the seat's build the current one, ending a predecessor, or lets a late source into the running one.
func (s *Stream) enter(seat *Seat) error {
	if seat.build == s.cur {
		return nil
	}
	if seat.build != s.next {
		if seat.checkpointing() == nil && s.cur.checkpointing() == nil {
			return nil // Without checkpoints nothing depends on who was built together.
		}
		return fmt.Errorf("component %q belongs to a build that another one has replaced", seat.key)
	}
	if late := s.late(seat); late {
		seat.build = s.cur
		s.cur.seats = append(s.cur.seats, seat)
		s.next = nil
		return nil
	}
	old := s.cur
	s.cur, s.next = seat.build, nil
	s.incarnations++
	if old != nil && old.run != nil {
		s.mu.Unlock()
		err := old.run.replace()
		s.mu.Lock()
		if err != nil {
			s.opts.Fatal(err)
			return err
		}
	}
	return nil
}

// late tells whether the seat's build is sources alone that follow others in a stream that goes on running.
func (s *Stream) late(seat *Seat) bool {
	if seat.build.sinks || s.cur == nil || s.cur.run == nil || s.cur.life.Err() != nil || s.cur.run.ctx.Err() != nil {
		return false
	}
	left := 0
	for _, o := range s.cur.seats {
		if o.source != nil && o.key == seat.key && !o.left {
			return false
		}
		if !o.left {
			left++
		}
	}
	return left > 0
}

// startIfComplete starts the build's run once all of it has joined, or lets a late source into it.
func (s *Stream) startIfComplete(b *build) {
	if b.run != nil {
		last := b.seats[len(b.seats)-1]
		b.run.post(Joined{Source: last.key})
		return
	}
	if slices.ContainsFunc(b.seats, func(o *Seat) bool { return !o.joined }) {
		return
	}
	cfg, err := checkBuild(b.seats)
	if err != nil {
		s.fail(b, err)
		return
	}
	if cfg == nil {
		for _, o := range b.seats {
			o.start()
		}
		return
	}
	b.run = newRun(s, b, *cfg)
	b.run.begin(s.lastAttempt + 1)
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

// fail ends a build with a cause, the first time. s.mu is held.
func (s *Stream) fail(b *build, cause error) {
	if b.life.Err() == nil {
		b.end(cause)
		s.opts.Fatal(cause)
	}
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
	r := s.runOrNil()
	if r != nil {
		select {
		case <-r.begun:
		default:
			r.cancel() // The store or a broker has not answered yet; nothing was begun, so there is nothing to end.
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

// Leave ends a component's part for good. The last one to leave ends the run.
func (s *Seat) Leave() {
	st := s.stream
	st.mu.Lock()
	s.left = true
	s.end()
	b := s.build
	// A stream that runs may get another source, as from a sequence. Without checkpoints it runs from the start, and other
	// inputs may have records for the sinks yet.
	if s.source != nil && s.checkpointing() != nil && !b.running() && !slices.ContainsFunc(b.seats, func(o *Seat) bool { return o.source != nil && !o.left }) {
		b.end(ErrLeft)
	}
	last := !slices.ContainsFunc(b.seats, func(o *Seat) bool { return !o.left })
	if last && b == st.cur {
		st.cur = nil
	}
	if last && b == st.next {
		st.next = nil // Closed before it connected: what is declared next is another build.
	}
	r := b.run
	st.mu.Unlock()
	if last && r != nil {
		r.stop()
	}
}

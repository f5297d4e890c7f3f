package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Stream is the coordinator of one Benthos stream together with its goroutine, its clock and its state store.
//
// Components are declared in their constructors and join when they connect. The declarations between two joins are a
// build; inputs are built before outputs, so a source declared after a sink, or twice, begins a new build and drops one
// that nobody joined (Benthos builds components that it never starts, and a stream anew when one of them fails). A build
// begins to run, as an incarnation, when all of it has joined. One that joins while another runs is the stream's
// successor, as after a config reload, and ends the other first; sources alone that follow others which have ended join
// the running one instead (a sequence).
type Stream struct {
	opts StreamOptions
	// ctx is for log lines alone.
	ctx context.Context

	mu   sync.Mutex
	next *build // declared, nobody has joined
	cur  *build // joined by at least one
	// incarnations counts the builds that somebody has joined.
	incarnations int
	// unfinished is what would be left to the next process if this one ended now; nil where nothing is.
	unfinished error
	// lastAttempt is the highest attempt of all incarnations: none is used twice (rule 8).
	lastAttempt uint64
	// watched are the components at work that have no checkpoints, watcher is set while there are some.
	watched []*Seat
	watcher *watcher
}

type build struct {
	seats []*Seat
	sinks int
	// grown is closed, and made anew, when a sink is declared, and when another build takes this one's place.
	grown chan struct{}
	run   *run
	// life ends when nobody needs to connect or to write any more: with the cause why the build has failed, or with
	// ErrLeft when every source has ended before it ran.
	life context.Context
	end  context.CancelCauseFunc
	// deserted is closed when the build has failed and every source has left.
	deserted chan struct{}
}

func newBuild() *build {
	b := &build{grown: make(chan struct{}), deserted: make(chan struct{})}
	b.life, b.end = context.WithCancelCause(context.Background())
	return b
}

// signal wakes who waits for the build to grow. stream.mu is held.
func (b *build) signal() {
	close(b.grown)
	b.grown = make(chan struct{})
}

// has tells whether a component of the key was declared.
func (b *build) has(key string) bool {
	return slices.ContainsFunc(b.seats, func(o *Seat) bool { return o.base == key })
}

// desert notes that every source of a failed build has left. stream.mu is held.
func (b *build) desert() {
	if b.failure() == nil {
		return
	}
	select {
	case <-b.deserted:
	default:
		close(b.deserted)
	}
}

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
	return &Stream{opts: opts, ctx: context.Background()}
}

// What a process that ends may leave to the next one.
var (
	errUnrecovered = errors.New("stopped before it had settled what an earlier run left; the next start goes on from there")
	errNoLast      = errors.New("stopped without a last checkpoint; the next start goes on from the one before")
)

// Unfinished tells what the stream would leave to the next process if this one ended now: nil where nothing was begun,
// and where all is committed that was.
func (s *Stream) Unfinished() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unfinished
}

func (s *Stream) leaves(unfinished error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unfinished = unfinished
}

// String names the stream in messages.
func (s *Stream) String() string {
	if s.opts.ID == "" {
		return "the stream"
	}
	return fmt.Sprintf("stream %q", s.opts.ID)
}

// DeclareSource reserves a seat for a source.
func (s *Stream) DeclareSource(d SourceDeclaration) (*Seat, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil || s.next.sinks > 0 || d.Checkpoint != nil && s.next.has(d.Key) {
		s.begin()
	}
	seat := s.seat(d.Key, d.Successive)
	seat.source = &d
	return seat, nil
}

// DeclareSink reserves a seat for a sink.
func (s *Stream) DeclareSink(d SinkDeclaration) (*Seat, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.begin()
	}
	s.next.sinks++
	if d.Pool.Index == SourcesIndex {
		d.Pool.Index = s.next.index()
	}
	seat := s.seat(d.Key, false)
	seat.sink = &d
	s.next.signal()
	return seat, nil
}

// index is that of the build's sources; inputs are built before outputs. 0 where there are none of ours.
func (b *build) index() int32 {
	for _, o := range b.seats {
		if o.source != nil {
			return o.source.Index
		}
	}
	return 0
}

// begin begins a build and drops the one that nobody has joined. s.mu is held.
func (s *Stream) begin() {
	if s.next != nil {
		s.next.signal()
	}
	s.next = newBuild()
}

// seat adds a seat to the build under way. A key that stands there already gets an ordinal: components that Benthos
// makes of one piece of config have the same path. So do successive ones, as the children of a sequence; any other that
// comes at the place of one that has left goes on from its positions.
func (s *Stream) seat(key string, successive bool) *Seat {
	seat := &Seat{stream: s, build: s.next, base: key, key: key, started: make(chan struct{}), closed: make(chan struct{})}
	others := s.next.seats
	if successive && s.late(s.next) {
		others = slices.Concat(s.cur.seats, others)
	}
	for n := 2; slices.ContainsFunc(others, func(o *Seat) bool { return o.key == seat.key }); n++ {
		seat.key = fmt.Sprintf("%s#%d", key, n)
	}
	s.next.seats = append(s.next.seats, seat)
	return seat
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

// enter makes the seat's build the current one, ending a predecessor, or lets late sources into the running one.
func (s *Stream) enter(seat *Seat) error {
	b := seat.build
	if b == s.cur {
		return nil
	}
	if b != s.next {
		if b.checkpointing() == nil && s.cur.checkpointing() == nil {
			return nil // Without checkpoints nothing depends on who was built together.
		}
		return fmt.Errorf("component %q belongs to a build that another one has replaced", seat.key)
	}
	if s.late(b) {
		if err := checkIndexes(slices.Concat(s.cur.seats, b.seats), b.checkpointing() != nil); err != nil {
			return err
		}
		for _, o := range b.seats {
			o.build = s.cur
		}
		s.cur.seats = append(s.cur.seats, b.seats...)
		s.next = nil
		return nil
	}
	old := s.cur
	s.cur, s.next = b, nil
	b.signal()
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

// late tells whether a build is sources alone that follow others in a stream that goes on running: those at the same
// places have left. Where one is being closed the stream is being stopped, and what is built is its successor. s.mu is
// held.
func (s *Stream) late(b *build) bool {
	cur := s.cur
	if b.sinks > 0 || cur == nil || cur.run == nil || cur.life.Err() != nil || cur.run.ctx.Err() != nil {
		return false
	}
	if !slices.ContainsFunc(cur.seats, func(o *Seat) bool { return !o.left }) {
		return false
	}
	return !slices.ContainsFunc(cur.seats, func(o *Seat) bool {
		return o.source != nil && !o.left && (o.closing || b.has(o.base))
	})
}

// startIfComplete starts the build's run once all of it has joined, or lets a late source into it.
func (s *Stream) startIfComplete(seat *Seat) {
	b := seat.build
	if b.run != nil {
		b.run.post(Joined{Source: seat.key})
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

// fail ends a build with a cause, the first time. s.mu is held.
func (s *Stream) fail(b *build, cause error) {
	if b.life.Err() == nil {
		b.end(cause)
		s.opts.Fatal(cause)
	}
}

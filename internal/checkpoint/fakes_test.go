package checkpoint

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// memStore is a Store whose writes the test can hold up or fail.
type memStore struct {
	mu      sync.Mutex
	records map[uint64][]byte
	newest  uint64
	putErr  error
	gate    chan struct{} // nil: open
}

func (s *memStore) Latest(context.Context) (uint64, []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.records) == 0 {
		return s.newest, nil, ErrNoRecord
	}
	return s.newest, s.records[s.newest], nil
}

func (s *memStore) Put(_ context.Context, n uint64, data []byte) error {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.putErr != nil {
		return s.putErr
	}
	if n <= s.newest {
		return fmt.Errorf("%w: number %d is not above %d", ErrNotWritten, n, s.newest)
	}
	if s.records == nil {
		s.records = map[uint64][]byte{}
	}
	s.records[n], s.newest = data, n
	return nil
}

func (s *memStore) record(t *testing.T) *Record {
	_, data, err := s.Latest(t.Context())
	require.NoError(t, err)
	r, err := DecodeRecord(data)
	require.NoError(t, err)
	return r
}

func (s *memStore) Numbers(context.Context) ([]uint64, error)       { return nil, nil }
func (s *memStore) Get(_ context.Context, _ uint64) ([]byte, error) { return nil, ErrNoRecord }
func (s *memStore) DeleteAll(context.Context) error                 { s.records = nil; return nil }
func (s *memStore) Describe() string                                { return "test store" }
func (s *memStore) open(context.Context) (Store, error)             { return s, nil }
func (s *memStore) hold()                                           { s.mu.Lock(); s.gate = make(chan struct{}); s.mu.Unlock() }
func (s *memStore) release()                                        { s.mu.Lock(); close(s.gate); s.gate = nil; s.mu.Unlock() }
func (s *memStore) failWith(err error)                              { s.mu.Lock(); s.putErr = err; s.mu.Unlock() }

// counter is a Source that counts what it has emitted; the test moves it.
type counter struct {
	mu        sync.Mutex
	at        int64
	tag       Tag
	starts    int
	committed int64
	finished  bool
	verified  bool
	refused   error         // by Verify
	overtaken string        // what Overtaken tells
	hold      chan struct{} // holds up Pause
	publish   bool          // what it resolves is to be published
	commits   chan struct{} // holds up CommitOffsets
}

func (c *counter) state() SourceState {
	return SourceState{Splits: []Split{{Topic: "t", Offset: c.at, Stop: NoStop}}}
}
func (c *counter) advance(n int64)                        { c.mu.Lock(); c.at += n; c.mu.Unlock() }
func (c *counter) Traces(context.Context) (string, error) { return "", nil }
func (c *counter) Overtaken(context.Context, *Record) (string, error) {
	return c.overtaken, nil
}
func (c *counter) Verify(context.Context, SourceState) error { c.verified = true; return c.refused }
func (c *counter) Resume()                                   {}
func (c *counter) Halt(context.Context) error                { return nil }
func (c *counter) Finish()                                   { c.mu.Lock(); c.finished = true; c.mu.Unlock() }
func (c *counter) Resolve(_ context.Context, r *SourceState) (SourceState, error) {
	if r != nil {
		return *r, nil
	}
	s := c.state()
	s.Publish = c.publish
	return s, nil
}
func (c *counter) Start(tag Tag, from SourceState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tag, c.at = tag, from.Splits[0].Offset
	c.starts++
}
func (c *counter) Pause(ctx context.Context) (SourceState, error) {
	if c.hold != nil {
		select {
		case <-c.hold:
		case <-ctx.Done():
			return SourceState{}, ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state(), nil
}
func (c *counter) CommitOffsets(_ context.Context, s SourceState) error {
	if c.commits != nil {
		<-c.commits
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.committed = s.Splits[0].Offset
	return nil
}

// ledger is a Sink that takes what the test says and commits it.
type ledger struct {
	mu               sync.Mutex
	pool             Pool
	tag              Tag
	open             int32
	records, visible int64
	starts, halts    int
	verdict          Verdict
	traces           string
	// noted is set from NoteIDs to ForgetIDs.
	noted bool
}

func (l *ledger) write(n int64)                                          { l.mu.Lock(); l.records += n; l.mu.Unlock() }
func (l *ledger) Traces(context.Context) (string, error)                 { return l.traces, nil }
func (l *ledger) Verify(context.Context, SinkState, []Committable) error { return nil }
func (l *ledger) Describe(context.Context, Committable) (Verdict, error) { return 0, nil }
func (l *ledger) NoteIDs(context.Context) error                          { l.noted = true; return nil }
func (l *ledger) ForgetIDs()                                             { l.noted = false }
func (l *ledger) InitIDs(context.Context, []Pool) error                  { return nil }
func (l *ledger) Flush(context.Context) error                            { return nil }
func (l *ledger) Abort(context.Context, int32) error                     { return nil }
func (l *ledger) Open(id int32)                                          { l.mu.Lock(); l.open = id; l.mu.Unlock() }
func (l *ledger) Commit(_ context.Context, c Committable) (Verdict, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.verdict != 0 {
		return l.verdict, nil
	}
	l.visible += c.Records
	return Committed, nil
}
func (l *ledger) Start(tag Tag, id int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tag, l.open, l.records = tag, id, 0
	l.starts++
}
func (l *ledger) Seal(next int32) (*Committable, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.records == 0 {
		return nil, nil
	}
	c := &Committable{TransactionalID: l.pool.TransactionalID(l.open), Records: l.records}
	l.open, l.records = next, 0
	return c, nil
}
func (l *ledger) Halt(context.Context) error {
	l.mu.Lock()
	l.halts++
	l.records = 0
	l.mu.Unlock()
	return nil
}

// tallies is a Metrics that keeps counts by name and label.
type tallies struct {
	mu     sync.Mutex
	counts map[string]int64
}

func (c *tallies) Count(name string, n int64, labels ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int64{}
	}
	for _, l := range labels {
		name += " " + l
	}
	c.counts[name] += n
}

func (c *tallies) Gauge(name string, v int64)        { c.Count(name, v) }
func (c *tallies) Time(name string, _ time.Duration) { c.Count(name, 1) }
func (c *tallies) get(name string) int64             { c.mu.Lock(); defer c.mu.Unlock(); return c.counts[name] }

// logText is a log that tests read.
type logText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logText) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.b.Write(p) }
func (l *logText) String() string              { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

// bench is a stream with one source and one sink.
type bench struct {
	traces, sinkKey   string
	log               *logText
	counts            *tallies
	t                 *testing.T
	stream            *Stream
	store             *memStore
	fatal             chan error
	src               *counter
	sink              *ledger
	srcSeat, sinkSeat *Seat
}

var benchConfig = Config{Interval: time.Second, Timeout: time.Minute, MaxConcurrent: 1, MaxRestarts: -1}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, store: new(memStore), fatal: make(chan error, 16), counts: new(tallies), log: new(logText), sinkKey: "output"}
	b.stream = NewStream(StreamOptions{
		Metrics: b.counts,
		Logger:  slog.New(slog.NewTextHandler(b.log, nil)),
		Fatal:   func(err error) { b.fatal <- err },
	})
	return b
}

func (b *bench) declare(cfg *Config, pool Pool) {
	var err error
	b.src, b.sink = &counter{}, &ledger{pool: pool, traces: b.traces}
	b.srcSeat, err = b.stream.DeclareSource(SourceDeclaration{Key: "input", Checkpoint: cfg, OpenStore: b.store.open})
	require.NoError(b.t, err)
	b.sinkSeat, err = b.stream.DeclareSink(SinkDeclaration{Key: b.sinkKey, Pool: pool})
	require.NoError(b.t, err)
}

// join connects both ends, as Benthos does, at the same time.
func (b *bench) join() (srcErr, sinkErr error) {
	var wg sync.WaitGroup
	wg.Go(func() { srcErr = b.srcSeat.JoinSource(b.t.Context(), b.src, 1) })
	wg.Go(func() { sinkErr = b.sinkSeat.JoinSink(b.t.Context(), "cluster", b.sink) })
	wg.Wait()
	return srcErr, sinkErr
}

func (b *bench) start() {
	cfg := benchConfig
	b.declare(&cfg, Pool{Prefix: "p", Size: 3})
	srcErr, sinkErr := b.join()
	require.NoError(b.t, srcErr)
	require.NoError(b.t, sinkErr)
}

func (b *bench) move(n int64) { b.src.advance(n); b.sink.write(n) }

func (b *bench) stop() {
	require.NoError(b.t, b.srcSeat.Close(b.t.Context(), false))
	b.sinkSeat.Leave()
}

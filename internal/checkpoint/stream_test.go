package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
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
}

func (c *counter) state() SourceState {
	return SourceState{Splits: []Split{{Topic: "t", Offset: c.at, Stop: NoStop}}}
}
func (c *counter) advance(n int64)                           { c.mu.Lock(); c.at += n; c.mu.Unlock() }
func (c *counter) Verify(context.Context, SourceState) error { return nil }
func (c *counter) Resume()                                   {}
func (c *counter) Halt(context.Context) error                { return nil }
func (c *counter) Finish()                                   { c.mu.Lock(); c.finished = true; c.mu.Unlock() }
func (c *counter) Resolve(_ context.Context, r *SourceState) (SourceState, error) {
	if r != nil {
		return *r, nil
	}
	return c.state(), nil
}
func (c *counter) Start(tag Tag, from SourceState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tag, c.at = tag, from.Splits[0].Offset
	c.starts++
}
func (c *counter) Pause(context.Context) (SourceState, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state(), nil
}
func (c *counter) CommitOffsets(_ context.Context, s SourceState) error {
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
}

func (l *ledger) write(n int64)                                          { l.mu.Lock(); l.records += n; l.mu.Unlock() }
func (l *ledger) Verify(context.Context, SinkState, []Committable) error { return nil }
func (l *ledger) Describe(context.Context, Committable) (Verdict, error) { return 0, nil }
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

// bench is a stream with one source and one sink.
type bench struct {
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
	b := &bench{t: t, store: new(memStore), fatal: make(chan error, 16)}
	b.stream = NewStream(StreamOptions{
		Logger: slog.New(slog.DiscardHandler),
		Fatal:  func(err error) { b.fatal <- err },
	})
	return b
}

func (b *bench) declare(cfg *Config, pool Pool) {
	var err error
	b.src, b.sink = &counter{}, &ledger{pool: pool}
	b.srcSeat, err = b.stream.DeclareSource(SourceDeclaration{Key: "input", Checkpoint: cfg, OpenStore: b.store.open})
	require.NoError(b.t, err)
	b.sinkSeat, err = b.stream.DeclareSink(SinkDeclaration{Key: "output", Pool: pool})
	require.NoError(b.t, err)
}

// join connects both ends, as Benthos does, at the same time.
func (b *bench) join() (srcErr, sinkErr error) {
	var wg sync.WaitGroup
	wg.Go(func() { srcErr = b.srcSeat.JoinSource(b.t.Context(), b.src) })
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

func TestRunningStreamCommitsEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		b.move(5)
		<-time.After(1100 * time.Millisecond) // The bubble's clock: it moves when every goroutine is idle.
		synctest.Wait()
		assert.EqualValues(t, 5, b.sink.visible)
		assert.EqualValues(t, 5, b.src.committed)
		b.move(2)
		b.stop()
		assert.EqualValues(t, 7, b.sink.visible, "the stop runs a last checkpoint")
		assert.EqualValues(t, 7, b.src.committed)
		assert.Empty(t, b.store.record(t).Entries, "after a stop the newest record names no transaction")
		assert.EqualValues(t, 7, b.store.record(t).Positions[0].Splits[0].Offset)
		assert.Empty(t, b.fatal)
	})
}

func TestDeletedRecordsDoNotGiveTheirNumbersBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		cfg := benchConfig
		cfg.DeleteOnStop = true
		for range 2 {
			b.declare(&cfg, Pool{Prefix: "p", Size: 3})
			srcErr, sinkErr := b.join()
			require.NoError(t, errors.Join(srcErr, sinkErr))
			b.move(5)
			b.stop()
			assert.Empty(t, b.store.records)
			assert.EqualValues(t, 5, b.src.committed, "the group has the position before the record goes")
		}
		assert.Empty(t, b.fatal)
	})
}

func TestHardCloseEndsNoTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		b.move(5)
		require.NoError(t, b.srcSeat.Close(t.Context(), true))
		b.sinkSeat.Leave()
		assert.Zero(t, b.sink.visible)
		assert.EqualValues(t, 0, b.store.record(t).Positions[0].Splits[0].Offset)
	})
}

func TestFailoverRewindsAndUsesANewAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		b.move(5)
		first := b.src.tag
		b.srcSeat.Failed(first, errors.New("nack"))
		b.srcSeat.Failed(first, errors.New("another nack of the same attempt"))
		<-time.After(3 * time.Second)
		synctest.Wait()
		assert.Equal(t, 2, b.src.starts)
		assert.EqualValues(t, 0, b.src.at, "nothing was checkpointed")
		assert.Equal(t, first.Attempt+1, b.sink.tag.Attempt)
		b.sinkSeat.Failed(first, errors.New("a late failure of the old attempt"))
		<-time.After(3 * time.Second)
		synctest.Wait()
		assert.Equal(t, 2, b.src.starts)
		b.stop()
	})
}

func TestWriteOfUnknownOutcomeIsResolvedBeforeAnythingIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		b.move(5)
		b.store.failWith(errors.New("i/o error"))
		<-time.After(1100 * time.Millisecond)
		synctest.Wait()
		require.Len(t, b.fatal, 1, "no record can be written at all")
		assert.ErrorContains(t, <-b.fatal, "i/o error")
		assert.Zero(t, b.sink.visible)
		b.stop()
	})
}

func TestWriteThatNeverReturnsEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		b.move(5)
		b.store.hold()
		<-time.After(5 * time.Minute)
		synctest.Wait()
		require.Len(t, b.fatal, 1)
		assert.ErrorContains(t, <-b.fatal, "did not end within checkpoint.timeout")
		assert.Zero(t, b.sink.visible)
		b.store.release()
		b.stop()
	})
}

func TestNewestRecordThatDoesNotVerifyStopsTheStart(t *testing.T) {
	good := EncodeRecord(&Record{Number: 4})
	tests := map[string]struct {
		data []byte
		want string
	}{
		"damaged":       {append(good[:len(good)-1:len(good)-1], good[len(good)-1]^1), "checksum"},
		"foreign":       {[]byte("hello"), "not a checkpoint record"},
		"other number":  {EncodeRecord(&Record{Number: 3}), "it says it is number 3"},
		"later version": {append([]byte("TGCR\x00\x09"), good[6:]...), "format version 9"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.store.records, b.store.newest = map[uint64][]byte{3: EncodeRecord(&Record{Number: 3}), 4: tc.data}, 4
				cfg := benchConfig
				b.declare(&cfg, Pool{Prefix: "p", Size: 3})
				srcErr, sinkErr := b.join()
				assert.ErrorContains(t, srcErr, tc.want)
				assert.ErrorContains(t, sinkErr, tc.want)
				assert.ErrorContains(t, <-b.fatal, "never used in its place")
				b.stop()
			})
		})
	}
}

func TestComponentsThatDoNotFitAreRefused(t *testing.T) {
	cfg := benchConfig
	other := benchConfig
	other.Interval = 2 * time.Second
	concurrent := benchConfig
	concurrent.MaxConcurrent = 3
	atLeastOnce := benchConfig
	atLeastOnce.AtLeastOnce = true
	pool := Pool{Prefix: "p", Size: 3}
	type seat struct {
		source *Config
		pool   Pool
	}
	tests := map[string]struct {
		seats []seat
		want  string
	}{
		"exactly-once without checkpoints": {[]seat{{pool: pool}}, "needs an input kafka_flink_source with checkpoint.interval"},
		"differing checkpoint blocks":      {[]seat{{source: &cfg}, {source: &other}, {pool: pool}}, "different checkpoint blocks"},
		"two modes":                        {[]seat{{source: &atLeastOnce}, {pool: pool}}, "make them equal"},
		"a pool too small":                 {[]seat{{source: &concurrent}, {pool: pool}}, "needs at least 5"},
		"one prefix twice":                 {[]seat{{source: &cfg}, {pool: pool}, {pool: pool}}, "same transactional_id_prefix"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				var seats []*Seat
				for _, s := range tc.seats {
					var seat *Seat
					var err error
					if s.source != nil {
						seat, err = b.stream.DeclareSource(SourceDeclaration{Key: "in", Checkpoint: s.source, OpenStore: b.store.open})
					} else {
						seat, err = b.stream.DeclareSink(SinkDeclaration{Key: "out", Pool: s.pool})
					}
					require.NoError(t, err)
					seats = append(seats, seat)
				}
				for i, s := range seats {
					go func() {
						if tc.seats[i].source != nil {
							_ = s.JoinSource(t.Context(), new(counter))
						} else {
							_ = s.JoinSink(t.Context(), "", new(ledger))
						}
					}()
				}
				assert.ErrorContains(t, <-b.fatal, tc.want)
			})
		})
	}
}

func TestTransactionTimeoutBelowOneCheckpointIsRefused(t *testing.T) {
	b := newBench(t)
	cfg := benchConfig
	b.declare(&cfg, Pool{Prefix: "p", Size: 3})
	require.NoError(t, b.sinkSeat.CheckTransactionTimeout(61*time.Second))
	require.ErrorContains(t, b.sinkSeat.CheckTransactionTimeout(60*time.Second), "checkpoint.timeout")
}

func TestBuildThatNobodyStartsBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		cfg := benchConfig
		b.declare(&cfg, Pool{Prefix: "p", Size: 3}) // As a connection test builds them.
		b.start()
		b.move(3)
		b.stop()
		assert.EqualValues(t, 3, b.sink.visible)
	})
}

func TestSourceThatFollowsAnotherJoinsTheRunningStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		b.move(5)
		require.NoError(t, b.srcSeat.Close(t.Context(), false))
		next := &counter{at: 40}
		seat, err := b.stream.DeclareSource(SourceDeclaration{Key: "second", Checkpoint: b.srcSeat.source.Checkpoint, OpenStore: b.store.open})
		require.NoError(t, err)
		require.NoError(t, seat.JoinSource(t.Context(), next))
		next.advance(2)
		b.sink.write(2)
		require.NoError(t, seat.Close(t.Context(), false))
		b.sinkSeat.Leave()
		assert.EqualValues(t, 7, b.sink.visible)
		assert.Equal(t, 1, b.sink.starts)
		require.Len(t, b.store.record(t).Positions, 2, "the first source's position stays")
		assert.EqualValues(t, 42, stateOf(b.store.record(t).Positions, "second").Splits[0].Offset)
	})
}

func TestRebuiltStreamEndsItsPredecessorAndGoesOnFromItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		b.move(5)
		<-time.After(1100 * time.Millisecond)
		synctest.Wait()
		oldSrc, oldSink, oldSrcSeat, oldSinkSeat := b.src, b.sink, b.srcSeat, b.sinkSeat
		b.start()
		assert.EqualValues(t, 5, b.src.at)
		assert.Greater(t, b.src.tag.Attempt, oldSrc.tag.Attempt, "an attempt number is never used twice")
		assert.Equal(t, 1, oldSink.halts)
		oldSrcSeat.Failed(oldSrc.tag, errors.New("late"))
		require.NoError(t, oldSrcSeat.Close(t.Context(), false))
		oldSinkSeat.Leave()
		b.move(1)
		b.stop()
		assert.EqualValues(t, 5+1, b.sink.visible, "the recovery asks again for what the newest record holds")
	})
}

func TestSinkThatWaitsForAStreamThatIsOverStopsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		cfg := benchConfig
		b.declare(&cfg, Pool{Prefix: "p", Size: 3})
		joined := make(chan error, 1)
		go func() { joined <- b.sinkSeat.JoinSink(t.Context(), "cluster", b.sink) }()
		synctest.Wait()
		assert.False(t, b.sinkSeat.Over())
		require.NoError(t, b.srcSeat.Close(t.Context(), false), "the source never reached its cluster")
		require.ErrorIs(t, <-joined, ErrLeft)
		assert.True(t, b.sinkSeat.Over())
		require.ErrorIs(t, b.sinkSeat.JoinSink(t.Context(), "cluster", b.sink), ErrLeft)
		b.sinkSeat.Leave()
	})
}

func TestJoinEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		cfg := benchConfig
		b.declare(&cfg, Pool{Prefix: "p", Size: 3})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		require.ErrorIs(t, b.srcSeat.JoinSource(ctx, b.src), context.Canceled)
		b.stop()
	})
}

func TestRestartDelayGrowsToAMinute(t *testing.T) {
	for n, want := range map[uint64]time.Duration{1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second, 7: time.Minute, 90: time.Minute} {
		for range 50 {
			d := restartDelay(n)
			assert.GreaterOrEqual(t, d, want*8/10)
			assert.LessOrEqual(t, d, want*12/10)
		}
	}
}

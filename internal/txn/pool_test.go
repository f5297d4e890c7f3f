package txn

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// pool returns a pool of three ids on the bench's broker.
func (b *bench) pool(t *testing.T, prefix string, extra ...kgo.Opt) *Pool {
	t.Helper()
	timeouts, err := b.Timeouts(t.Context(), time.Minute)
	require.NoError(t, err)
	p := NewPool(PoolConfig{
		Broker: b.Broker, Sink: "out", Timeouts: timeouts, Log: discard(),
		Pool:   checkpoint.Pool{ClusterID: "cluster", Prefix: prefix, Index: 0, Size: 3},
		Client: append(append(b.opts[:len(b.opts):len(b.opts)], kgo.ProducerLinger(0)), extra...),
	})
	t.Cleanup(p.Close)
	return p
}

// errs collects what promises report.
type errs struct {
	mu  sync.Mutex
	all []error
}

func (e *errs) done(_ *kgo.Record, err error) {
	if err != nil {
		e.mu.Lock()
		e.all = append(e.all, err)
		e.mu.Unlock()
	}
}

func (e *errs) list() []error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.all
}

func (b *bench) records(values ...string) []*kgo.Record {
	var rs []*kgo.Record
	for i, v := range values {
		rs = append(rs, &kgo.Record{Topic: b.topic, Value: []byte(v), Key: []byte(fmt.Sprint(i))})
	}
	return rs
}

// seal writes values in a new transaction of an id and seals it.
func (b *bench) seal(t *testing.T, p *Pool, id int32, values ...string) (*Transaction, checkpoint.Committable) {
	t.Helper()
	var e errs
	tx := p.Begin(id, e.done)
	require.NoError(t, tx.Ready(t.Context()))
	tx.Produce(b.records(values...))
	require.NoError(t, tx.Flush(t.Context()))
	require.Empty(t, e.list())
	c, err := tx.Seal()
	require.NoError(t, err)
	require.NotNil(t, c)
	return tx, *c
}

// committed reads the topic as a read_committed consumer until it is at the end of what is stable, and returns the
// values. It fails where a transaction is still open, because then there is more to come.
func (b *bench) committed(t *testing.T) []string {
	t.Helper()
	return readCommitted(t, b.addrs, b.topic)
}

// sealsAndCommits goes through the ids of a pool several times, each transaction overlapping with the next.
func sealsAndCommits(t *testing.T, b *bench) {
	b = b.withTopic(t)
	p := b.pool(t, realkafka.Name(t))
	_, err := p.Init(t.Context(), []checkpoint.Pool{p.cfg.Pool}, nil)
	require.NoError(t, err)
	clients := map[int32]*client{}
	var want []string
	// Two transactions overlap, as they do when the record is written while the next one fills.
	before := checkpoint.Committable{}
	for n := range 8 {
		id := int32(n % 3)
		value := fmt.Sprint("v", n)
		want = append(want, value)
		tx, c := b.seal(t, p, id, value)
		if was := clients[id]; was != nil {
			require.Same(t, was, tx.client, "the client of id %d is kept after its EndTransaction returned nil", id)
		}
		clients[id] = tx.client
		require.Equal(t, ID(p.cfg.Pool, id), c.TransactionalID)
		require.Equal(t, int64(1), c.Records)
		require.Len(t, c.Topics, 1)
		require.Equal(t, b.topic, c.Topics[0].Topic)
		if before.TransactionalID != "" {
			verdict, err := p.Commit(t.Context(), before)
			require.NoError(t, err)
			require.Equal(t, checkpoint.Committed, verdict)
		}
		before = c
	}
	_, err = p.Commit(t.Context(), before)
	require.NoError(t, err)
	require.ElementsMatch(t, want, b.committed(t))
}

// commitsOverNewConnections: a commit whose connection was closed for being idle is not certain to be complete, so its
// client is given up, and the id goes on with another one.
func commitsOverNewConnections(t *testing.T, b *bench) {
	b = b.withTopic(t)
	p := b.pool(t, realkafka.Name(t), kgo.ConnIdleTimeout(100*time.Millisecond))
	_, err := p.Init(t.Context(), []checkpoint.Pool{p.cfg.Pool}, nil)
	require.NoError(t, err)
	var want []string
	for n := range 4 {
		value := fmt.Sprint("v", n)
		want = append(want, value)
		_, c := b.seal(t, p, 0, value)
		<-time.After(400 * time.Millisecond) // longer than a connection may be idle
		verdict, err := p.Commit(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, checkpoint.Committed, verdict)
	}
	require.ElementsMatch(t, want, b.committed(t))
}

// TestSealedTransactionSurvivesClose: rule "a sink's Close never aborts a sealed transaction", and what the next process
// does with it.
func TestSealedTransactionSurvivesClose(t *testing.T) {
	b := newBench(t, realkafka.Shared(t))
	p := b.pool(t, realkafka.Name(t))
	_, c := b.seal(t, p, 0, "a", "b")
	p.Close()
	require.Equal(t, "Ongoing", b.seen(t, c.TransactionalID), "closing sends nothing")
	_, err := p.Commit(t.Context(), c)
	require.ErrorIs(t, err, context.Canceled, "a closed pool has lost its right to end transactions")
	require.Equal(t, "Ongoing", b.seen(t, c.TransactionalID))

	next := b.pool(t, p.cfg.Pool.Prefix)
	verdict, err := next.Commit(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, checkpoint.Committed, verdict)
	_, err = next.Init(t.Context(), []checkpoint.Pool{next.cfg.Pool}, nil)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"a", "b"}, b.committed(t))
}

// TestCommitAndInitOutliveTheBroker kills the broker before the commit: the client's EndTransaction fails, and the raw
// EndTxn finds out once the broker is back. An initialisation that was asked for meanwhile goes on too.
func TestCommitAndInitOutliveTheBroker(t *testing.T) {
	cluster := realkafka.Start(t, realkafka.Options{})
	b := newBench(t, cluster)
	closedMeanwhile(t, b.withTopic(t))
	p := b.pool(t, realkafka.Name(t), kgo.RetryTimeout(2*time.Second))
	_, c := b.seal(t, p, 0, "a")
	require.NoError(t, cluster.Kill(0))
	type answer struct {
		verdict checkpoint.Verdict
		err     error
	}
	got := make(chan answer, 1)
	go func() {
		verdict, err := p.Commit(t.Context(), c)
		got <- answer{verdict, err}
	}()
	require.Eventually(t, func() bool { // the client has given up, so the raw EndTxn is asking
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.taken) == 0 && len(p.idle) == 0
	}, time.Minute, 10*time.Millisecond)
	initialised := make(chan error, 1)
	id := realkafka.Name(t)
	go func() {
		_, err := b.Init(t.Context(), []string{id}, nil, Timeouts{Candidates: []time.Duration{time.Minute}}, nil)
		initialised <- err
	}()
	require.NoError(t, cluster.Restart(0))
	require.Equal(t, answer{checkpoint.Committed, nil}, <-got)
	require.NoError(t, <-initialised)
	require.Equal(t, "Empty", b.seen(t, id))
	require.Equal(t, []string{"a"}, b.committed(t))
	// The client was closed, so the id gets a new one.
	_, c = b.seal(t, p, 0, "b")
	_, err := p.Commit(t.Context(), c)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"a", "b"}, b.committed(t))
	answerLostWithTheBroker(t, b.withTopic(t))
}

// closedMeanwhile closes a pool while its client waits for the answer of a silent broker: nobody can tell then, and the
// next process finds out.
func closedMeanwhile(t *testing.T, b *bench) {
	p := b.pool(t, realkafka.Name(t))
	_, c := b.seal(t, p, 0, "a")
	require.NoError(t, b.cluster.Pause(0))
	got := make(chan error, 1)
	go func() {
		_, err := p.Commit(t.Context(), c)
		got <- err
	}()
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.taken) == 0 // Commit has taken it
	}, time.Minute, time.Millisecond)
	p.Close()
	require.ErrorIs(t, <-got, ErrClosed)
	require.NoError(t, b.cluster.Continue(0))
	verdict, err := b.Commit(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, checkpoint.Committed, verdict)
	require.Equal(t, []string{"a"}, b.committed(t))
}

func TestAbortEndsWhatIsOpenOrSealedAndFreesTheID(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		t.Run(fmt.Sprintf("sealed %v", sealed), func(t *testing.T) {
			b := newBench(t, realkafka.Shared(t))
			p := b.pool(t, realkafka.Name(t))
			tx := p.Begin(0, func(*kgo.Record, error) {})
			require.NoError(t, tx.Ready(t.Context()))
			tx.Produce(b.records("lost"))
			require.NoError(t, tx.Flush(t.Context()))
			if sealed {
				_, err := tx.Seal()
				require.NoError(t, err)
			}
			require.NoError(t, p.Abort(t.Context(), 0))
			require.ErrorIs(t, tx.Ready(t.Context()), ErrClosed, "nobody may use it any more")

			_, c := b.seal(t, p, 0, "kept")
			verdict, err := p.Commit(t.Context(), c)
			require.NoError(t, err)
			require.Equal(t, checkpoint.Committed, verdict)
			require.Equal(t, []string{"kept"}, b.committed(t))
		})
	}
}

// TestInitFencesALivingProcess: eager fencing at start.
func TestInitFencesALivingProcess(t *testing.T) {
	b := newBench(t, realkafka.Shared(t))
	zombie := b.pool(t, realkafka.Name(t))
	var e errs
	tx := zombie.Begin(0, e.done)
	require.NoError(t, tx.Ready(t.Context()))
	tx.Produce(b.records("zombie"))
	require.NoError(t, tx.Flush(t.Context()))

	next := b.pool(t, zombie.cfg.Pool.Prefix)
	_, err := next.Init(t.Context(), []checkpoint.Pool{next.cfg.Pool}, nil)
	require.NoError(t, err)
	tx.Produce(b.records("late"))
	require.NoError(t, tx.Flush(t.Context()))
	require.NotEmpty(t, e.list())
	requireFenced(t, tx.Diagnose(t.Context(), e.list()[0]))
	_, err = tx.Seal()
	require.Error(t, err)
	require.Empty(t, b.committed(t))
}

func TestOwnTimeoutIsAnOrdinaryFailure(t *testing.T) {
	b := newBench(t, realkafka.Shared(t))
	p := b.pool(t, realkafka.Name(t))
	p.timeout = 2 * time.Second
	var e errs
	tx := p.Begin(0, e.done)
	require.NoError(t, tx.Ready(t.Context()))
	tx.Produce(b.records("early"))
	require.NoError(t, tx.Flush(t.Context()))
	b.eventually(t, tx.name, "CompleteAbort")
	tx.Produce(b.records("late"))
	require.NoError(t, tx.Flush(t.Context()))
	require.NotEmpty(t, e.list())
	require.ErrorIs(t, e.list()[0], kerr.InvalidProducerEpoch)
	require.NoError(t, tx.Diagnose(t.Context(), e.list()[0]))
}

// TestIDIsStillOursAfterItsSealedTransactionTimedOut: the timeout has raised the epoch, which is nobody else's doing.
func TestIDIsStillOursAfterItsSealedTransactionTimedOut(t *testing.T) {
	b := newBench(t, realkafka.Shared(t))
	p := b.pool(t, realkafka.Name(t))
	timeouts := p.cfg.Timeouts
	timeouts.Candidates = []time.Duration{2 * time.Second}
	p.cfg.Timeouts = timeouts
	_, err := p.Init(t.Context(), []checkpoint.Pool{p.cfg.Pool}, nil)
	require.NoError(t, err)
	tx, c := b.seal(t, p, 0, "late")
	b.eventually(t, tx.name, "CompleteAbort")
	verdict, err := p.Commit(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, checkpoint.Aborted, verdict)
	require.NoError(t, p.Abort(t.Context(), 0))
	_, c = b.seal(t, p, 0, "again")
	verdict, err = p.Commit(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, checkpoint.Committed, verdict)
	require.Equal(t, []string{"again"}, b.committed(t))
}

// TestEmptyTransactionIsNotSealed: rule 4.
func TestEmptyTransactionIsNotSealed(t *testing.T) {
	b := newBench(t, realkafka.Shared(t))
	p := b.pool(t, realkafka.Name(t))
	tx := p.Begin(0, func(*kgo.Record, error) {})
	c, err := tx.Seal()
	require.NoError(t, err)
	require.Nil(t, c)
	require.Equal(t, "no such id", b.seen(t, tx.name), "nothing is sent before the first record")
	require.NoError(t, tx.Ready(t.Context()))
	require.NoError(t, tx.Flush(t.Context()))
	c, err = tx.Seal()
	require.NoError(t, err)
	require.Nil(t, c)
}

// TestSealRefusesWhatIsNotAllAcknowledged: rule 5.
func TestSealRefusesWhatIsNotAllAcknowledged(t *testing.T) {
	b := newBench(t, realkafka.Shared(t))
	p := b.pool(t, realkafka.Name(t))
	tx := p.Begin(0, func(*kgo.Record, error) {})
	require.NoError(t, tx.Ready(t.Context()))
	tx.Produce(b.records("a"))
	require.NoError(t, tx.Flush(t.Context()))
	tx.sent.Add(1) // one more that nobody has acknowledged
	_, err := tx.Seal()
	require.ErrorContains(t, err, "1 of 2 records are not acknowledged")
	tx.promise(&kgo.Record{Topic: b.topic, ProducerID: tx.producerID, ProducerEpoch: tx.epoch + 1}, nil)
	_, err = tx.Seal()
	require.ErrorContains(t, err, "more than one producer id or epoch")
}

// TestCloseEndsEveryWait: a broker that is away must not hold up Halt or Close.
func TestCloseEndsEveryWait(t *testing.T) {
	opts := []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}
	broker, err := Dial(opts, "", discard())
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	newPool := func() *Pool {
		return NewPool(PoolConfig{
			Broker: broker, Client: opts, Log: discard(),
			Timeouts: Timeouts{Candidates: []time.Duration{time.Minute}},
			Pool:     checkpoint.Pool{Prefix: "p", Size: 3},
		})
	}
	cases := []struct {
		name string
		end  func(*Pool, *Transaction)
	}{
		{"the transaction is closed", func(_ *Pool, tx *Transaction) { tx.Close() }},
		{"the pool is closed", func(p *Pool, _ *Transaction) { p.Close() }},
		{"the id is begun anew", func(p *Pool, _ *Transaction) { p.Begin(0, func(*kgo.Record, error) {}) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := newPool()
			defer p.Close()
			tx := p.Begin(0, func(*kgo.Record, error) {})
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, tx.Ready(ctx), context.Canceled, "the context ends the waiting alone")
			ended := make(chan error, 1)
			go func() { ended <- tx.Ready(t.Context()) }()
			c.end(p, tx)
			require.ErrorIs(t, <-ended, ErrClosed)
			require.ErrorIs(t, tx.Ready(t.Context()), ErrClosed)
		})
	}
}

func TestCloseBeforeBeginSendsNothing(t *testing.T) {
	b := newBench(t, realkafka.Shared(t))
	p := b.pool(t, realkafka.Name(t))
	tx := p.Begin(0, func(*kgo.Record, error) {})
	tx.Close()
	tx.Close()
	require.ErrorIs(t, tx.Ready(t.Context()), ErrClosed)
	require.Equal(t, "no such id", b.seen(t, tx.name))
	p.Close()
	require.ErrorIs(t, p.Begin(1, func(*kgo.Record, error) {}).Ready(t.Context()), ErrClosed)
}

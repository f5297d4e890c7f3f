package txn

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/tests/kafkaproxy"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// recovery is one of a prefix's ids, up to their initialisation.
type recovery struct {
	*bench
	pool   *Pool
	before Standing
}

func (b *bench) recover(t *testing.T, prefix string) *recovery {
	t.Helper()
	r := &recovery{bench: b, pool: b.pool(t, prefix)}
	var err error
	r.before, err = b.Note(t.Context(), IDs([]checkpoint.Pool{r.pool.cfg.Pool}))
	require.NoError(t, err)
	require.Len(t, r.before, 3)
	return r
}

func (r *recovery) init(t *testing.T) error {
	t.Helper()
	_, err := r.pool.Init(t.Context(), []checkpoint.Pool{r.pool.cfg.Pool}, r.before)
	return err
}

func (b *bench) commit(t *testing.T, c checkpoint.Committable) {
	t.Helper()
	verdict, err := b.Commit(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, checkpoint.Committed, verdict)
}

// predecessor is what a killed process leaves: transactions with this timeout that are open, sealed and committed.
func (b *bench) predecessor(t *testing.T, prefix string, timeout time.Duration) (open, sealed checkpoint.Committable) {
	t.Helper()
	p := b.pool(t, prefix)
	p.cfg.Timeouts.Candidates = []time.Duration{timeout}
	_, err := p.Init(t.Context(), []checkpoint.Pool{p.cfg.Pool}, nil)
	require.NoError(t, err)
	_, done := b.seal(t, p, 2, "committed by the predecessor")
	verdict, err := p.Commit(t.Context(), done)
	require.NoError(t, err)
	require.Equal(t, checkpoint.Committed, verdict)
	_, sealed = b.seal(t, p, 1, "sealed")
	_, open = b.seal(t, p, 0, "open")
	p.Close()
	return open, sealed
}

// startIsNotRefused: what a recovery itself, or a timeout, does to the ids between its first look at them and their
// initialisation is never taken for another owner's.
func startIsNotRefused(t *testing.T, b *bench) {
	for name, between := range map[string]func(t *testing.T, b *bench, open, sealed checkpoint.Committable){
		"nothing": func(*testing.T, *bench, checkpoint.Committable, checkpoint.Committable) {},
		"the recovery's own commit": func(t *testing.T, b *bench, _, sealed checkpoint.Committable) {
			b.commit(t, sealed)
			b.commit(t, sealed) // its first answer was lost
		},
		"timeouts": func(t *testing.T, b *bench, open, sealed checkpoint.Committable) {
			b.eventually(t, open.TransactionalID, "CompleteAbort")
			b.eventually(t, sealed.TransactionalID, "CompleteAbort")
		},
		"a commit, and the timeout of the other": func(t *testing.T, b *bench, open, sealed checkpoint.Committable) {
			b.commit(t, sealed)
			b.eventually(t, open.TransactionalID, "CompleteAbort")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, prefix := b.withTopic(t), realkafka.Name(t)
			open, sealed := b.predecessor(t, prefix, 6*time.Second)
			r := b.recover(t, prefix)
			between(t, b, open, sealed)
			require.NoError(t, r.init(t))
			_, c := b.seal(t, r.pool, 0, "goes on")
			b.commit(t, c)
		})
	}
	t.Run("ids that nobody has used", func(t *testing.T) {
		require.NoError(t, b.recover(t, realkafka.Name(t)).init(t))
	})
	t.Run("a recovery that was killed while it initialised", func(t *testing.T) {
		prefix := realkafka.Name(t)
		b := b.withTopic(t)
		b.predecessor(t, prefix, time.Minute)
		_, err := b.Init(t.Context(), []string{prefix + "-0-0"}, nil, Timeouts{Candidates: []time.Duration{time.Minute}}, nil)
		require.NoError(t, err)
		require.NoError(t, b.recover(t, prefix).init(t))
	})
}

// sleeperInRecoveryIsRefused: a recovery sleeps, another process recovers from a copy of its state, and the first wakes.
func sleeperInRecoveryIsRefused(t *testing.T, b *bench) {
	for name, successor := range map[string]func(t *testing.T, b *bench, p *Pool){
		"has only initialised": func(*testing.T, *bench, *Pool) {},
		"has a transaction open": func(t *testing.T, b *bench, p *Pool) {
			b.seal(t, p, 0, "of the successor")
		},
		"has committed": func(t *testing.T, b *bench, p *Pool) {
			for range 2 {
				_, c := b.seal(t, p, 0, "of the successor")
				verdict, err := p.Commit(t.Context(), c)
				require.NoError(t, err)
				require.Equal(t, checkpoint.Committed, verdict)
			}
		},
	} {
		for _, ownCommit := range []bool{false, true} {
			t.Run("the successor "+name, func(t *testing.T) {
				t.Parallel()
				b, prefix := b.withTopic(t), realkafka.Name(t)
				_, sealed := b.predecessor(t, prefix, time.Minute)
				sleeper := b.recover(t, prefix)
				if ownCommit {
					b.commit(t, sealed)
				}
				next := b.recover(t, prefix)
				b.commit(t, sealed)
				require.NoError(t, next.init(t))
				successor(t, b, next.pool)
				before := b.standings(t, next.before)
				requireFenced(t, sleeper.init(t))
				require.Equal(t, before, b.standings(t, next.before), "nothing was touched")
			})
		}
	}
	t.Run("on ids that nobody had used", func(t *testing.T) {
		prefix := realkafka.Name(t)
		sleeper := b.recover(t, prefix)
		require.NoError(t, b.recover(t, prefix).init(t))
		err := sleeper.init(t)
		requireFenced(t, err)
		require.ErrorContains(t, err, "nobody had it before")
	})
}

func (b *bench) standings(t *testing.T, of Standing) Standing {
	t.Helper()
	var ids []string
	for id := range of {
		ids = append(ids, id)
	}
	now, err := b.Note(t.Context(), ids)
	require.NoError(t, err)
	return now
}

// abortKnowsItsOwnDoing: an abort finds an id where lost answers of this very process, or a timeout that came while the
// broker was away, have brought it. Neither is another owner's doing.
func abortKnowsItsOwnDoing(t *testing.T, b *bench) {
	t.Run("a client was closed before it knew that it had initialised", func(t *testing.T) {
		t.Parallel()
		b := b.withTopic(t)
		p, proxy := b.proxied(t)
		_, err := p.Init(t.Context(), []checkpoint.Pool{p.cfg.Pool}, nil)
		require.NoError(t, err)
		proxy.Set(kafkaproxy.Rule{Key: kmsg.InitProducerID, Side: kafkaproxy.Answer, Effect: kafkaproxy.Drop})
		before, err := b.describe(t.Context(), ID(p.cfg.Pool, 0))
		require.NoError(t, err)
		p.cfg.Broker = b.Broker // whose own answers arrive
		var e errs
		tx := p.Begin(0, e.done)
		go func() { _ = tx.Ready(t.Context()) }()
		require.Eventually(t, func() bool { // by reinit, and by the client
			now, err := b.describe(t.Context(), ID(p.cfg.Pool, 0))
			return err == nil && now.epoch >= before.epoch+2
		}, 20*time.Second, 5*time.Millisecond)
		require.NoError(t, p.Abort(t.Context(), 0))
		proxy.Clear()
		_, c := b.seal(t, p, 0, "goes on")
		b.commit(t, c)
	})
	t.Run("the answer to the abort itself was lost", func(t *testing.T) {
		t.Parallel()
		b := b.withTopic(t)
		p, proxy := b.proxied(t)
		_, err := p.Init(t.Context(), []checkpoint.Pool{p.cfg.Pool}, nil)
		require.NoError(t, err)
		proxy.Set(kafkaproxy.Rule{Key: kmsg.InitProducerID, Side: kafkaproxy.Answer, Effect: kafkaproxy.Cut, Times: 1})
		require.NoError(t, p.Abort(t.Context(), 0))
		require.Equal(t, 1, proxy.Clear())
		_, c := b.seal(t, p, 0, "goes on")
		b.commit(t, c)
	})
	t.Run("a timeout found out by its commit", func(t *testing.T) {
		t.Parallel()
		b := b.withTopic(t)
		p := b.pool(t, realkafka.Name(t))
		p.cfg.Timeouts.Candidates = []time.Duration{6 * time.Second}
		_, err := p.Init(t.Context(), []checkpoint.Pool{p.cfg.Pool}, nil)
		require.NoError(t, err)
		_, c := b.seal(t, p, 0, "lost")
		b.eventually(t, c.TransactionalID, "CompleteAbort")
		verdict, err := p.Commit(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, checkpoint.Aborted, verdict)
		require.NoError(t, p.Abort(t.Context(), 0))
		_, c = b.seal(t, p, 0, "goes on")
		b.commit(t, c)
	})
	t.Run("a timeout while the question was on its way", func(t *testing.T) {
		t.Parallel()
		b := b.withTopic(t)
		p, proxy := b.proxied(t)
		p.cfg.Timeouts.Candidates = []time.Duration{6 * time.Second}
		_, err := p.Init(t.Context(), []checkpoint.Pool{p.cfg.Pool}, nil)
		require.NoError(t, err)
		_, c := b.seal(t, p, 0, "lost")
		proxy.Sever(true)
		aborted := make(chan error, 1)
		go func() { aborted <- p.Abort(t.Context(), 0) }()
		b.eventually(t, c.TransactionalID, "CompleteAbort")
		proxy.Sever(false)
		require.NoError(t, <-aborted)
		_, c = b.seal(t, p, 0, "goes on")
		b.commit(t, c)
	})
}

// proxied is a pool of its own whose clients go through a proxy.
func (b *bench) proxied(t *testing.T, extra ...kgo.Opt) (*Pool, *kafkaproxy.Proxy) {
	t.Helper()
	proxy, err := kafkaproxy.New(b.addrs)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	through := *b
	through.opts = []kgo.Opt{kgo.SeedBrokers(proxy.Bootstrap()...)}
	through.Broker, err = Dial(through.opts, "", discard())
	require.NoError(t, err)
	t.Cleanup(through.Broker.Close)
	return through.pool(t, realkafka.Name(t), extra...), proxy
}

// answerLostWithTheBroker: the broker initialises an id, and dies before its answer arrives. Restarted, it no longer
// knows that the owner it refuses is the very one.
func answerLostWithTheBroker(t *testing.T, b *bench) {
	p, proxy := b.proxied(t)
	_, err := p.Init(t.Context(), []checkpoint.Pool{p.cfg.Pool}, nil)
	require.NoError(t, err)
	proxy.Set(kafkaproxy.Rule{Key: kmsg.InitProducerID, Side: kafkaproxy.Answer, Effect: kafkaproxy.Drop, Times: 1})
	aborted := make(chan error, 1)
	go func() { aborted <- p.Abort(t.Context(), 0) }()
	require.Eventually(t, func() bool { return proxy.Hits() == 1 }, 20*time.Second, 5*time.Millisecond)
	require.NoError(t, b.cluster.Kill(0))
	require.NoError(t, b.cluster.Restart(0))
	require.NoError(t, <-aborted)
	_, c := b.seal(t, p, 0, "goes on")
	b.commit(t, c)
}

package kafkasink

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/txn"
	"github.com/tidegate/tidegate/tests/kafkaproxy"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// grouped makes a sink whose transactions no checkpoint decides about, for so many writers.
func grouped(writers int) option {
	return func(c *Config, s *seat) { s.unchecked, c.Writers = true, writers }
}

// eachVersion runs a test on a cluster of each transaction.version, of its own where it does things to the broker.
func eachVersion(t *testing.T, own bool, test func(*testing.T, *realkafka.Cluster)) {
	t.Run("transaction.version 2", func(t *testing.T) {
		if own {
			test(t, realkafka.Start(t, realkafka.Options{}))
			return
		}
		test(t, realkafka.Shared(t))
	})
	t.Run("transaction.version 0", func(t *testing.T) {
		if own {
			test(t, realkafka.Start(t, realkafka.Options{Features: map[string]int{"transaction.version": 0}}))
			return
		}
		test(t, realkafka.SharedOld(t))
	})
}

// together writes batches of one record each at once, and returns what their writers were told.
func (r *rig) together(t *testing.T, values ...string) map[string]error {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	told := map[string]error{}
	for _, v := range values {
		wg.Go(func() {
			err := r.WriteBatch(soon(t), r.batch(checkpoint.Tag{}, v))
			mu.Lock()
			defer mu.Unlock()
			told[v] = err
		})
	}
	wg.Wait()
	return told
}

func (r *rig) allFine(t *testing.T, values ...string) {
	t.Helper()
	for v, err := range r.together(t, values...) {
		require.NoError(t, err, v)
	}
}

func TestWriteIsAnsweredOnceItsTransactionHasCommitted(t *testing.T) {
	eachVersion(t, false, func(t *testing.T, cluster *realkafka.Cluster) {
		var groups atomic.Int64
		r := realRig(t, cluster, grouped(8), func(c *Config, _ *seat) {
			c.Metrics.Committed = func(int, int) { groups.Add(1) }
		})
		var want []string
		for round := range 5 {
			var values []string
			for i := range 8 {
				values = append(values, fmt.Sprintf("%d-%d", round, i))
			}
			r.allFine(t, values...)
			want = append(want, values...)
			require.Equal(t, want, r.values(t))
		}
		require.Less(t, groups.Load(), int64(15), "batches share transactions")
		require.Empty(t, r.seat.fatals())
	})
}

// TestLonelyWriterKeepsOrderAndDoesNotWaitForTheInterval: with max_in_flight 1 every writer waits at once; with more,
// silence ends the transaction.
func TestLonelyWriterKeepsOrderAndDoesNotWaitForTheInterval(t *testing.T) {
	for _, writers := range []int{1, 64} {
		t.Run(fmt.Sprint(writers), func(t *testing.T) {
			r := realRig(t, realkafka.Shared(t), grouped(writers), func(c *Config, _ *seat) { c.CommitInterval = 20 * time.Second })
			began := time.Now()
			var want []string
			for i := range 20 {
				v := fmt.Sprintf("%02d", i)
				r.write(t, checkpoint.Tag{}, v)
				want = append(want, v)
			}
			require.Equal(t, want, r.values(t))
			require.Less(t, time.Since(began), 20*time.Second)
		})
	}
}

// TestBatchThatTheBrokerRefusesIsHandedBackAlone on a topic that takes only small records.
func TestBatchThatTheBrokerRefusesIsHandedBackAlone(t *testing.T) {
	eachVersion(t, false, func(t *testing.T, cluster *realkafka.Cluster) {
		r := newRig(t, cluster.Bootstrap(), cluster.Topic(t, 1, "max.message.bytes", "2000"), exactlyOnce(realkafka.Name(t)), grouped(16))
		_, err := r.Connect(t.Context())
		require.NoError(t, err)
		big := string(make([]byte, 3000))
		values, want := []string{big}, []string(nil)
		for i := range 15 {
			v := fmt.Sprintf("%02d", i)
			values, want = append(values, v), append(want, v)
		}
		for v, err := range r.together(t, values...) {
			if v == big {
				require.ErrorIs(t, err, kerr.MessageTooLarge)
			} else {
				require.NoError(t, err, v)
			}
		}
		require.Equal(t, want, r.values(t))
		r.write(t, checkpoint.Tag{}, "next")
		require.Empty(t, r.seat.fatals())

		missing := Record{Record: kgo.Record{Topic: realkafka.Name(t) + "-absent", Value: []byte("x")}}
		var notThere *MissingTopicError
		require.ErrorAs(t, r.WriteBatch(soon(t), []Record{missing}), &notThere)
		require.Equal(t, append(want, "next"), r.values(t))
	})
}

// TestTransactionThatRanIntoItsTimeoutIsWrittenAgain: below transaction.version 2 that looks like another owner.
func TestTransactionThatRanIntoItsTimeoutIsWrittenAgain(t *testing.T) {
	for name, rule := range map[string]kafkaproxy.Rule{
		"its end did not get through":           {Key: kmsg.EndTxn, Effect: kafkaproxy.Cut},
		"a part of its records did not, either": {Key: kmsg.Produce, Effect: kafkaproxy.Cut, After: 1},
	} {
		t.Run(name, func(t *testing.T) {
			eachVersion(t, false, func(t *testing.T, cluster *realkafka.Cluster) {
				var aborts atomic.Int64
				r, proxy := proxyRig(t, cluster, grouped(2), func(c *Config, _ *seat) {
					c.TransactionTimeout, c.CommitInterval = 2*time.Second, time.Second
					c.Metrics.Aborted = func() { aborts.Add(1) }
				})
				proxy.Set(rule)
				// So large, with its key, that each record is a request of its own.
				large := strings.Repeat("x", 300_000)
				done := make(chan map[string]error, 1)
				go func() { done <- r.together(t, large+"a", large+"b") }()
				require.Eventually(t, func() bool { return r.state(t, txn.ID(r.cfg.Pool, 0)) == "CompleteAbort" },
					60*time.Second, 50*time.Millisecond)
				proxy.Clear()
				require.Equal(t, map[string]error{large + "a": nil, large + "b": nil}, <-done)
				require.Equal(t, []string{large + "a", large + "b"}, r.values(t))
				require.Positive(t, aborts.Load())
				for range 2 * r.cfg.Pool.Size { // the id is used again, and not taken for another owner's
					r.allFine(t, "c", "d")
				}
				require.Empty(t, r.seat.fatals())
			})
		})
	}
}

// proxyRig is connected to Apache Kafka through a proxy.
func proxyRig(t *testing.T, cluster *realkafka.Cluster, options ...option) (*rig, *kafkaproxy.Proxy) {
	t.Helper()
	proxy, err := kafkaproxy.New(cluster.Bootstrap())
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	r := newRig(t, proxy.Bootstrap(), cluster.Topic(t, 1), append([]option{exactlyOnce(realkafka.Name(t))}, options...)...)
	_, err = r.Connect(t.Context())
	require.NoError(t, err)
	return r, proxy
}

// TestLostAnswerToACommitIsAskedForAgain: the transaction is committed, and written once.
func TestLostAnswerToACommitIsAskedForAgain(t *testing.T) {
	eachVersion(t, false, func(t *testing.T, cluster *realkafka.Cluster) {
		r, proxy := proxyRig(t, cluster, grouped(2), func(c *Config, _ *seat) { c.Metrics.Aborted = func() { t.Error("nothing was aborted") } })
		proxy.Set(kafkaproxy.Rule{Key: kmsg.EndTxn, Side: kafkaproxy.Answer, Effect: kafkaproxy.Cut, Times: 3})
		r.allFine(t, "a", "b")
		require.Positive(t, proxy.Clear())
		require.Equal(t, []string{"a", "b"}, r.values(t))
		r.allFine(t, "c", "d", "e", "f", "g", "h", "i", "j")
		require.Len(t, r.values(t), 10)
		require.Empty(t, r.seat.fatals())
	})
}

// TestWritesGoOnThroughDyingBrokers: whatever is answered is there once.
func TestWritesGoOnThroughDyingBrokers(t *testing.T) {
	eachVersion(t, true, func(t *testing.T, cluster *realkafka.Cluster) {
		r := realRig(t, cluster, grouped(4), func(c *Config, _ *seat) { c.CommitInterval = 100 * time.Millisecond })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		var want []string
		var wg sync.WaitGroup
		for writer := range 4 {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					v := fmt.Sprintf("%d-%d", writer, n)
					require.NoError(t, r.WriteBatch(t.Context(), r.batch(checkpoint.Tag{}, v)))
					mu.Lock()
					want = append(want, v)
					mu.Unlock()
				}
			})
		}
		for range 3 {
			before := r.soFar(&mu, &want)
			require.Eventually(t, func() bool { return r.soFar(&mu, &want) > before+20 }, time.Minute, 10*time.Millisecond)
			require.NoError(t, cluster.Kill(0))
			require.NoError(t, cluster.Restart(0))
		}
		before := r.soFar(&mu, &want)
		require.Eventually(t, func() bool { return r.soFar(&mu, &want) > before+20 }, time.Minute, 10*time.Millisecond)
		cancel()
		wg.Wait()
		slices.Sort(want)
		require.Equal(t, want, r.values(t))
		require.Empty(t, r.seat.fatals())
	})
}

func (*rig) soFar(mu *sync.Mutex, all *[]string) int {
	mu.Lock()
	defer mu.Unlock()
	return len(*all)
}

// TestSecondOwnerEndsTheFirst, which tells the senders that their batches are not there, and does not take the ids back.
func TestSecondOwnerEndsTheFirst(t *testing.T) {
	eachVersion(t, false, func(t *testing.T, cluster *realkafka.Cluster) {
		r := realRig(t, cluster, grouped(2))
		r.allFine(t, "a", "b", "c", "d", "e", "f", "g", "h") // every id has a client that was kept
		other := newRig(t, r.addrs, r.topic, exactlyOnce(r.cfg.Pool.Prefix), grouped(2))
		_, err := other.Connect(t.Context())
		require.NoError(t, err)
		other.write(t, checkpoint.Tag{}, "theirs")
		for v, err := range r.together(t, "late", "later") {
			require.Error(t, err, v)
			require.ErrorContains(t, err, "another process or sink uses the same `transactional_id_prefix`")
		}
		require.Len(t, r.seat.fatals(), 1)
		other.allFine(t, "1", "2", "3", "4", "5", "6", "7", "8")
		require.Empty(t, other.seat.fatals(), "it is not fenced back")
		require.NotContains(t, r.values(t), "late")
	})
}

// TestWhatAKilledProcessLeftOpenIsAbortedAtTheNextStart.
func TestWhatAKilledProcessLeftOpenIsAbortedAtTheNextStart(t *testing.T) {
	eachVersion(t, false, func(t *testing.T, cluster *realkafka.Cluster) {
		r, proxy := proxyRig(t, cluster, grouped(1))
		proxy.Set(kafkaproxy.Rule{Key: kmsg.EndTxn, Effect: kafkaproxy.Drop})
		ctx, cancel := context.WithCancel(t.Context())
		told := blocked(t, func() error { return r.WriteBatch(ctx, r.batch(checkpoint.Tag{}, "open")) })
		require.Eventually(t, func() bool { return proxy.Hits() > 0 }, 30*time.Second, 10*time.Millisecond)
		cancel()
		var unsettled *UnsettledError
		require.ErrorAs(t, <-told, &unsettled)
		r.Close()
		next := newRig(t, cluster.Bootstrap(), r.topic, exactlyOnce(r.cfg.Pool.Prefix), grouped(1))
		_, err := next.Connect(t.Context())
		require.NoError(t, err)
		next.write(t, checkpoint.Tag{}, "again")
		require.Equal(t, []string{"again"}, next.values(t))
	})
}

// TestLargestBatchesPassThroughASmallWindow: what is in a transaction is bounded, and nobody waits for somebody who
// waits for him.
func TestLargestBatchesPassThroughASmallWindow(t *testing.T) {
	r := realRig(t, realkafka.Shared(t), grouped(8), window4)
	var values []string
	var wg sync.WaitGroup
	for i := range 8 {
		var batch []string
		for n := range 10 {
			batch = append(batch, fmt.Sprintf("%d-%d", i, n))
		}
		values = append(values, batch...)
		wg.Go(func() { require.NoError(t, r.WriteBatch(soon(t), r.batch(checkpoint.Tag{}, batch...))) })
	}
	wg.Wait()
	require.Equal(t, values, r.values(t))
}

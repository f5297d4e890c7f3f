package kafkasource

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/offsets"
	"github.com/tidegate/tidegate/internal/splits"
)

const soon = 10 * time.Millisecond

// grow adds partitions to a topic, and lets the producer know.
func (b *broker) grow(topic string, more int) {
	b.t.Helper()
	resp, err := b.admin.CreatePartitions(b.t.Context(), more, topic)
	require.NoError(b.t, err)
	require.NoError(b.t, resp.Error())
	*b = *brokerAt(b.t, b.servers)
}

// discovering is a config whose start mode would pass over what a new partition has, if it were used for one.
func discovering(b *broker, interval time.Duration, topics ...string) Config {
	cfg := baseConfig(b.servers, topics...)
	cfg.Start = offsets.Start{Mode: offsets.LatestStart}
	cfg.DiscoveryInterval, cfg.MetadataInterval = interval, never
	return cfg
}

// awaitReading waits until the attempt reads so many partitions.
func (s *source) awaitReading(partitions int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.reading() == partitions }, patience, time.Millisecond)
}

func (s *source) reading() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.att == nil {
		return 0
	}
	return len(s.att.splits)
}

func TestNewPartitionIsReadFromItsFirstRecordWithinTheAttempt(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produce("a", 0, "old")
	cfg := discovering(b, soon, "a")
	var discovered atomic.Int64
	cfg.Metrics.DiscoveredPartitions = func(n int64) { discovered.Add(n) }
	s := newSource(t, cfg)
	require.Equal(t, []int64{1}, offsetsOf(s.resolve(nil)))
	waiting := s.background()
	stays(t, waiting)

	b.grow("a", 2)
	b.produce("a", 1, "x0", "x1")
	got := receive(t, waiting, "a record of a new partition")
	require.Equal(t, tag(1), got.Tag)
	got.Ack(t.Context(), nil)
	for n := len(got.Records); n < 2; n++ {
		s.read(1)
	}
	b.produce("a", 0, "x2")
	require.Equal(t, []string{"a-0@1=x2"}, s.read(1))
	state := s.pause()
	require.Equal(t, []int64{2, 2, 0}, offsetsOf(state), "a partition without records is in the state as well")
	require.NotZero(t, state.Splits[1].TopicID)
	require.Equal(t, state.Splits[0].TopicID, state.Splits[1].TopicID)
	require.EqualValues(t, 2, discovered.Load())
	require.Contains(t, s.log.String(), `level=INFO msg="new partitions discovered, reading them from their beginning" positions="a-1@0, a-2@0"`)
	require.Empty(t, s.seat.failed)
	require.Empty(t, s.seat.fatal)
}

func TestPartitionAddedBetweenResolveAndStartIsReadAtOnceFromItsFirstRecord(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	s := newSource(t, discovering(b, never, "a"))
	state, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	b.grow("a", 1)
	b.produce("a", 1, "x0")
	s.Start(tag(1), state)
	require.Equal(t, []string{"a-1@0=x0"}, s.read(1))
}

// At each moment of a barrier a discovery may come in. Nothing of the partition is emitted before the barrier is over, and
// so its positions have it at its beginning, or not at all.
func TestDiscoveryWithinABarrier(t *testing.T) {
	for name, tc := range map[string]struct {
		whileDraining bool
		want          []int64
	}{
		"before the last acknowledgement, P(n) has it at its beginning": {true, []int64{1, 0}},
		"after the positions were taken, P(n) does not have it":         {false, []int64{1}},
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeBroker(t, 1, "a")
			s := newSource(t, discovering(b, soon, "a"))
			s.resolve(nil)
			b.produce("a", 0, "x0")
			batch := s.next()
			grow := func() {
				b.grow("a", 1)
				b.produce("a", 1, "y0", "y1")
				s.awaitReading(2)
			}
			positions := make(chan checkpoint.SourceState, 1)
			go func() {
				if state, err := s.Pause(context.Background()); err == nil {
					positions <- state
				}
			}()
			s.awaitPaused()
			waiting := s.background()
			if tc.whileDraining {
				grow()
			}
			stays(t, positions)
			batch.Ack(t.Context(), nil)
			got := receive(t, positions, "the positions")
			if !tc.whileDraining {
				grow()
			}
			require.Equal(t, tc.want, offsetsOf(got))
			stays(t, waiting)
			s.Resume()
			first := receive(t, waiting, "the first batch behind the barrier")
			require.EqualValues(t, 1, first.Records[0].Partition)
			require.EqualValues(t, 0, first.Records[0].Offset)
			first.Ack(t.Context(), nil)

			// The process dies now, with what that barrier has reported: the batch was in an open transaction.
			b.produce("a", 0, "x1")
			again := newSource(t, discovering(b, never, "a"))
			require.NoError(t, again.Verify(t.Context(), got))
			again.resolve(&got)
			require.ElementsMatch(t, []string{"a-0@1=x1", "a-1@0=y0", "a-1@1=y1"}, again.read(3))
		})
	}
}

// A stream that goes back may do so to positions without a partition that is being read, or with it: to the last barrier
// that every sink completed (failover), to before the first checkpoint that is not committed (replay), or, in a new process,
// to what the newest record holds (crash).
func TestGoingBackReadsDiscoveredPartitionsOnceMore(t *testing.T) {
	const (
		discovered = iota // between the discovery and its first record
		emitted           // a record is emitted, and no barrier has come
		inBarrier         // the newest barrier holds the partition where it is
	)
	for name, at := range map[string]int{
		"failover or replay between the discovery and its first record": discovered,
		"failover or replay to before the discovery":                    emitted,
		"failover or replay to a barrier with the partition":            inBarrier,
	} {
		t.Run(name, func(t *testing.T) {
			for _, crash := range []bool{false, true} {
				t.Run(fmt.Sprintf("crash %v", crash), func(t *testing.T) { goBack(t, at >= emitted, at == inBarrier, crash) })
			}
		})
	}
}

func goBack(t *testing.T, emitted, inBarrier, crash bool) {
	b := fakeBroker(t, 1, "a")
	cfg := discovering(b, never, "a") // so that nothing but the beginning of an attempt looks for partitions
	var counted atomic.Int64
	cfg.Metrics.DiscoveredPartitions = func(n int64) { counted.Add(n) }
	s := newSource(t, cfg)
	known, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	b.grow("a", 1)
	b.produce("a", 1, "x0", "x1", "x2")
	s.cfg.MaxBatch = 1
	s.Start(tag(1), known)
	s.awaitReading(2)
	want := []string{"a-1@0=x0", "a-1@1=x1", "a-1@2=x2"}
	if emitted {
		require.Equal(t, want[:1], s.read(1))
	}
	if inBarrier {
		known = s.pause()
		require.Equal(t, want[1:2], s.read(1)) // behind the barrier
		want = want[1:]
	}

	if crash {
		require.NoError(t, s.Close(t.Context()))
		s = newSource(t, cfg)
		require.NoError(t, s.Verify(t.Context(), known))
		s.resolve(&known)
	} else {
		require.NoError(t, s.Halt(t.Context()))
		s.Start(tag(2), known)
	}
	require.Equal(t, want, s.read(len(want)), "from its beginning, or from the barrier's position, and at once")
	require.Equal(t, []int64{0, 3}, offsetsOf(s.pause()))
	require.EqualValues(t, 1, counted.Load(), "a partition is counted once, and not where a start has found it")
	require.Equal(t, !inBarrier && !crash, strings.Contains(s.log.String(), "from their beginning again"))
}

// As in Flink, what retention has taken by then is not missed: the beginning is looked up anew.
func TestRetentionBetweenTheDiscoveryAndAFailoverMovesTheBeginning(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	s := newSource(t, discovering(b, never, "a"))
	known, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	b.grow("a", 1)
	b.produce("a", 1, "x0", "x1", "x2")
	s.Start(tag(1), known)
	s.awaitReading(2)
	require.NoError(t, s.Halt(t.Context()))
	b.deleteRecords("a", 1, 2)
	s.Start(tag(2), known)
	require.Equal(t, []string{"a-1@2=x2"}, s.read(1))
}

// The attempt ends while the beginning of a partition is being asked for: the next one asks anew.
func TestAttemptThatEndsDuringADiscoveryLeavesItToTheNext(t *testing.T) {
	c, b := controlled(t)
	asked, answer := holdListOffsets(c)
	s := newSource(t, discovering(b, never, "a"))
	known, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	b.grow("a", 1)
	b.produce("a", 1, "x0")
	asked.Store(true)
	s.Start(tag(1), known)
	receive(t, answer.waits, "the question")
	require.NoError(t, s.Halt(t.Context()))
	s.Start(tag(2), known)
	asked.Store(false)
	close(answer.let)
	require.Equal(t, []string{"a-1@0=x0"}, s.read(1))
	require.Equal(t, 1, strings.Count(s.log.String(), "discovered"), s.log.String())
}

func TestGracefulStop(t *testing.T) {
	start := func(t *testing.T, hold bool) (*source, *broker, func()) {
		c, b := controlled(t)
		asked, answer := holdListOffsets(c)
		s := newSource(t, discovering(b, never, "a"))
		known, err := s.Resolve(t.Context(), nil)
		require.NoError(t, err)
		b.grow("a", 1)
		b.produce("a", 1, "x0", "x1")
		asked.Store(hold)
		s.Start(tag(1), known)
		if hold {
			receive(t, answer.waits, "the question")
		}
		return s, b, func() { close(answer.let) }
	}
	// last is the last checkpoint of a stop, and what comes out after it.
	last := func(t *testing.T, s *source, b *broker, during func(), want []int64) {
		var positions checkpoint.SourceState
		s.seat.onClose = func(ctx context.Context, hard bool) (err error) {
			require.False(t, hard)
			if during != nil {
				during()
			}
			positions, err = s.Pause(ctx)
			return err
		}
		require.NoError(t, s.Close(t.Context()))
		require.Equal(t, want, offsetsOf(positions))
		again := newSource(t, discovering(b, never, "a"))
		again.resolve(&positions)
		require.Equal(t, []string{"a-1@0=x0", "a-1@1=x1"}, again.read(2))
	}
	t.Run("between the discovery and its first record", func(t *testing.T) {
		s, b, _ := start(t, false)
		s.awaitReading(2)
		last(t, s, b, nil, []int64{0, 0})
	})
	t.Run("with a batch of the new partition that nobody took", func(t *testing.T) {
		s, b, _ := start(t, false)
		s.next()
		s.mu.Lock()
		s.taken = true // an earlier batch was
		s.mu.Unlock()
		s.ackCtx = t.Context()
		last(t, s, b, nil, []int64{0, 0})
	})
	t.Run("while a discovery is under way", func(t *testing.T) {
		s, b, let := start(t, true)
		last(t, s, b, let, []int64{0})
		require.NotContains(t, s.log.String(), "discovered")
	})
}

func TestAttemptWithNothingToReadGainsAClient(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	cfg := discovering(b, soon, "a")
	cfg.Share = splits.Share{Parallelism: 2, Index: 1 - splits.Owner(splits.Partition{Topic: "a"}, 2)}
	s := newSource(t, cfg)
	require.Empty(t, s.resolve(nil).Splits)
	require.Nil(t, s.att.client)
	waiting := s.background()
	b.grow("a", 2)
	b.produce("a", 0, "not ours")
	b.produce("a", 1, "x0")
	b.produce("a", 2, "nor this")
	got := receive(t, waiting, "a record")
	require.Equal(t, "x0", string(got.Records[0].Value))
	got.Ack(t.Context(), nil)
	stays(t, s.background())
	state := s.pause()
	require.Len(t, state.Splits, 1, "the share of another instance is left to it")
	require.EqualValues(t, 1, state.Splits[0].Partition)
	require.EqualValues(t, 1, state.Splits[0].Offset)
}

func TestWhereDiscoveryIsOffNewPartitionsAreNamedOnceAndNotRead(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Config)
		way    string
	}{
		"zero":     {func(c *Config) { c.DiscoveryInterval = 0 }, "set it, such as 5m, or start again, which reads them from their first record"},
		"negative": {func(c *Config) { c.DiscoveryInterval = -1 }, "set it, such as 5m, or start again, which reads them from their first record"},
		"bounded": {func(c *Config) { c.DiscoveryInterval, c.Stop.Mode = soon, offsets.LatestStop },
			"a bounded source reads the partitions that there were when it started"},
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeBroker(t, 1, "a")
			b.produce("a", 0, "x0")
			cfg := discovering(b, soon, "a")
			cfg.Start, cfg.MetadataInterval = offsets.Start{Mode: offsets.EarliestStart}, soon
			tc.change(&cfg)
			s := newSource(t, cfg)
			known := s.resolve(nil)
			b.grow("a", 1)
			b.produce("a", 1, "y0")
			require.Eventually(t, func() bool { return strings.Contains(s.log.String(), "level=WARN") }, patience, soon)
			require.Equal(t, []string{"a-0@0=x0"}, s.read(1))
			require.NoError(t, s.Halt(t.Context()))
			s.Start(tag(2), known)
			require.Equal(t, []string{"a-0@0=x0"}, s.read(1))
			state := s.pause()
			require.Equal(t, []int64{1}, offsetsOf(state))
			b.grow("a", 1)
			require.Eventually(t, func() bool { return strings.Count(s.log.String(), "level=WARN") == 2 }, patience, soon)
			stays(t, s.seat.fatal)
			require.Equal(t, 2, strings.Count(s.log.String(), "level=WARN"), s.log.String())
			require.Contains(t, s.log.String(), `partitions="a 1"`)
			require.Contains(t, s.log.String(), `partitions="a 2"`)
			require.Contains(t, s.log.String(), tc.way)

			// The next start takes them up, and reads nothing twice.
			again := newSource(t, cfg)
			again.resolve(&state)
			require.Equal(t, []string{"a-1@0=y0"}, again.read(1))
		})
	}
}

func TestDiscoveryThatFailsIsLoggedOnceAndTriedAgain(t *testing.T) {
	c, b := controlled(t)
	var failures atomic.Int32
	c.ControlKey(int16(kmsg.ListOffsets), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if failures.Add(-1) < 0 {
			return nil, nil, false
		}
		return listError(kreq, kerr.TopicAuthorizationFailed), nil, true
	})
	s := newSource(t, discovering(b, soon, "a"))
	s.resolve(nil)
	failures.Store(5)
	b.grow("a", 1)
	b.produce("a", 1, "x0")
	require.Equal(t, []string{"a-1@0=x0"}, s.read(1))
	require.Equal(t, 1, strings.Count(s.log.String(), "level=WARN"), s.log.String())
	require.Contains(t, s.log.String(), "taking up partitions a 1: asking for earliest offsets")
	require.Empty(t, s.seat.failed)
	require.Empty(t, s.seat.fatal)
}

func TestTopicThatIsDeletedEndsTheStreamWithDiscoveryOnAndOff(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"found by the discovery": func(c *Config) { c.DiscoveryInterval, c.MetadataInterval = soon, never },
		"found by the check":     func(c *Config) { c.DiscoveryInterval, c.MetadataInterval = 0, soon },
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeBroker(t, 1, "a")
			cfg := discovering(b, soon, "a")
			change(&cfg)
			s := newSource(t, cfg)
			s.resolve(nil)
			_, err := b.admin.DeleteTopics(t.Context(), "a")
			require.NoError(t, err)
			require.ErrorAs(t, receive(t, s.seat.fatal, "the end"), new(*splits.VanishedError))
		})
	}
}

// controlled is a broker with topic "a" of one partition, whose requests a test can answer.
func controlled(t *testing.T) (*kfake.Cluster, *broker) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c, brokerAt(t, c.ListenAddrs())
}

type held struct {
	waits chan struct{}
	let   chan struct{}
}

// holdListOffsets holds questions for offsets, while it is switched on, until they are let go.
func holdListOffsets(c *kfake.Cluster) (on *atomic.Bool, h held) {
	on = new(atomic.Bool)
	h = held{make(chan struct{}, 100), make(chan struct{})}
	c.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if !on.Load() {
			return nil, nil, false
		}
		h.waits <- struct{}{}
		c.SleepControl(func() { <-h.let })
		return nil, nil, false
	})
	return on, h
}

// listError answers every partition with an error.
func listError(kreq kmsg.Request, err *kerr.Error) kmsg.Response {
	req := kreq.(*kmsg.ListOffsetsRequest)
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, err.Code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// With keep_running partitions stop and the source goes on (Flink's setUnbounded): a discovered one stops where it ended
// when it was discovered.
func TestDiscoveredPartitionHasItsStopWhereTheSourceKeepsRunning(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	cfg := discovering(b, never, "a")
	cfg.Stop = offsets.Stop{Mode: offsets.LatestStop, KeepRunning: true}
	s := newSource(t, cfg)
	known, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	b.grow("a", 2)
	b.produce("a", 1, "x0", "x1")
	s.Start(tag(1), known)
	s.awaitReading(3)
	b.produce("a", 1, "late")
	b.produce("a", 2, "late")
	require.Equal(t, []string{"a-1@0=x0", "a-1@1=x1"}, s.read(2))
	stays(t, s.background())
	state := s.pause()
	require.Equal(t, []int64{0, 2, 0}, offsetsOf(state))
	require.False(t, state.Finished)
	require.Empty(t, s.seat.atEnd)
}

package kafkasource

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/tidegate/tidegate/internal/offsets"
	"github.com/tidegate/tidegate/internal/splits"
	"github.com/tidegate/tidegate/tests/realkafka"
)

const (
	droppedLine = "positions of deleted topics are dropped"
	goneLine    = "partitions are not there any more and no longer read"
)

// forgetting follows a pattern, shows numbers, and drops positions soon.
func forgetting(b *broker, name string, shown *board) Config {
	cfg := following(b, name)
	cfg.ForgetAfter, cfg.MetadataInterval = 300*time.Millisecond, 5*soon
	measured(shown)(&cfg)
	return cfg
}

func topicsOf(shown map[splits.Partition]Progress) (out []string) {
	for at := range shown {
		out = append(out, at.Topic)
	}
	return out
}

func TestTopicThatIsDeletedForGoodLeavesTheStateTheGaugesAndTheCounters(t *testing.T) {
	t.Parallel()
	onBothBrokers(t, func(t *testing.T, b *broker, name string) {
		b.create(name + "-1")
		b.create(name + "-2")
		shown := newBoard()
		cfg := forgetting(b, name, shown)
		cfg.ForgetAfter = time.Second
		var skipped atomic.Int64
		cfg.Metrics.SkippedOffsets = func(n int64) { skipped.Add(n) }
		s := newSource(t, cfg)
		s.resolve(nil)
		b.produce(name+"-1", 0, "a", "b", "c")
		s.read(3)
		require.Eventually(t, func() bool { return len(shown.all()) == 2 }, patience, soon)
		old := s.pause()
		b.remove(name + "-1")
		s.logged(goneLine)
		require.Eventually(t, func() bool { return len(shown.all()) == 1 }, patience, soon)
		require.NotContains(t, s.log.String(), droppedLine, "the gauges go at once, the position later")
		require.Equal(t, []int64{3, 0}, offsetsOf(s.pause()))

		s.logged(droppedLine)
		state := s.pause()
		require.Len(t, state.Splits, 1)
		require.Equal(t, name+"-2", state.Splits[0].Topic)
		require.Equal(t, []string{name + "-2"}, topicsOf(shown.all()))
		require.Eventually(t, func() bool {
			shown.mu.Lock()
			defer shown.mu.Unlock()
			return len(shown.sums) == 1
		}, patience, soon, "the counters are gone")
		require.Zero(t, skipped.Load(), "it was read to its end")
		b.produce(name+"-2", 0, "d")
		require.Equal(t, []string{name + "-2-0@0=d"}, s.read(1))

		// An attempt that goes back to a checkpoint from before does not read it, and drops it again.
		s.Start(tag(2), old)
		require.Equal(t, []string{name + "-2-0@0=d"}, s.read(1))
		require.Eventually(t, func() bool { return len(s.pause().Splits) == 1 }, patience, soon)
		require.Empty(t, s.seat.failed)
		require.Empty(t, s.seat.fatal)

		// Created again it is new, and read once from its first record.
		b.create(name + "-1")
		b.produce(name+"-1", 0, "x", "y")
		require.Equal(t, []string{name + "-1-0@0=x", name + "-1-0@1=y"}, s.read(2))
		later := newSource(t, cfg)
		later.resolve(&state)
		require.NotContains(t, later.log.String(), "level=WARN")
		require.ElementsMatch(t, []string{name + "-1-0@0=x", name + "-1-0@1=y", name + "-2-0@0=d"}, later.read(3))
	})
}

func TestWhatWasUnreadOfADroppedTopicIsCounted(t *testing.T) {
	t.Parallel()
	b := fakeBroker(t, 1, "p")
	b.produce("p", 0, "a", "b", "c", "d")
	cfg := forgetting(b, "p", newBoard())
	cfg.Start, cfg.MaxBatch = offsets.Start{Mode: offsets.EarliestStart}, 1
	var skipped atomic.Int64
	cfg.Metrics.SkippedOffsets = func(n int64) { skipped.Add(n) }
	s := newSource(t, cfg)
	s.resolve(nil)
	held := s.next()
	b.remove("p")
	s.logged(goneLine)
	s.read(3) // what was fetched is still emitted
	require.Never(t, func() bool { return strings.Contains(s.log.String(), droppedLine) }, time.Second, soon, "a batch of it is not acknowledged")
	held.Ack(t.Context(), nil)
	s.logged(droppedLine)
	require.Empty(t, s.pause().Splits)
	require.Zero(t, skipped.Load())

	b.create("p")
	b.produce("p", 0, "x", "y")
	require.Len(t, s.read(2), 2)
	_, err := s.Pause(t.Context())
	require.NoError(t, err)
	b.produce("p", 0, "unread", "unread")
	require.Eventually(t, func() bool { return s.Totals().Lag == 2 }, patience, soon)
	b.remove("p")
	require.Eventually(t, func() bool { return strings.Count(s.log.String(), droppedLine) == 2 }, patience, soon)
	require.EqualValues(t, 2, skipped.Load())
	require.Contains(t, s.log.String(), "level=ERROR")
}

// A topic that is back under its id was never away. While any broker knows its id, or may not say, nothing is dropped.
func TestTopicThatIsMissingFromListsKeepsItsPosition(t *testing.T) {
	t.Parallel()
	c, b := controlled(t)
	b.create("p")
	hide := hideTopics(c)
	s := newSource(t, forgetting(b, "p", newBoard()))
	s.resolve(nil)
	b.produce("p", 0, "a", "b")
	s.read(2)
	hide.Store(true)
	s.logged(goneLine)
	require.Never(t, func() bool { return strings.Contains(s.log.String(), droppedLine) }, time.Second, soon)
	require.Equal(t, []int64{2}, offsetsOf(s.pause()))
	hide.Store(false)
	b.produce("p", 0, "c")
	require.Equal(t, []string{"p-0@2=c"}, s.read(1), "neither read again nor passed over")
	require.Empty(t, s.seat.fatal)
}

func TestTopicThatOneAnswerLacksIsReadOn(t *testing.T) {
	c, b := controlled(t)
	b.create("p")
	s := newSource(t, forgetting(b, "p", newBoard()))
	s.resolve(nil)
	var lacks atomic.Int64
	c.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if len(kreq.(*kmsg.MetadataRequest).Topics) > 0 || lacks.Add(-1) < 0 {
			return nil, nil, false
		}
		return kreq.ResponseKind(), nil, true
	})
	lacks.Store(missingTries - 1)
	require.Eventually(t, func() bool { return lacks.Load() < -1 }, patience, soon, "the next answer has it again")
	b.produce("p", 0, "a", "b")
	require.Equal(t, []string{"p-0@0=a", "p-0@1=b"}, s.read(2))
	require.NotContains(t, s.log.String(), goneLine)
}

// TestNothingIsCertainWhileOneBrokerIsInTrouble: each broker answers a look as the table says; the topic is not listed.
func TestNothingIsCertainWhileOneBrokerIsInTrouble(t *testing.T) {
	const unknown, knows, refuses, silent, other = "unknown", "knows it", "may not say", "does not answer", "is of another cluster"
	for name, tc := range map[string]struct {
		looks [][3]string // of the three brokers
		drops bool
	}{
		"all of them, and again":         {[][3]string{{unknown, unknown, unknown}, {unknown, unknown, unknown}}, true},
		"all of them, once":              {[][3]string{{unknown, unknown, unknown}}, false},
		"one knows it":                   {[][3]string{{unknown, unknown, knows}, {unknown, unknown, knows}}, false},
		"one may not say":                {[][3]string{{unknown, refuses, unknown}, {unknown, refuses, unknown}}, false},
		"one does not answer":            {[][3]string{{silent, unknown, unknown}, {silent, unknown, unknown}}, false},
		"it is known again in between":   {[][3]string{{unknown, unknown, unknown}, {unknown, knows, unknown}, {unknown, unknown, unknown}}, false},
		"one is silent in between":       {[][3]string{{unknown, unknown, unknown}, {unknown, unknown, silent}, {unknown, unknown, unknown}}, false},
		"one is of another cluster":      {[][3]string{{unknown, unknown, other}, {unknown, unknown, other}}, false},
		"all are of another cluster":     {[][3]string{{other, other, other}, {other, other, other}}, false},
		"all of them, after one was not": {[][3]string{{unknown, unknown, knows}, {unknown, unknown, unknown}, {unknown, unknown, unknown}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(1, "p"), kfake.ClusterID("fake"))
			require.NoError(t, err)
			t.Cleanup(c.Close)
			b := brokerAt(t, c.ListenAddrs())
			cfg := following(b, "p")
			cfg.DiscoveryInterval, cfg.MetadataInterval, cfg.ForgetAfter = never, never, time.Nanosecond
			s := newSource(t, cfg)
			state, err := s.Resolve(t.Context(), nil)
			require.NoError(t, err)
			s.noteGone(state.Splits)
			var look atomic.Pointer[[3]string]
			c.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				req, now := kreq.(*kmsg.MetadataRequest), look.Load()
				if now == nil || len(req.Topics) == 0 || req.Topics[0].Topic != nil {
					return nil, nil, false
				}
				switch says := now[c.CurrentNode()]; says {
				case knows:
					return nil, nil, false
				case silent:
					return nil, kerr.BrokerNotAvailable, true
				default:
					resp := req.ResponseKind().(*kmsg.MetadataResponse)
					for n, addr := range c.ListenAddrs() {
						host, port, _ := strings.Cut(addr, ":")
						at, _ := strconv.Atoi(port)
						resp.Brokers = append(resp.Brokers, kmsg.MetadataResponseBroker{NodeID: int32(n), Host: host, Port: int32(at)})
					}
					rt := kmsg.NewMetadataResponseTopic()
					rt.TopicID, rt.ErrorCode = req.Topics[0].TopicID, kerr.UnknownTopicID.Code
					id := "fake"
					switch says {
					case refuses:
						rt.ErrorCode = kerr.TopicAuthorizationFailed.Code
					case other:
						id = "another"
					}
					resp.ClusterID = &id
					resp.Topics = append(resp.Topics, rt)
					return resp, nil, true
				}
			})
			// The watch stands still, so that its part can be played here.
			a := s.newAttempt(tag(1), state)
			s.mu.Lock()
			s.att = a
			s.mu.Unlock()
			for _, says := range tc.looks {
				look.Store(&says)
				s.forget(a)
			}
			require.Len(t, s.pause().Splits, map[bool]int{true: 0, false: 1}[tc.drops], s.log.String())
		})
	}
}

// The one that lives keeps its position for the day it is in topics again.
func TestDeletedTopicThatIsNoLongerSubscribedLeavesTheState(t *testing.T) {
	b := fakeBroker(t, 1, "a", "kept", "deleted")
	for _, topic := range []string{"a", "kept", "deleted"} {
		b.produce(topic, 0, "x", "y")
	}
	first := newSource(t, baseConfig(b.servers, "a", "kept", "deleted"))
	first.resolve(nil)
	first.read(6)
	state := first.pause()
	cfg := baseConfig(b.servers, "a")
	cfg.ForgetAfter, cfg.MetadataInterval = 100*time.Millisecond, soon
	s := newSource(t, cfg)
	s.resolve(&state)
	b.remove("deleted")
	s.logged(droppedLine)
	state = s.pause()
	require.Len(t, state.Splits, 2)
	require.Equal(t, "kept", state.Splits[1].Topic)
	again := newSource(t, baseConfig(b.servers, "a", "kept"))
	again.resolve(&state)
	b.produce("kept", 0, "z")
	require.Equal(t, []string{"kept-0@2=z"}, again.read(1))
}

// Asked by id, brokers do not call a topic unknown that a user may not describe; that they do not list.
func TestTopicThatMayNotBeDescribedIsNotTakenForADeletedOne(t *testing.T) {
	t.Parallel()
	kafka := realkafka.Start(t, realkafka.Options{Secure: &realkafka.Secure{
		Users: map[string]string{"alice": realkafka.Password}, Listeners: []string{realkafka.SASLPlaintext}, Authorizer: true,
	}})
	topic := kafka.Topic(t, 1)
	b := brokerAt(t, kafka.Bootstrap())
	id := b.idOf(topic)
	alice, err := kgo.NewClient(kgo.SeedBrokers(kafka.Listener(realkafka.SASLPlaintext)),
		kgo.SASL(plain.Auth{User: "alice", Pass: realkafka.Password}.AsMechanism()))
	require.NoError(t, err)
	defer alice.Close()
	listed, err := kadm.NewClient(alice).ListTopics(t.Context())
	require.NoError(t, err)
	require.NotContains(t, listed.Names(), topic)
	never := [16]byte{1, 2, 3}
	unknown, err := cluster{client: alice}.unknownIDs(t.Context(), [][16]byte{id, never})
	require.NoError(t, err)
	require.Equal(t, [][16]byte{never}, unknown)
}

func (b *broker) idOf(topic string) [16]byte {
	b.t.Helper()
	listed, err := b.admin.ListTopics(b.t.Context(), topic)
	require.NoError(b.t, err)
	require.NotZero(b.t, listed[topic].ID)
	return listed[topic].ID
}

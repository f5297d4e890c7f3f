package kafkasource

import (
	"net"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/offsets"
	"github.com/tidegate/tidegate/internal/splits"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// following is a config that reads the topics whose name begins with prefix, and looks for new ones often.
func following(b *broker, prefix string) Config {
	cfg := discovering(b, soon)
	cfg.MetadataInterval = 5 * soon
	cfg.Subscription = splits.Subscription{Pattern: regexp.MustCompile("^(?:" + regexp.QuoteMeta(prefix) + ".*)$")}
	return cfg
}

// create makes a topic with one partition, and lets the producer know.
func (b *broker) create(topic string) {
	b.t.Helper()
	_, err := b.admin.CreateTopic(b.t.Context(), 1, 1, nil, topic)
	require.NoError(b.t, err)
	*b = *brokerAt(b.t, b.servers)
}

func (b *broker) remove(topic string) {
	b.t.Helper()
	_, err := b.admin.DeleteTopic(b.t.Context(), topic)
	require.NoError(b.t, err)
}

// logged waits for a line.
func (s *source) logged(text string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return regexp.MustCompile(regexp.QuoteMeta(text)).MatchString(s.log.String()) }, patience, soon)
}

// onBothBrokers runs a test on the embedded and on the real broker; name begins the names of its topics.
func onBothBrokers(t *testing.T, test func(t *testing.T, b *broker, name string)) {
	t.Run("embedded", func(t *testing.T) { test(t, fakeBroker(t, 1, "other"), "p") })
	t.Run("real", func(t *testing.T) {
		kafka := realkafka.Shared(t)
		test(t, brokerAt(t, kafka.Bootstrap()), realkafka.Name(t))
	})
}

func TestPatternReadsWhatItMatchesAlsoWhatComesLater(t *testing.T) {
	onBothBrokers(t, func(t *testing.T, b *broker, name string) {
		b.create(name + "-1")
		b.produce(name+"-1", 0, "old")
		s := newSource(t, following(b, name))
		require.Equal(t, []int64{1}, offsetsOf(s.resolve(nil)), "latest-offset")
		b.create("no-" + name)
		b.create(name + "-2")
		b.produce("no-"+name, 0, "not this")
		b.produce(name+"-2", 0, "first", "second")
		require.Equal(t, []string{name + "-2-0@0=first", name + "-2-0@1=second"}, s.read(2), "a topic that comes later begins at its first record")
		b.produce(name+"-1", 0, "new")
		require.Equal(t, []string{name + "-1-0@1=new"}, s.read(1))
		require.Equal(t, []int64{2, 2}, offsetsOf(s.pause()))
		require.Empty(t, s.seat.fatal)
	})
}

func TestPatternThatMatchesNothingWaitsAndEndsWhereBounded(t *testing.T) {
	b := fakeBroker(t, 1, "other")
	s := newSource(t, following(b, "p"))
	require.Empty(t, s.resolve(nil).Splits)
	waiting := s.background()
	stays(t, waiting)
	b.create("p-1")
	b.produce("p-1", 0, "first")
	got := receive(t, waiting, "the first record")
	require.Equal(t, "p-1", got.Records[0].Topic)
	got.Ack(t.Context(), nil)

	cfg := following(b, "q")
	cfg.Stop = offsets.Stop{Mode: offsets.LatestStop}
	state, err := newSource(t, cfg).Resolve(t.Context(), nil)
	require.NoError(t, err)
	require.True(t, state.Finished, "there is nothing to wait for")
}

// A topic that only may not be described for a while looks like a deleted one. Its position has to survive that.
func TestDeletedTopicOfAPatternEndsNothingAndKeepsItsPosition(t *testing.T) {
	onBothBrokers(t, func(t *testing.T, b *broker, name string) {
		b.create(name + "-1")
		b.create(name + "-2")
		cfg := following(b, name)
		s := newSource(t, cfg)
		s.resolve(nil)
		b.produce(name+"-1", 0, "a", "b")
		require.Len(t, s.read(2), 2)
		b.remove(name + "-1")
		s.logged("partitions are not there any more and no longer read")
		b.produce(name+"-2", 0, "c")
		require.Equal(t, []string{name + "-2-0@0=c"}, s.read(1))
		state := s.pause()
		require.Equal(t, []int64{2, 1}, offsetsOf(state))

		// Another attempt, and another process, do not read it either.
		s.Start(tag(2), state)
		b.produce(name+"-2", 0, "d")
		require.Equal(t, []string{name + "-2-0@1=d"}, s.read(1))
		state = s.pause()
		later := newSource(t, cfg)
		require.NoError(t, later.Verify(t.Context(), state))
		require.Equal(t, []int64{2, 2}, offsetsOf(later.resolve(&state)))
		require.Contains(t, later.log.String(), "partitions of the checkpoint are not there any more")
		b.produce(name+"-2", 0, "e")
		require.Equal(t, []string{name + "-2-0@2=e"}, later.read(1))
		require.NoError(t, later.CommitOffsets(t.Context(), state))
		require.Empty(t, s.seat.fatal)
		require.Empty(t, later.seat.fatal)
	})
}

// The positions of the old topic mean nothing in the new one; at them, records of the new one would be passed over.
func TestRecreatedTopicOfAPatternIsReadFromItsFirstRecord(t *testing.T) {
	onBothBrokers(t, func(t *testing.T, b *broker, name string) {
		b.create(name)
		cfg := following(b, name)
		s := newSource(t, cfg)
		s.resolve(nil)
		b.produce(name, 0, "a", "b", "c", "d") // more than the new one gets: at this position it would be out of range
		require.Len(t, s.read(4), 4)
		old := s.pause()
		b.remove(name)
		s.logged("partitions are not there any more and no longer read")
		b.create(name)
		b.produce(name, 0, "x", "y", "z")
		require.Equal(t, []string{name + "-0@0=x", name + "-0@1=y", name + "-0@2=z"}, s.read(3))
		state := s.pause()
		require.Equal(t, []int64{3}, offsetsOf(state))
		require.NotEqual(t, old.Splits[0].TopicID, state.Splits[0].TopicID)
		require.Empty(t, s.seat.fatal)

		// A checkpoint of the old topic, in an attempt that goes back to it and in a process that starts from it.
		s.Start(tag(2), old)
		got := s.next()
		require.EqualValues(t, 0, got.Records[0].Offset)
		later := newSource(t, cfg)
		require.NoError(t, later.Verify(t.Context(), old))
		require.Equal(t, []int64{0}, offsetsOf(later.resolve(&old)))
		require.Contains(t, later.log.String(), "topics of the checkpoint were deleted and created again")
		require.Empty(t, s.seat.fatal)
	})
}

// What the group has committed for a topic is not of the one that was created again under its name, and may outlive it:
// a commit on its way when the topic was deleted. At that offset, records of the new one would be passed over.
func TestSoloReadsARecreatedTopicFromItsFirstRecordWhateverTheGroupHasCommitted(t *testing.T) {
	c, b := controlled(t)
	hide, tell := hideTopics(c), staleCommits(c, "p", 2)
	b.create("p")
	b.commit("g", "p", 0)
	s := newSolo(t, b, func(c *Config) {
		soloDiscovering(fromGroup(offsets.ResetNone))(c)
		c.MetadataInterval = 5 * soon
		c.Subscription = splits.Subscription{Pattern: regexp.MustCompile("^(?:p.*)$")}
	}).begin()
	b.produce("p", 0, "a", "b", "c", "d")
	require.Len(t, s.read(4), 4)
	b.remove("p")
	s.logged("partitions are not there any more and no longer read")
	hide.Store(true) // it has records by the time it is seen: else every offset would be beyond its end
	tell.Store(true)
	b.create("p")
	b.produce("p", 0, "x", "y", "z")
	hide.Store(false)
	require.Equal(t, []string{"p-0@0=x", "p-0@1=y", "p-0@2=z"}, s.read(3))
	tell.Store(false)
	require.NoError(t, s.Close(t.Context()))
	require.EqualValues(t, 3, b.committed("g", "p")[0].At)
	require.Empty(t, s.seat.fatal)
}

// hideTopics answers, while it is told to, whoever asks for all topics that there is none.
func hideTopics(c *kfake.Cluster) *atomic.Bool {
	var hide atomic.Bool
	host, port, err := net.SplitHostPort(c.ListenAddrs()[0])
	if err != nil {
		panic(err)
	}
	at, _ := strconv.Atoi(port)
	c.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if !hide.Load() || len(kreq.(*kmsg.MetadataRequest).Topics) > 0 {
			return nil, nil, false
		}
		resp := kreq.ResponseKind().(*kmsg.MetadataResponse)
		resp.Brokers = []kmsg.MetadataResponseBroker{{Host: host, Port: int32(at)}}
		return resp, nil, true
	})
	return &hide
}

// staleCommits answers, while it is told to, that the group has committed this offset of a topic's first partition.
func staleCommits(c *kfake.Cluster, topic string, at int64) *atomic.Bool {
	var tell atomic.Bool
	c.ControlKey(int16(kmsg.OffsetFetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if !tell.Load() {
			return nil, nil, false
		}
		req := kreq.(*kmsg.OffsetFetchRequest)
		resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		rp.Offset = at
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.Topic, rt.TopicID, rt.Partitions = topic, c.TopicInfo(topic).TopicID, append(rt.Partitions, rp)
		for _, g := range req.Groups {
			rg := kmsg.NewOffsetFetchResponseGroup()
			rg.Group, rg.Topics = g.Group, append(rg.Topics, rt)
			resp.Groups = append(resp.Groups, rg)
		}
		return resp, nil, true
	})
	return &tell
}

// One that cannot be described for a while would else count as read to its end, for good.
func TestBoundedSourceOfAPatternEndsWhereAPartitionIsGone(t *testing.T) {
	b := fakeBroker(t, 1, "p-1", "p-2")
	b.produce("p-1", 0, "a")
	cfg := following(b, "p")
	cfg.Start, cfg.Stop = offsets.Start{Mode: offsets.EarliestStart}, offsets.Stop{Mode: offsets.LatestStop}
	s := newSource(t, cfg)
	state, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	state.Splits[0].Stop = 1000 // it is not there yet
	s.Start(tag(1), state)
	b.remove("p-1")
	require.ErrorContains(t, receive(t, s.seat.fatal, "the end"), "p-1 0 do not exist any more")
	require.ErrorContains(t, newSource(t, cfg).Verify(t.Context(), state), "p-1 0 do not exist any more")
}

func TestTopicThatIsBackUnderItsIDIsReadOn(t *testing.T) {
	b := fakeBroker(t, 1, "p")
	b.produce("p", 0, "a", "b", "c")
	s := newSource(t, following(b, "p"))
	state, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	state.Splits[0].Offset = 1
	s.noteGone(state.Splits) // as a look has it that saw no such topic
	s.Start(tag(1), state)
	require.Equal(t, []string{"p-0@1=b", "p-0@2=c"}, s.read(2))
	s.logged("partitions are back and read on from their positions")
}

func TestSinglePartitionsAreReadAndNoOthers(t *testing.T) {
	b := fakeBroker(t, 3, "a", "b")
	cfg := baseConfig(b.servers)
	cfg.Subscription = splits.Subscription{Partitions: []splits.Partition{{Topic: "a", Partition: 2}, {Topic: "b", Partition: 0}}}
	s := newSource(t, cfg)
	require.Len(t, s.resolve(nil).Splits, 2)
	b.produce("a", 0, "not this")
	b.produce("a", 2, "this")
	require.Equal(t, []string{"a-2@0=this"}, s.read(1))
	b.produce("b", 1, "nor this")
	b.produce("b", 0, "and this")
	require.Equal(t, []string{"b-0@0=and this"}, s.read(1))

	cfg.Subscription.Partitions = append(cfg.Subscription.Partitions, splits.Partition{Topic: "b", Partition: 3})
	_, err := newSource(t, cfg).Resolve(t.Context(), nil)
	require.ErrorContains(t, err, "partitions: b 3: the topic has no such partition")
}

// Interleaving: a poll has returned records of the old topic, the watch replaces the split, the poll's records are taken.
func TestRecordsOfADeletedTopicDoNotMoveTheNewOne(t *testing.T) {
	b := fakeBroker(t, 1, "p")
	s := newSource(t, following(b, "p"))
	state, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	a := s.newAttempt(tag(1), state)
	defer a.halt(&s.Reader.background)
	fetched := b.fetched("p", 0, [16]byte{9}, "old")
	require.Empty(t, a.accept(fetched, false))
	require.Empty(t, a.pending)
	fetched = b.fetched("p", 0, state.Splits[0].TopicID, "new")
	require.Empty(t, a.accept(fetched, false))
	require.Len(t, a.pending, 1)
}

// fetched is what a poll returns.
func (b *broker) fetched(topic string, partition int32, id [16]byte, value string) kgo.Fetches {
	return kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: topic, TopicID: id, Partitions: []kgo.FetchPartition{{
		Partition: partition, HighWatermark: 10,
		Records: []*kgo.Record{{Topic: topic, Partition: partition, Value: []byte(value)}},
	}}}}}}
}

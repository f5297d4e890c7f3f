package kafkasource

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type commitCounts struct{ succeeded, failed int64 }

func committingConfig(b *broker, n *commitCounts) Config {
	cfg := baseConfig(b.servers, "a")
	cfg.Group, cfg.CommitOffsets = "g", true
	cfg.StoreID = func() string { return "6f9619ff-8b86-d011-b42d-00cf4fc964ff" }
	cfg.Metrics.CommitsSucceeded = func(k int64) { n.succeeded += k }
	cfg.Metrics.CommitsFailed = func(k int64) { n.failed += k }
	return cfg
}

func TestCommittedOffsetsAreNextOffsetsWithTheOwnersMark(t *testing.T) {
	b := fakeBroker(t, 2, "a")
	b.produce("a", 0, "0", "1", "2")
	var n commitCounts
	s := newSource(t, committingConfig(b, &n))
	s.resolve(nil)
	s.read(3)
	require.Empty(t, b.committed("g", "a"), "rule 1: nothing is committed before the coordinator says so")

	before := time.Now().UnixMilli()
	require.NoError(t, s.CommitOffsets(t.Context(), s.pause()))
	got := b.committed("g", "a")
	require.Len(t, got, 2)
	require.EqualValues(t, 3, got[0].At, "one past the last record, so lag is 0")
	require.EqualValues(t, 0, got[1].At)
	require.Zero(t, got[0].LeaderEpoch)
	fields := strings.Fields(got[0].Metadata)
	require.Equal(t, []string{"tidegate/1", "6f9619ff-8b86-d011-b42d-00cf4fc964ff", "-"}, fields[:3])
	var at int64
	_, err := fmt.Sscan(fields[3], &at)
	require.NoError(t, err)
	require.GreaterOrEqual(t, at, before)
	require.Equal(t, commitCounts{succeeded: 1}, n)
}

func TestNothingIsCommittedWithoutAGroupOrWhenSwitchedOff(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no group":     func(c *Config) { c.Group = "" },
		"switched off": func(c *Config) { c.CommitOffsets = false },
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeBroker(t, 1, "a")
			var n commitCounts
			cfg := committingConfig(b, &n)
			change(&cfg)
			s := newSource(t, cfg)
			s.resolve(nil)
			require.NoError(t, s.CommitOffsets(t.Context(), s.pause()))
			require.Empty(t, b.committed("g", "a"))
			require.Equal(t, commitCounts{}, n)
		})
	}
}

func TestRefusedCommitIsCountedAndHurtsNothing(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	b := brokerAt(t, c.ListenAddrs())
	answerCommits(c, kerr.UnknownMemberID.Code)
	var n commitCounts
	s := newSource(t, committingConfig(b, &n))
	s.resolve(nil)
	err = s.CommitOffsets(t.Context(), s.pause())
	require.ErrorIs(t, err, kerr.UnknownMemberID)
	require.ErrorContains(t, err, `committing offsets to group "g": partition 0 of topic "a"`)
	require.ErrorContains(t, err, "another application consumes with the same group")
	require.Equal(t, commitCounts{failed: 1}, n)
	require.Empty(t, s.seat.fatal)
	require.Empty(t, s.seat.failed)
	b.produce("a", 0, "x")
	s.read(1)
}

func TestCommitIsTriedAgainUntilItsContextOrTheSourceEnds(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	b := brokerAt(t, c.ListenAddrs())
	tried := answerCommits(c, kerr.KafkaStorageError.Code) // one that the client does not try again by itself
	var n commitCounts
	s := newSource(t, committingConfig(b, &n))
	state := s.resolve(nil)
	for _, end := range []func(cancel func()){
		func(cancel func()) { cancel() },
		func(func()) { _ = s.Close(context.Background()) },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.CommitOffsets(ctx, state) }()
		receive(t, tried, "a first try")
		receive(t, tried, "a second try")
		end(cancel)
		require.ErrorIs(t, receive(t, done, "the end of the commit"), context.Canceled)
		cancel()
	}
	require.Equal(t, commitCounts{}, n, "a commit that was ended has not failed")
}

// TestCommitOfATopicThatIsGoneEnds: positions of a topic that was deleted, or created again, would be tried for ever, and
// no newer ones would get into the group until the process ends.
func TestCommitOfATopicThatIsGoneEnds(t *testing.T) {
	for _, refusal := range []*kerr.Error{kerr.UnknownTopicID, kerr.UnknownTopicOrPartition} {
		t.Run(refusal.Message, func(t *testing.T) {
			c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
			require.NoError(t, err)
			t.Cleanup(c.Close)
			b := brokerAt(t, c.ListenAddrs())
			tried := answerCommits(c, refusal.Code)
			var n commitCounts
			s := newSource(t, committingConfig(b, &n))
			state := s.resolve(nil)
			done := make(chan error, 1)
			go func() { done <- s.CommitOffsets(t.Context(), state) }()
			err = receive(t, done, "the end of the commit")
			require.ErrorContains(t, err, "does not know the topic any more")
			require.ErrorContains(t, err, refusal.Message)
			require.GreaterOrEqual(t, len(tried), unknownTries, "a broker may only not know the topic yet")
			require.Equal(t, commitCounts{failed: 1}, n)
		})
	}
}

// answerCommits answers every offset commit with a code, and tells of each.
func answerCommits(c *kfake.Cluster, code int16) <-chan struct{} {
	tried := make(chan struct{}, 1000)
	c.ControlKey(int16(kmsg.OffsetCommit), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.OffsetCommitRequest)
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewOffsetCommitResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetCommitResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		tried <- struct{}{}
		return resp, nil, true
	})
	return tried
}

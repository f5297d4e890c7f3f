package kafkasource

import (
	"slices"
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
)

// fromGroup is the start mode that could pass over a new partition's records, or end the start.
func fromGroup(reset offsets.Reset) offsets.Start {
	return offsets.Start{Mode: offsets.GroupStart, Group: "g", Reset: reset}
}

func soloDiscovering(start offsets.Start) func(*Config) {
	return func(c *Config) { c.Start, c.DiscoveryInterval = start, soon }
}

// A partition is committed at its beginning before any record of it is emitted, so whenever the process dies, a restart
// finds it in the group.
func TestCrashOfASoloAroundADiscovery(t *testing.T) {
	for _, reset := range []offsets.Reset{offsets.ResetLatest, offsets.ResetNone} {
		for name, emit := range map[string]int{
			"between the discovery and its first record":                 0,
			"between its first record and the first commit on the timer": 1,
		} {
			t.Run(string(reset)+", "+name, func(t *testing.T) {
				b := fakeBroker(t, 1, "a")
				b.commit("g", "a", 0)
				s := newSolo(t, b, soloDiscovering(fromGroup(reset))).begin()
				b.grow("a", 1)
				b.produce("a", 1, "x0", "x1")
				s.awaitReading(2)
				require.Equal(t, []int64{0, 0}, b.committedAt())
				for _, batch := range s.take(emit) {
					require.Equal(t, "x0", string(batch.Records[0].Value))
				}
				// It dies without a word: nothing more is committed.
				again := newSolo(t, b, soloDiscovering(fromGroup(reset))).begin()
				require.Equal(t, []string{"a-1@0=x0", "a-1@1=x1"}, again.read(2))
			})
		}
	}
}

func TestSoloReadsNothingOfANewPartitionBeforeItsBeginningIsCommitted(t *testing.T) {
	c, b := controlled(t)
	var refuse atomic.Bool
	var refused atomic.Int32
	c.ControlKey(int16(kmsg.OffsetCommit), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.OffsetCommitRequest)
		if !refuse.Load() {
			return nil, nil, false
		}
		refused.Add(1)
		return commitError(req, kerr.GroupAuthorizationFailed), nil, true
	})
	s := newSolo(t, b, soloDiscovering(offsets.Start{Mode: offsets.EarliestStart})).begin()
	refuse.Store(true)
	b.grow("a", 1)
	b.produce("a", 1, "x0")
	waiting := s.background()
	require.Eventually(t, func() bool { return refused.Load() > 2 }, patience, time.Millisecond)
	stays(t, waiting)
	require.Equal(t, 1, strings.Count(s.log.String(), "whose beginning has to be in the consumer group first"), s.log.String())
	refuse.Store(false)
	require.Equal(t, "x0", string(receive(t, waiting, "the first record").Records[0].Value))
	require.Equal(t, []int64{0, 0}, b.committedAt())
}

func commitError(req *kmsg.OffsetCommitRequest, err *kerr.Error) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, err.Code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// A solo that commits nothing has nothing to wait for.
func TestSoloThatCommitsNothingReadsNewPartitionsToo(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	s := newSolo(t, b, func(c *Config) {
		soloDiscovering(offsets.Start{Mode: offsets.LatestStart})(c)
		c.Group = ""
	}).begin()
	b.grow("a", 1)
	b.produce("a", 1, "x0")
	require.Equal(t, []string{"a-1@0=x0"}, s.read(1))
}

// A partition is new to a process that started on a broker which did not know it yet, and not to the group.
func TestSoloGoesOnFromWhatItsGroupHasReadOfAPartitionItFindsLate(t *testing.T) {
	c, b := func() (*kfake.Cluster, *broker) {
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "a"))
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c, brokerAt(t, c.ListenAddrs())
	}()
	b.produce("a", 1, "x0", "x1", "x2")
	b.commit("g", "a", 0, 2)
	hide := staleMetadata(c, "a", 1)
	hide(1 << 20)
	s := newSolo(t, b, soloDiscovering(fromGroup(offsets.ResetNone))).begin()
	require.Equal(t, 1, s.reading())
	hide(0)
	require.Equal(t, []string{"a-1@2=x2"}, s.read(1))
	require.Equal(t, []int64{0, 2}, b.committedAt(), "the group never goes back")
}

func TestRewindOfASoloKeepsADiscoveredPartition(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	s := newSolo(t, b, soloDiscovering(offsets.Start{Mode: offsets.LatestStart})).begin()
	b.grow("a", 1)
	b.produce("a", 1, "x0", "x1")
	batches := s.take(2)
	batches[0].Ack(t.Context(), nil)
	batches[1].Ack(t.Context(), errNotDelivered)
	require.EqualValues(t, 1, receive(t, s.delays, "the rewind"))
	require.Equal(t, []string{"a-1@1=x1"}, s.read(1))
	require.NoError(t, s.Close(t.Context()))
	require.Equal(t, []int64{0, 2}, b.committedAt())
	require.Equal(t, 1, strings.Count(s.log.String(), "discovered"), s.log.String())
}

// Rewinds in a row wait longer and longer; what counts is whether the records that were refused have been delivered, not
// which partitions there are meanwhile.
func TestReachedComparesWhateverPartitionsBothHave(t *testing.T) {
	at := func(os ...int64) (out []checkpoint.Split) {
		for i, o := range os {
			if o >= 0 {
				out = append(out, checkpoint.Split{Topic: "a", Partition: int32(i), Offset: o})
			}
		}
		return slices.Clip(out)
	}
	for name, tc := range map[string]struct {
		all, goal []checkpoint.Split
		want      bool
	}{
		"the same":                         {at(3, 4), at(3, 4), true},
		"one behind":                       {at(3, 3), at(3, 4), false},
		"one discovered since":             {at(3, 4, 0), at(3, 4), true},
		"one discovered between, with gap": {at(3, 0, 4), at(3, -1, 4), true},
		"one that is not there":            {at(3), at(3, 0), false},
		"nothing to reach":                 {at(3), nil, false},
		"nothing there":                    {nil, at(0), false},
	} {
		require.Equal(t, tc.want, reached(tc.all, tc.goal), name)
	}
}

func TestSoloWhoseDiscoveryIsOffNamesNewPartitionsWithItsOwnWayOut(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	s := newSolo(t, b, func(c *Config) { c.MetadataInterval = soon }).begin()
	b.grow("a", 1)
	require.Eventually(t, func() bool { return strings.Contains(s.log.String(), "startup.offset_reset says") }, patience, soon)
	require.NotContains(t, s.log.String(), "from their first record", "which holds with checkpoints only")
	stays(t, s.seat.fatal)
}

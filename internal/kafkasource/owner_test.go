package kafkasource

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/splits"
	"github.com/tidegate/tidegate/tests/realkafka"
)

const ownStore, foreignStore = "6f9619ff-8b86-d011-b42d-00cf4fc964ff", "00000000-8b86-d011-b42d-00cf4fc964ff"

// markedCommit commits an offset of partition 0 with metadata.
func (b *broker) markedCommit(group, topic, metadata string) {
	b.t.Helper()
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: topic, At: 42, LeaderEpoch: -1, Metadata: metadata})
	// A new cluster makes the topic for offsets when it is first asked for one.
	require.Eventually(b.t, func() bool { return b.admin.CommitAllOffsets(b.t.Context(), group, os) == nil }, patience, patience/100)
}

func checkingConfig(servers []string, group string, topics ...string) Config {
	cfg := baseConfig(servers, topics...)
	cfg.Group, cfg.CheckGroup, cfg.SecondLook = group, true, 50*time.Millisecond
	cfg.StoreID = func() string { return ownStore }
	return cfg
}

func TestAGroupIsRefusedForAFreshMarkOfAnotherJob(t *testing.T) {
	ago := func(d time.Duration) int64 { return time.Now().Add(-d).UnixMilli() }
	for name, tc := range map[string]struct {
		metadata  string
		stream    string        // ours
		interval  time.Duration // of our checkpoints
		elsewhere bool          // another process reads the partition
		off       bool
		want      string
	}{
		"fresh, of another store": {metadata: fmt.Sprintf("tidegate/1 %s - %d", foreignStore, ago(5*time.Second)),
			want: "another job of Tidegate's, with the state store " + foreignStore + ", has committed offset 42 of a-0, 5s ago at 20"},
		"of a clock that is ahead": {metadata: fmt.Sprintf("tidegate/1 %s - %d", foreignStore, ago(-5*time.Minute)), want: "0s ago"},
		"of a stream with a name":  {metadata: fmt.Sprintf("tidegate/1 %s one two %d", foreignStore, ago(0)), want: `stream "one two"`},
		"of our store, another stream": {metadata: fmt.Sprintf("tidegate/1 %s other %d", ownStore, ago(0)), stream: "ours",
			want: `with the state store ` + ownStore + `, stream "other"`},
		"of our own stream": {metadata: fmt.Sprintf("tidegate/1 %s ours %d", ownStore, ago(0)), stream: "ours"},
		"old":               {metadata: fmt.Sprintf("tidegate/1 %s - %d", foreignStore, ago(2*time.Minute))},
		"older than a minute, in jobs of slow checkpoints": {metadata: fmt.Sprintf("tidegate/1 %s - %d", foreignStore, ago(2*time.Minute)),
			interval: 5 * time.Minute, want: "committed nothing for 10m0s"},
		"of a partition that is not ours": {metadata: fmt.Sprintf("tidegate/1 %s - %d", foreignStore, ago(0)), elsewhere: true},
		"without a store, standing still": {metadata: fmt.Sprintf("tidegate/1 - - %d", ago(time.Second))},
		"of somebody else":                {metadata: "consumer 1"},
		"broken":                          {metadata: "tidegate/1 x y z"},
		"not asked for":                   {metadata: fmt.Sprintf("tidegate/1 %s - %d", foreignStore, ago(0)), off: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeBroker(t, 1, "a")
			b.markedCommit("g", "a", tc.metadata)
			cfg := checkingConfig(b.servers, "g", "a")
			cfg.StreamID, cfg.CheckpointInterval, cfg.CheckGroup = tc.stream, tc.interval, !tc.off
			if tc.elsewhere {
				cfg.Share = splits.Share{Parallelism: 2, Index: 1 - splits.Owner(splits.Partition{Topic: "a"}, 2)}
			}
			_, err := newSource(t, cfg).Resolve(t.Context(), nil)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			var duplicated *DuplicatedGroupError
			require.ErrorAs(t, err, &duplicated)
			require.ErrorContains(t, err, `check_duplicated_group_id: group "g" is in use: `)
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, "give this job a group_id of its own")
		})
	}
}

// TestAMarkWithoutAStoreIsLookedAtTwice has a run without checkpoints commit between both looks.
func TestAMarkWithoutAStoreIsLookedAtTwice(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	b := brokerAt(t, c.ListenAddrs())
	mark := func(ms int64) string { return fmt.Sprintf("tidegate/1 - - %d", ms) }
	began := time.Now().UnixMilli()
	b.markedCommit("g", "a", mark(began))
	looks := make(chan struct{}, 10)
	c.ControlKey(int16(kmsg.OffsetFetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		looks <- struct{}{}
		return nil, nil, false
	})
	cfg := checkingConfig(b.servers, "g", "a")
	cfg.StoreID, cfg.SecondLook = nil, time.Second
	s := newSource(t, cfg)
	done := make(chan error, 1)
	go func() { done <- s.CheckGroup(t.Context()) }()
	receive(t, looks, "the first look")
	b.markedCommit("g", "a", mark(began+1))
	err = receive(t, done, "the answer")
	require.ErrorContains(t, err, "another job of Tidegate's, has committed offset 42 of a-0")
	require.NotContains(t, err.Error(), "start again", "it was seen to run")
}

func TestAGroupThatMayNotBeDescribedIsNotTakenForFree(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	c.ControlKey(int16(kmsg.DescribeGroups), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := kreq.ResponseKind().(*kmsg.DescribeGroupsResponse)
		g := kmsg.NewDescribeGroupsResponseGroup()
		g.Group, g.ErrorCode = "g", kerr.GroupAuthorizationFailed.Code
		resp.Groups = append(resp.Groups, g)
		return resp, nil, true
	})
	_, err = newSource(t, checkingConfig(c.ListenAddrs(), "g", "a")).Resolve(t.Context(), nil)
	require.ErrorIs(t, err, kerr.GroupAuthorizationFailed)
	require.ErrorContains(t, err, `grant Describe on group "g", or set check_duplicated_group_id: false`)
}

// TestAGroupWithMembersIsRefusedAndTakesNoCommits asks a real broker, for both of Kafka's protocols.
func TestAGroupWithMembersIsRefusedAndTakesNoCommits(t *testing.T) {
	kafka := realkafka.Shared(t)
	b := brokerAt(t, kafka.Bootstrap())
	for name, protocol := range map[string][]kgo.Opt{
		"classic":  {kgo.Balancers(kgo.RangeBalancer())},
		"consumer": {kgo.Balancers(kgo.RangeBalancer()), kgo.ServerSideBalancer()},
	} {
		t.Run(name, func(t *testing.T) {
			topic, group := kafka.Topic(t, 1), realkafka.Name(t)
			b.produce(topic, 0, "0", "1")
			b.markedCommit(group, topic, "")
			cfg := checkingConfig(b.servers, group, topic)
			_, err := newSource(t, cfg).Resolve(t.Context(), nil)
			require.NoError(t, err, "a group without members")

			member, err := kgo.NewClient(append(protocol, kgo.SeedBrokers(b.servers...), kgo.ConsumerGroup(group),
				kgo.ConsumeTopics(topic), kgo.ClientID("the-other-app"), kgo.DisableAutoCommit())...)
			require.NoError(t, err)
			defer member.Close()
			require.Eventually(t, func() bool {
				members, err := (cluster{client: b.client, log: newSource(t, cfg).Reader.log}).members(t.Context(), group)
				return err == nil && len(members) > 0
			}, patience, 100*time.Millisecond)
			newer, err := b.admin.DescribeConsumerGroups(t.Context(), group)
			require.Equal(t, name == "consumer", err == nil && newer[group].Err == nil, "the group has the protocol it is to have")
			_, err = newSource(t, cfg).Resolve(t.Context(), nil)
			require.ErrorContains(t, err, fmt.Sprintf(`check_duplicated_group_id: group %q is in use: it has 1 active members (client "the-other-app" at 127.0.0.1)`, group))

			// Who does not ask reads on, and only its commits are refused.
			var n commitCounts
			cfg.CheckGroup, cfg.CommitOffsets = false, true
			cfg.Metrics.CommitsFailed = func(k int64) { n.failed += k }
			s := newSource(t, cfg)
			s.resolve(nil)
			s.read(2)
			err = s.CommitOffsets(t.Context(), s.pause())
			require.ErrorIs(t, err, kerr.UnknownMemberID)
			require.ErrorContains(t, err, "another application consumes with the same group")
			require.EqualValues(t, 1, n.failed)
			require.Empty(t, s.seat.failed)
			require.Empty(t, s.seat.fatal)
		})
	}
}

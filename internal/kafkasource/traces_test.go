package kafkasource

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/splits"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// TestTracesAreOffsetsThatAnotherStoreHasCommitted asks a real broker what of its groups tells of an earlier run.
func TestTracesAreOffsetsThatAnotherStoreHasCommitted(t *testing.T) {
	kafka := realkafka.Shared(t)
	b := brokerAt(t, kafka.Bootstrap())
	ours, other := kafka.Topic(t, 2), kafka.Topic(t, 1)
	const own, foreign = "6f9619ff-8b86-d011-b42d-00cf4fc964ff", "00000000-8b86-d011-b42d-00cf4fc964ff"
	for name, tc := range map[string]struct {
		topic, metadata string // of what the group has committed; nothing where topic is empty
		noGroup, want   bool
		elsewhere       bool // another process reads the partition
	}{
		"a group that was never used":        {},
		"another store's offset":             {topic: ours, metadata: "tidegate/1 " + foreign + " - 1700000000000", want: true},
		"a partition of another process":     {topic: ours, metadata: "tidegate/1 " + foreign + " - 1700000000000", elsewhere: true},
		"another store's, of a named stream": {topic: ours, metadata: "tidegate/1 " + foreign + " a b 1700000000000", want: true},
		// It keeps no state, so none can be missing: a job may get checkpoints later.
		"a run without checkpoints":         {topic: ours, metadata: "tidegate/1 - - 1700000000000"},
		"this store's own offset":           {topic: ours, metadata: "tidegate/1 " + own + " - 1700000000000"},
		"another program's offset":          {topic: ours, metadata: "consumer-1"},
		"no metadata":                       {topic: ours},
		"a mark that only begins like ours": {topic: ours, metadata: "tidegate/10 " + foreign + " - 1"},
		"a topic that is not read here":     {topic: other, metadata: "tidegate/1 " + foreign + " - 1700000000000"},
		"no group in the config":            {topic: ours, metadata: "tidegate/1 " + foreign + " - 1700000000000", noGroup: true},
	} {
		t.Run(name, func(t *testing.T) {
			group := realkafka.Name(t)
			if tc.topic != "" {
				var os kadm.Offsets
				os.Add(kadm.Offset{Topic: tc.topic, Partition: 0, At: 42, LeaderEpoch: -1, Metadata: tc.metadata})
				// A new cluster makes the topic for offsets when it is first asked for one.
				require.Eventually(t, func() bool { return b.admin.CommitAllOffsets(t.Context(), group, os) == nil }, patience, patience/100)
			}
			cfg := baseConfig(b.servers, ours)
			cfg.StoreID = func() string { return own }
			if !tc.noGroup {
				cfg.Group = group
			}
			if tc.elsewhere {
				cfg.Share = splits.Share{Parallelism: 2, Index: 1 - splits.Owner(splits.Partition{Topic: ours}, 2)}
			}
			found, err := newSource(t, cfg).Traces(t.Context())
			require.NoError(t, err)
			if !tc.want {
				require.Empty(t, found)
				return
			}
			require.Contains(t, found, `"`+group+`"`)
			require.Contains(t, found, "offset 42 of "+ours+"-0")
			require.Contains(t, found, tc.metadata, "whose it is")
		})
	}
}

// TestGroupThatMayNotBeReadStopsNoStart: who commits nothing to a group needs no right to read it.
func TestGroupThatMayNotBeReadStopsNoStart(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	require.NoError(t, err)
	defer c.Close()
	c.ControlKey(int16(kmsg.OffsetFetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := kreq.ResponseKind().(*kmsg.OffsetFetchResponse)
		resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
		for _, g := range kreq.(*kmsg.OffsetFetchRequest).Groups {
			group := kmsg.NewOffsetFetchResponseGroup()
			group.Group, group.ErrorCode = g.Group, kerr.GroupAuthorizationFailed.Code
			resp.Groups = append(resp.Groups, group)
		}
		return resp, nil, true
	})
	cfg := baseConfig(c.ListenAddrs(), "a")
	cfg.Group = "g"
	s := newSource(t, cfg)
	found, err := s.Traces(t.Context())
	require.NoError(t, err)
	require.Empty(t, found)
	require.Contains(t, s.log.String(), "a lost state store would not be noticed")
}

package kafkasource

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/offsets"
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
		"a run without checkpoints": {topic: ours, metadata: "tidegate/1 - - 1700000000000"},
		"this store's own offset":   {topic: ours, metadata: "tidegate/1 " + own + " - 1700000000000"},
		// A state goes by the stream's id, so that of a stream that was renamed is not found.
		"this store's, of another stream":   {topic: ours, metadata: "tidegate/1 " + own + " before 1700000000000", want: true},
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

// TestOldStateIsToldByWhatItsStoreHasCommitted: a group is never ahead of the newest record (rule 1), so offsets of this
// very store that are beyond it mean that an old copy was put back.
func TestOldStateIsToldByWhatItsStoreHasCommitted(t *testing.T) {
	const own, foreign = "6f9619ff-8b86-d011-b42d-00cf4fc964ff", "00000000-8b86-d011-b42d-00cf4fc964ff"
	ours := "tidegate/1 " + own + " - 1700000000000"
	for name, tc := range map[string]struct {
		metadata string
		at       int64
		change   func(*Config, *checkpoint.Record)
		old      bool   // the record is refused
		warns    string // the log says so
	}{
		"where the record is":        {metadata: ours, at: 3},
		"behind the record":          {metadata: ours, at: 1},
		"ahead of the record":        {metadata: ours, at: 5, old: true},
		"beyond the end of the log":  {metadata: ours, at: 7},
		"another program's":          {metadata: "consumer-1", at: 5},
		"a run without checkpoints":  {metadata: "tidegate/1 - - 1700000000000", at: 5, warns: "the consumer group is ahead of the checkpoint"},
		"another store's":            {metadata: "tidegate/1 " + foreign + " - 1700000000000", at: 5, warns: "the consumer group is ahead"},
		"another stream's":           {metadata: "tidegate/1 " + own + " b 1700000000000", at: 5, warns: "the consumer group is ahead"},
		"no checkpoint yet":          {metadata: ours, at: 5, warns: "the consumer group is ahead", change: func(_ *Config, r *checkpoint.Record) { r.LastCheckpoint = 0 }},
		"the group is not committed": {metadata: ours, at: 5, change: func(c *Config, _ *checkpoint.Record) { c.CommitOffsets = false }},
		"another source of the stream, in the same group, is there": {metadata: ours, at: 5, change: func(_ *Config, r *checkpoint.Record) {
			beside := r.Positions[0]
			beside.Source, beside.Splits = "other", []checkpoint.Split{{Topic: "a", Offset: 5, Stop: checkpoint.NoStop}}
			r.Positions = append(r.Positions, beside)
		}},
		"the topic was created again": {metadata: ours, at: 5, change: func(_ *Config, r *checkpoint.Record) {
			r.Positions[0].Splits[0].TopicID = [16]byte{1}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeBroker(t, 1, "a")
			b.produce("a", 0, "0", "1", "2", "3", "4", "5")
			var os kadm.Offsets
			os.Add(kadm.Offset{Topic: "a", Partition: 0, At: tc.at, LeaderEpoch: -1, Metadata: tc.metadata})
			require.NoError(t, b.admin.CommitAllOffsets(t.Context(), "g", os))
			cfg := baseConfig(b.servers, "a")
			cfg.Group, cfg.CommitOffsets, cfg.StoreID = "g", true, func() string { return own }
			state, err := newSource(t, cfg).Resolve(t.Context(), nil)
			require.NoError(t, err)
			state.Splits[0].Offset = 3
			newest := &checkpoint.Record{Number: 9, LastCheckpoint: 4, Positions: []checkpoint.SourceState{state}}
			if tc.change != nil {
				tc.change(&cfg, newest)
			}
			s := newSource(t, cfg)
			found, err := s.Overtaken(t.Context(), newest)
			require.NoError(t, err)
			if tc.old {
				require.Contains(t, found, `group "g" has offsets`)
				require.Contains(t, found, "a-0 at 5, where the checkpoint has 3, committed at 2023-11-14T22:13:20Z")
			} else {
				require.Empty(t, found)
			}
			if tc.warns != "" {
				require.Contains(t, s.log.String(), tc.warns)
			} else {
				require.NotContains(t, s.log.String(), "the consumer group is ahead")
			}
		})
	}
}

// TestStartThatGoesBackIsInTheGroupBeforeItsFirstRecord: else the start after it would take the group for that of a newer
// state.
func TestStartThatGoesBackIsInTheGroupBeforeItsFirstRecord(t *testing.T) {
	const own = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"
	restored := func(offset int64, id byte) *checkpoint.SourceState {
		return &checkpoint.SourceState{Source: "in", Parallelism: 1, Splits: []checkpoint.Split{
			{Topic: "a", TopicID: [16]byte{id}, Offset: offset, LeaderEpoch: -1, Stop: checkpoint.NoStop}}}
	}
	for name, tc := range map[string]struct {
		committed int64
		restored  *checkpoint.SourceState
		want      bool
	}{
		"the first start of all":              {},
		"a first start, behind the group":     {committed: 2, want: true},
		"a restored position":                 {committed: 2, restored: restored(1, 0)},
		"a restored position beyond the log":  {committed: 2, restored: restored(9, 0), want: true},
		"a topic that was deleted and is new": {committed: 2, restored: restored(1, 7), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeBroker(t, 1, "a")
			b.produce("a", 0, "0", "1", "2")
			if tc.committed > 0 {
				var os kadm.Offsets
				os.Add(kadm.Offset{Topic: "a", At: tc.committed, LeaderEpoch: -1, Metadata: "tidegate/1 " + own + " - 1700000000000"})
				require.NoError(t, b.admin.CommitAllOffsets(t.Context(), "g", os))
			}
			cfg := baseConfig(b.servers, "a")
			cfg.Group, cfg.CommitOffsets, cfg.StoreID = "g", true, func() string { return own }
			cfg.Restore.Policy = offsets.EarliestOutOfRange
			state, err := newSource(t, cfg).Resolve(t.Context(), tc.restored)
			require.NoError(t, err)
			require.Equal(t, tc.want, state.Publish)
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

	cfg.CommitOffsets = true
	s = newSource(t, cfg)
	state, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	found, err = s.Overtaken(t.Context(), &checkpoint.Record{LastCheckpoint: 1, Positions: []checkpoint.SourceState{state}})
	require.NoError(t, err)
	require.Empty(t, found)
	require.Contains(t, s.log.String(), "an old copy of the state would not be noticed")
}

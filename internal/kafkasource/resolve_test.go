package kafkasource

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/offsets"
	"github.com/tidegate/tidegate/internal/splits"
)

func TestResolveFollowsTheStartUpMode(t *testing.T) {
	b := fakeBroker(t, 2, "a")
	b.produceAt("a", 0, 1000, "0", "1", "2", "3")
	b.produceAt("a", 1, 1000, "0", "1")
	b.commit("half", "a", 3)
	b.commit("full", "a", 1, 2)
	b.commit("beyond", "a", 1, 99)
	group := func(id string, reset offsets.Reset) offsets.Start {
		return offsets.Start{Mode: offsets.GroupStart, Group: id, Reset: reset}
	}
	for name, tc := range map[string]struct {
		start offsets.Start
		want  []int64
		log   string
		err   string
		// anew is set where another resolution might give other positions.
		anew bool
	}{
		"earliest":               {start: offsets.Start{Mode: offsets.EarliestStart}, want: []int64{0, 0}, log: `from="earliest: 2"`},
		"latest":                 {start: offsets.Start{Mode: offsets.LatestStart}, want: []int64{4, 2}, log: `from="latest: 2"`, anew: true},
		"group":                  {start: group("full", offsets.ResetNone), want: []int64{1, 2}, log: `from="committed offset: 2"`},
		"half a group, earliest": {start: group("half", offsets.ResetEarliest), want: []int64{3, 0}, log: `from="committed offset: 1; offset_reset earliest: 1"`},
		"half a group, latest":   {start: group("half", offsets.ResetLatest), want: []int64{3, 2}, log: `offset_reset latest: 1`, anew: true},
		"half a group, none":     {start: group("half", offsets.ResetNone), err: `group "half" has no committed offset for partitions a 1`},
		"new group, none":        {start: group("new", offsets.ResetNone), err: `group "new" has no committed offset for partitions a 0, 1`},
		"beyond the end, none":   {start: group("beyond", offsets.ResetNone), err: `a-1 at 99, log ends at 2`},
		"beyond the end, latest": {start: group("beyond", offsets.ResetLatest), want: []int64{1, 2}, log: "offset is not in the log", anew: true},
		"timestamp": {
			start: offsets.Start{Mode: offsets.TimestampStart, TimestampMS: 1002}, want: []int64{2, 2},
			log: `partitions have no record since startup.timestamp, and begin at their end" partitions="a 1"`, anew: true},
		"specific": {
			start: offsets.Start{Mode: offsets.SpecificStart, Group: "full", Reset: offsets.ResetEarliest, Offsets: offsets.Specific{
				splits.Partition{Topic: "a", Partition: 0}: 3}},
			want: []int64{3, 2}, log: `from="committed offset: 1; specific offset: 1"`, anew: true},
		"specific beyond the end": {
			start: offsets.Start{Mode: offsets.SpecificStart, Reset: offsets.ResetEarliest, Offsets: offsets.Specific{
				splits.Partition{Topic: "a", Partition: 0}: 9, splits.Partition{Topic: "a", Partition: 1}: 1}},
			want: []int64{0, 1}, log: `offset=9 log_start=0 log_end=4 begins_at=0`, anew: true},
		"specific of no partition": {
			start: offsets.Start{Mode: offsets.SpecificStart, Reset: offsets.ResetEarliest, Offsets: offsets.Specific{
				splits.Partition{Topic: "a", Partition: 9}: 9}},
			err: `startup.specific_offsets: there are no such partitions: a 9`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := baseConfig(b.servers, "a")
			cfg.Start, cfg.Group = tc.start, tc.start.Group
			s := newSource(t, cfg)
			state, err := s.Resolve(t.Context(), nil)
			looked, lookErr := surveyOf(t, cfg).Look(t.Context(), nil)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				require.EqualError(t, lookErr, err.Error())
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, offsetsOf(state))
			require.Equal(t, tc.anew, state.Publish, "is the group to know of it before anything is read")
			again, err := newSource(t, cfg).Resolve(t.Context(), &state)
			require.NoError(t, err)
			require.False(t, again.Publish, "what is restored was published by the recovery")
			require.Contains(t, s.log.String(), tc.log)
			require.NoError(t, lookErr)
			requireAgreement(t, state, looked)
		})
	}
}

func TestResolveOfARestoredStateIgnoresTheStartUpMode(t *testing.T) {
	b := fakeBroker(t, 2, "a", "b")
	b.produce("a", 0, "0", "1", "2")
	b.produce("a", 1, "0", "1", "2")
	cfg := baseConfig(b.servers, "a")
	cfg.Start = offsets.Start{Mode: offsets.LatestStart}
	s := newSource(t, cfg)
	fresh, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)

	restored := fresh
	restored.Splits = []checkpoint.Split{fresh.Splits[0]}
	restored.Splits[0].Offset = 1
	require.NoError(t, s.Verify(t.Context(), restored))
	got, err := s.Resolve(t.Context(), &restored)
	require.NoError(t, err)
	require.Equal(t, []int64{1, 0}, offsetsOf(got), "a partition that is not in the record begins at its earliest offset (rule 3)")
	require.Contains(t, s.log.String(), `from="checkpoint: 1; new partition, earliest: 1"`)

	// A topic that is no longer subscribed keeps its position, and is not read.
	cfg.Subscription.Topics = []string{"b"}
	other := newSource(t, cfg)
	require.NoError(t, other.Verify(t.Context(), got))
	moved := other.resolve(&got)
	require.Equal(t, []int64{1, 0, 0, 0}, offsetsOf(moved))
	require.Contains(t, other.log.String(), "no longer in topics")
	b.produce("b", 0, "only this")
	require.Equal(t, []string{"b-0@0=only this"}, other.read(1))
	require.Equal(t, []int64{1, 0, 1, 0}, offsetsOf(other.pause()))
}

func TestChangedBoundOfARestoredSource(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produce("a", 0, "0", "1")
	bounded, unbounded := offsets.Stop{Mode: offsets.LatestStop}, offsets.Stop{Mode: offsets.Unbounded}
	cfg := baseConfig(b.servers, "a")
	cfg.Stop = bounded
	s := newSource(t, cfg)
	old, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	old.Splits[0].Offset, old.Finished = 2, true
	b.produce("a", 0, "2")

	for name, tc := range map[string]struct {
		stop     offsets.Stop
		restored int64
		want     int64
		finished bool
	}{
		"still bounded":          {bounded, 2, 2, true},
		"made unbounded":         {unbounded, 2, checkpoint.NoStop, false},
		"made bounded only now":  {bounded, checkpoint.NoStop, 3, false},
		"unbounded as it was":    {unbounded, checkpoint.NoStop, checkpoint.NoStop, false},
		"bounded, not yet there": {bounded, 5, 5, false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := cfg
			cfg.Stop = tc.stop
			restored := old
			restored.Splits = []checkpoint.Split{old.Splits[0]}
			restored.Splits[0].Stop = tc.restored
			s := newSource(t, cfg)
			got, err := s.Resolve(t.Context(), &restored)
			require.NoError(t, err)
			require.Equal(t, tc.want, got.Splits[0].Stop)
			require.Equal(t, tc.finished, got.Finished)
			// Who runs a bounded job again is told why it reads nothing.
			says := "nothing is read now: ends are resolved once, at the first start"
			require.Equal(t, tc.finished, strings.Contains(s.log.String(), says))
			if tc.finished {
				require.Contains(t, s.log.String(), "records_behind_them=1")
			}
			require.Equal(t, tc.stop.Bounded() && tc.restored != checkpoint.NoStop,
				strings.HasSuffix(s.About(), "until latest-offset as the first start resolved it"), s.About())
		})
	}
}

func TestRestoredPositionOutsideTheLog(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produce("a", 0, "0", "1", "2", "3", "4")
	b.deleteRecords("a", 0, 3)
	for name, tc := range map[string]struct {
		at, want        int64
		counted, losses int64
		err             string
	}{
		"inside":     {at: 4, want: 4},
		"before":     {at: 1, want: 3, counted: 1, losses: 2, err: "a-0 at 1, log starts at 3"},
		"beyond":     {at: 9, want: 3, counted: 1, losses: 0, err: "a-0 at 9, log ends at 5"},
		"at the end": {at: 5, want: 5},
	} {
		for _, policy := range []offsets.OnOutOfRange{offsets.FailOutOfRange, offsets.EarliestOutOfRange} {
			t.Run(name+", "+string(policy), func(t *testing.T) {
				var counted, losses int64
				cfg := baseConfig(b.servers, "a")
				// Its offset_reset never has a say in what becomes of a restored position.
				cfg.Start = offsets.Start{Mode: offsets.GroupStart, Group: "g", Reset: offsets.ResetLatest}
				cfg.Restore.Policy = policy
				cfg.Metrics.RestoredOutOfRange = func(n int64) { counted += n }
				cfg.Metrics.SkippedOffsets = func(n int64) { losses += n }
				s := newSource(t, cfg)
				restored := checkpoint.SourceState{Source: "in", Parallelism: 1, Splits: []checkpoint.Split{
					{Topic: "a", Offset: tc.at, LeaderEpoch: -1, Stop: checkpoint.NoStop}}}
				got, err := s.Resolve(t.Context(), &restored)
				require.Equal(t, tc.counted, counted)
				if policy == offsets.FailOutOfRange && tc.err != "" {
					var outside *offsets.OutOfRangeError
					require.ErrorAs(t, err, &outside)
					require.ErrorContains(t, err, tc.err)
					return
				}
				require.NoError(t, err)
				require.Equal(t, []int64{tc.want}, offsetsOf(got))
				require.Equal(t, tc.losses, losses)
				if tc.counted > 0 {
					require.Contains(t, s.log.String(), "level=ERROR msg=\"restored position is not in the log any more")
				}
			})
		}
	}
}

func TestFinishedSplitNeedsNoLog(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produce("a", 0, "0", "1", "2")
	b.deleteRecords("a", 0, 3)
	cfg := baseConfig(b.servers, "a")
	cfg.Stop = offsets.Stop{Mode: offsets.LatestStop}
	restored := checkpoint.SourceState{Source: "in", Parallelism: 1, Finished: true, Splits: []checkpoint.Split{
		{Topic: "a", Offset: 2, LeaderEpoch: -1, Stop: 2}}}
	got, err := newSource(t, cfg).Resolve(t.Context(), &restored)
	require.NoError(t, err)
	require.True(t, got.Finished)
}

func TestVerifyRefusesAStateOfSomethingElse(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	s := newSource(t, baseConfig(b.servers, "a"))
	good, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, s.Verify(t.Context(), good))
	for name, tc := range map[string]struct {
		change func(*checkpoint.SourceState)
		err    string
	}{
		"another cluster":     {func(s *checkpoint.SourceState) { s.ClusterID = "other" }, `belong to cluster "other"`},
		"another parallelism": {func(s *checkpoint.SourceState) { s.Parallelism = 4 }, "parallelism 4 and index 0, and the config has parallelism 1"},
		"another index":       {func(s *checkpoint.SourceState) { s.Index = 1 }, "index 1"},
		"a recreated topic":   {func(s *checkpoint.SourceState) { s.Splits[0].TopicID = [16]byte{1} }, `topic "a" was deleted and created again`},
		"a partition that is gone": {func(s *checkpoint.SourceState) {
			s.Splits = append(s.Splits, checkpoint.Split{Topic: "a", Partition: 7})
		}, "partitions a 7 do not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := good
			bad.Splits = append([]checkpoint.Split(nil), good.Splits...)
			tc.change(&bad)
			require.ErrorContains(t, s.Verify(t.Context(), bad), tc.err)
		})
	}
	unknown := good
	unknown.ClusterID = ""
	require.NoError(t, s.Verify(t.Context(), unknown), "a state without cluster id is of a broker that tells none")
}

func TestMissingTopicIsNamed(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	s := newSource(t, baseConfig(b.servers, "a", "nope"))
	_, err := s.Resolve(t.Context(), nil)
	var missing *splits.MissingError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, []string{"nope"}, missing.Topics)
	require.ErrorAs(t, s.Verify(t.Context(), checkpoint.SourceState{Parallelism: 1}), &missing)
}

func TestSharesReadEachPartitionOnce(t *testing.T) {
	b := fakeBroker(t, 5, "a")
	seen := make(map[int32]int)
	for i := range int32(3) {
		cfg := baseConfig(b.servers, "a")
		cfg.Share = splits.Share{Parallelism: 3, Index: i}
		state, err := newSource(t, cfg).Resolve(t.Context(), nil)
		require.NoError(t, err)
		require.EqualValues(t, 3, state.Parallelism)
		require.Equal(t, i, state.Index)
		for _, s := range state.Splits {
			seen[s.Partition]++
		}
	}
	require.Equal(t, map[int32]int{0: 1, 1: 1, 2: 1, 3: 1, 4: 1}, seen)
}

// What Flink passes over without a word is as a rule a slip of the pen.
func TestStartThatReadsNothingIsWarnedOf(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produce("a", 0, "x0", "x1", "x2")
	zero := splits.Partition{Topic: "a"}
	for name, tc := range map[string]struct {
		change func(*Config)
		warns  string
	}{
		"an end before the start": {func(c *Config) {
			c.Start = offsets.Start{Mode: offsets.LatestStart}
			c.Stop = offsets.Stop{Mode: offsets.SpecificStop, Offsets: offsets.Specific{zero: 1}}
		}, "partitions begin behind where they end"},
		"an end at the start": {func(c *Config) {
			c.Start = offsets.Start{Mode: offsets.LatestStart}
			c.Stop = offsets.Stop{Mode: offsets.LatestStop}
		}, ""},
		"a share of nothing": {func(c *Config) {
			c.Share = splits.Share{Parallelism: 7, Index: splits.Owner(zero, 7)}
			c.Share.Index = (c.Share.Index + 1) % 7
		}, "no partition is left for this process"},
		"its share": {func(c *Config) { c.Share = splits.Share{Parallelism: 7, Index: splits.Owner(zero, 7)} }, ""},
		"a pattern of nothing": {func(c *Config) {
			c.Subscription = splits.Subscription{Pattern: regexp.MustCompile("^(?:a;b)$")}
		}, "topic_pattern matches the whole name of no topic"},
		"a pattern": {func(c *Config) { c.Subscription = splits.Subscription{Pattern: regexp.MustCompile("^(?:a)$")} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := baseConfig(b.servers, "a")
			cfg.Start = offsets.Start{Mode: offsets.EarliestStart}
			tc.change(&cfg)
			s := newSource(t, cfg)
			_, err := s.Resolve(t.Context(), nil)
			require.NoError(t, err)
			if tc.warns == "" {
				require.NotContains(t, s.log.String(), "level=WARN")
			} else {
				require.Contains(t, s.log.String(), tc.warns)
			}
		})
	}
}

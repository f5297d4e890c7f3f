package conformance

import (
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/splits"
	"github.com/tidegate/tidegate/tests/binary"
)

var (
	often       = "100ms"
	checkpoints = m{"interval": "50ms", "store": "state"}
	fromEnd     = m{"mode": "latest-offset"}
)

// behaviours are ids that take more than a config and what it reads.
var behaviours = func() map[string]func(j *job) {
	all := maps.Clone(upstream)
	maps.Copy(all, derived)
	return all
}()

// upstream are ids that the connector has a test for.
var upstream = map[string]func(j *job){
	// A group is given: offsets are committed with checkpoints, by default.
	"S1": func(j *job) {
		j.own("none", "pair")
		s := j.start(j.source("none", pair, m{"startup": fromStart, "checkpoint": checkpoints}))
		j.reads(s, wholePair)
		j.commits("none", map[string]int64{"pair-0": 3, "pair-1": 3})
		groups, err := j.world.Admin.DescribeGroups(j.t.Context(), j.world.Group("none"))
		require.NoError(j.t, err)
		require.Len(j.t, groups, 1)
		require.Empty(j.t, groups.Sorted()[0].Members, "the source is no member of its group")
	},
	// Flink refuses commits that are asked for without a group. Here true is the default, and means: where there is one.
	"S3": func(j *job) {
		j.own("none", "pair")
		s := j.start(j.source("", pair, m{"startup": fromStart, "checkpoint": checkpoints, "commit_offsets_on_checkpoint": true}))
		j.reads(s, wholePair)
		j.goesOn(s, wholePair)
		require.Empty(j.t, j.world.Offsets("none"))
	},
	"S16": func(j *job) {
		out, err := exec.Command(binary.Connect(j.t), "create", "kafka_flink_source").CombinedOutput()
		require.NoError(j.t, err, string(out))
		require.Contains(j.t, string(out), "discovery_interval: 5m")
	},
	// Discovery is off where the source is bounded, whatever the interval is.
	"S17": func(j *job) {
		j.own("", "pair")
		s := j.start(j.source("", pair, m{"startup": fromStart, "discovery_interval": often, "bounded": m{
			"mode": "specific-offsets", "specific_offsets": "partition:0,offset:4;partition:1,offset:3"}}))
		j.reads(s, wholePair)
		j.grow()
		j.goesOn(s, wholePair)
		j.world.Append(j.world.Topic("pair"), 0, 1)
		require.Equal(j.t, map[string]string{"pair-0": "0-3", "pair-1": "0-2"}, j.ends(s))
	},
	"S17b": func(j *job) { j.discovers(m{"startup": fromStart, "discovery_interval": often}, 0) },
	"S18":  clientIDs,
	"E3": func(j *job) {
		for pattern, want := range map[string]map[string]string{
			"pai.*": wholePair, "pair|gaps": merged(wholePair, map[string]string{"gaps-1": "0-4"}), "air": {}, "pai": {},
		} {
			s := j.host.Run("E3_"+strings.Map(letters, pattern), j.source("", nil, m{"topic_pattern": j.pattern(pattern), "startup": fromStart, "bounded": toEnd}))
			require.Equal(j.t, want, j.ends(s), pattern)
		}
	},
	"E4": func(j *job) {
		s := j.start(j.source("", nil, m{"partitions": j.real([]string{"fixture:0-8", "pair:1"}), "startup": fromStart, "bounded": toEnd}))
		want := merged(fixtureFrom(same), map[string]string{"pair-1": "0-2"})
		delete(want, "fixture-9")
		require.Equal(j.t, want, j.ends(s))
	},
	"E5": func(j *job) {
		j.refused(j.start(j.source("", nil, m{"partitions": j.real([]string{"pair:0", "pair:7"}), "startup": fromStart, "bounded": toEnd})),
			j.world.Topic("pair")+" 7: the topic has no such partition")
	},
	"E14": func(j *job) {
		j.own("none", "pair")
		s := j.start(j.source("none", pair, m{"startup": fromEnd, "checkpoint": checkpoints, "discovery_interval": "0s"}))
		j.commits("none", map[string]int64{"pair-0": 3, "pair-1": 3})
		j.grow()
		j.world.Append(j.world.Topic("pair"), 0, 1)
		j.reads(s, map[string]string{"pair-0": "3"})
		j.goesOn(s, map[string]string{"pair-0": "3"})
	},
	"E15": func(j *job) { j.discovers(m{"startup": fromStart, "discovery_interval": often}, 0) },
	// Readers are processes: the share of one that does not run is read by nobody else.
	"E16": func(j *job) {
		require.Equal(j.t, j.owned(2, 0), j.share(0, 2))
		require.Equal(j.t, j.owned(2, 1), j.share(1, 2))
	},
	"E18": func(j *job) {
		require.Equal(j.t, wholePair, j.ends(j.host.Run("E18_bounded", j.source("", pair, m{"startup": fromStart, "bounded": toEnd}))))
		s := j.start(j.source("", pair, m{"startup": fromStart}))
		j.reads(s, wholePair)
		j.goesOn(s, wholePair)
	},
	"E20": func(j *job) { j.discovers(m{"startup": fromEnd, "discovery_interval": often}, 3) },
	// A restored position is kept, whatever the start mode is.
	"E21": func(j *job) { j.restores(fromStart, fromEnd) },
	"E23": func(j *job) {
		union := merged(j.share(0, 3), j.share(2, 3))
		require.Equal(j.t, j.owned(3, 0, 2), union)
		require.Less(j.t, len(union), 10)
	},
	// What a restored source had read is not read again.
	"E24": func(j *job) { j.restores(fromStart, fromStart) },
	"E30": func(j *job) {
		var known []checkpoint.Split
		for p := range int32(20) {
			known = append(known, checkpoint.Split{Topic: "old", Partition: p})
		}
		changes := splits.Diff(known, splits.Subscription{Topics: []string{"old", "new"}}, splits.Whole(),
			[]splits.Topic{{Name: "new", Partitions: []int32{0}}})
		require.Equal(j.t, []splits.Partition{{Topic: "new", Partition: 0}}, changes.New)
		require.ErrorContains(j.t, changes.Lost(), "old")
	},
	"R4": func(j *job) {
		j.own("", "pair")
		s := j.start(j.source("", pair, m{"startup": fromStart}))
		j.reads(s, wholePair)
		j.eventually(func() bool { return j.host.Count(j.id, "kafka_source_bytes") > 0 }, func() string { return "no bytes" })
		before := j.host.Count(j.id, "kafka_source_bytes")
		j.world.Append(j.world.Topic("pair"), 1, 1)
		j.eventually(func() bool { return j.host.Count(j.id, "kafka_source_bytes") > before }, func() string { return fmt.Sprint(before) })
		require.EqualValues(j.t, 7, j.host.Count(j.id, "kafka_source_records"))
	},
	// The lag is 0 when everything is read that there is. Names may have any character.
	"R5": func(j *job) {
		j.own("", "pair-with_dash.dot")
		s := j.start(j.source("", []string{"pair-with_dash.dot"}, m{"startup": fromStart, "bounded": m{
			"mode": "specific-offsets", "specific_offsets": "partition:0,offset:5;partition:1,offset:3"}}))
		j.eventually(func() bool {
			return j.host.Count(j.id, "kafka_source_records") == 6 && j.host.Count(j.id, "kafka_source_end_offset") == 6
		}, func() string { return fmt.Sprint(j.host.Count(j.id, "kafka_source_end_offset")) })
		require.Zero(j.t, j.host.Count(j.id, "kafka_source_lag"))
		j.world.Append(j.world.Topic("pair-with_dash.dot"), 0, 2)
		require.Equal(j.t, map[string]string{"pair-with_dash.dot-0": "0-4", "pair-with_dash.dot-1": "0-2"}, j.ends(s))
	},
	// Nothing is committed while nothing is read, where the start can be found again: at the first record.
	"R14": func(j *job) {
		j.own("none", "empty")
		s := j.start(j.source("none", []string{"empty"}, m{"startup": fromStart, "checkpoint": checkpoints}))
		j.eventually(func() bool { return len(j.host.Logged(j.id, "sources and sinks are running")) > 0 }, func() string { return "no line" })
		j.goesOn(s, map[string]string{})
		require.Empty(j.t, j.world.Offsets("none"))
	},
	"R15": func(j *job) {
		j.own("none", "pair")
		s := j.start(j.source("none", pair, m{"startup": fromStart, "checkpoint": checkpoints, "commit_offsets_on_checkpoint": false}))
		j.reads(s, wholePair)
		j.goesOn(s, wholePair)
		require.Empty(j.t, j.world.Offsets("none"))
	},
	"R16": func(j *job) {
		j.own("none", "pair")
		s := j.start(j.source("none", pair, m{"startup": fromStart, "checkpoint": checkpoints}))
		j.reads(s, wholePair)
		j.commits("none", map[string]int64{"pair-0": 3, "pair-1": 3})
		j.eventually(func() bool {
			return j.host.Count(j.id, "kafka_source_commits_succeeded") > 0 && j.host.Count(j.id, "kafka_source_records") == 6 &&
				j.host.Count(j.id, "kafka_source_position") == 6 && j.host.Count(j.id, "kafka_source_committed_offset") == 6
		}, func() string { return fmt.Sprint(j.host.Count(j.id, "kafka_source_committed_offset")) })
		require.Zero(j.t, j.host.Count(j.id, "kafka_source_commits_failed"))
	},
	// Metadata is that of the record; the value is its bytes and nothing else. The value of a record here is its offset.
	"R24": func(j *job) {
		s := j.start(j.source("", pair, m{"startup": fromStart, "bounded": toEnd}))
		j.ends(s)
		for _, r := range s.Rows() {
			require.Equal(j.t, j.world.Topic("pair"), r.Topic)
			require.Contains(j.t, []int{0, 1}, r.Partition)
			require.Equal(j.t, fmt.Sprint(r.Offset), r.Value)
			require.Equal(j.t, r.Offset*1000, r.TimestampMS)
		}
		require.Equal(j.t, wholePair, j.ranges(s))
	},
	"R27": func(j *job) {
		s := j.start(j.source("", pair, m{"startup": fromStart, "bounded": toEnd, "metadata": []string{"topic", "partition", "offset"}}))
		require.Equal(j.t, wholePair, j.ends(s))
		for _, r := range s.Rows() {
			require.Equal(j.t, fmt.Sprint(r.Offset), r.Value)
		}
	},
	"R29": func(j *job) {
		s := j.start(j.source("", fixture, m{"startup": fromStart, "bounded": toEnd}))
		j.ends(s)
		require.Len(j.t, s.Rows(), 55)
		for _, r := range s.Rows() {
			require.Equal(j.t, r.Offset*1000, r.TimestampMS)
		}
	},
	"R31": func(j *job) {
		s := j.start(j.source("", fixture, m{"startup": fromStart, "bounded": toEnd}))
		j.ends(s)
		sum, want := int64(0), int64(0)
		for _, r := range s.Rows() {
			var v int64
			_, err := fmt.Sscan(r.Value, &v)
			require.NoError(j.t, err)
			sum += v
		}
		for p := range int64(10) {
			for o := p; o < 10; o++ {
				want += o
			}
		}
		require.Equal(j.t, want, sum)
	},
	// A process whose share is empty ends too.
	"R32": func(j *job) {
		var all map[string]string
		for i := range 11 {
			all = merged(all, j.share(i, 11))
		}
		require.Equal(j.t, fixtureFrom(same), all)
	},
	"R37": func(j *job) {
		j.onKafka("", "transactions")
		s := j.start(j.source("", []string{"transactions"}, m{"startup": fromStart, "bounded": toEnd}))
		require.Equal(j.t, map[string]string{"transactions-0": "0-2,4", "transactions-1": "0-1", "transactions-2": "0"}, j.ends(s))
		committed := j.host.Run("R37_committed", j.source("", []string{"transactions"}, m{"startup": fromStart, "bounded": toEnd, "isolation_level": "read_committed"}))
		require.Equal(j.t, map[string]string{"transactions-0": "0-2", "transactions-2": "0"}, j.ends(committed))
	},
}

// grow adds a partition with three records.
func (j *job) grow() {
	j.t.Helper()
	j.world.AddPartitions(j.world.Topic("pair"), 3)
	j.world.Append(j.world.Topic("pair"), 2, 3)
}

// discovers runs a source that finds a new partition and reads it from its first record; skipped is how many records of
// the others it does not read.
func (j *job) discovers(more m, skipped int) {
	j.t.Helper()
	j.own("none", "pair")
	more["checkpoint"] = checkpoints
	s := j.start(j.source("none", pair, more))
	j.commits("none", map[string]int64{"pair-0": 3, "pair-1": 3})
	j.grow()
	want := map[string]string{"pair-2": "0-2"}
	if skipped == 0 {
		maps.Copy(want, wholePair)
	}
	j.reads(s, want)
	j.commits("none", map[string]int64{"pair-0": 3, "pair-1": 3, "pair-2": 3})
}

// restores stops a source and starts it again with another start mode; only what came in between is read.
func (j *job) restores(first, second m) {
	j.t.Helper()
	j.own("", "pair")
	s := j.start(j.source("", pair, m{"startup": first, "checkpoint": checkpoints}))
	j.reads(s, wholePair)
	s.Stop()
	j.world.Append(j.world.Topic("pair"), 1, 2)
	j.reads(j.start(j.source("", pair, m{"startup": second, "checkpoint": checkpoints})), map[string]string{"pair-1": "3-4"})
}

// owned is what processes of so many read of the fixture, by Flink's rule.
func (j *job) owned(of int32, indexes ...int32) map[string]string {
	all := fixtureFrom(same)
	for p := range int32(10) {
		if !slices.Contains(indexes, splits.Owner(splits.Partition{Topic: j.world.Topic("fixture"), Partition: p}, of)) {
			delete(all, fmt.Sprint("fixture-", p))
		}
	}
	return all
}

// pattern is one over the real names of topics.
func (j *job) pattern(pattern string) string {
	return regexp.QuoteMeta(j.world.Prefix) + "(?:" + pattern + ")"
}

// share is what one of several processes reads of the fixture.
func (j *job) share(index, of int) map[string]string {
	j.t.Helper()
	s := j.host.Run(fmt.Sprintf("%s_%d", j.id, index), j.source("", fixture, m{"startup": fromStart, "bounded": toEnd, "parallelism": of, "index": index}))
	return j.ends(s)
}

package conformance

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/splits"
)

// derived are ids of behaviour that upstream has no test for.
var derived = map[string]func(j *job){
	// An end beyond the log's is waited for, and nothing behind it is read.
	"G2": func(j *job) {
		j.own("", "pair")
		s := j.start(j.source("", pair, m{"startup": fromStart, "bounded": m{
			"mode": "specific-offsets", "specific_offsets": "partition:0,offset:5;partition:1,offset:3"}}))
		j.reads(s, wholePair)
		j.goesOn(s, wholePair)
		j.world.Append(j.world.Topic("pair"), 0, 3)
		require.Equal(j.t, map[string]string{"pair-0": "0-4", "pair-1": "0-2"}, j.ends(s))
	},
	"G6": func(j *job) {
		j.own("", "pair")
		s := j.start(j.source("", pair, m{"startup": fromStart, "bounded": m{"mode": "latest-offset", "keep_running": true}}))
		j.reads(s, wholePair)
		j.world.Append(j.world.Topic("pair"), 0, 3)
		j.goesOn(s, wholePair)
	},
	// Flink hangs (FLINK-31006).
	"G7": func(j *job) {
		s := j.start(j.source("", nil, m{"topic_pattern": j.pattern("nowhere.*"), "startup": fromStart, "bounded": toEnd}))
		require.Empty(j.t, j.ends(s))
	},
	// To Flink the first topic of a pattern is initial whenever it comes, so that latest-offset passes over what it holds.
	// Here it is new (rule 3).
	"G9": func(j *job) {
		j.own("none")
		s := j.start(j.source("none", nil, m{"topic_pattern": j.pattern("pair.*"), "startup": fromEnd, "checkpoint": checkpoints, "discovery_interval": often}))
		j.goesOn(s, map[string]string{})
		j.world.Create("pair")
		j.reads(s, wholePair)
	},
	// Flink hangs (FLINK-31006).
	"G8": func(j *job) {
		j.own("", "pair")
		source := j.source("", pair, m{"startup": fromStart, "checkpoint": checkpoints, "bounded": m{
			"mode": "specific-offsets", "specific_offsets": "partition:0,offset:5;partition:1,offset:3"}})
		s := j.start(source)
		j.reads(s, wholePair)
		s.Stop()
		j.world.Append(j.world.Topic("pair"), 0, 3)
		require.Equal(j.t, map[string]string{"pair-0": "3-4"}, j.ends(j.start(source)))
	},
	"G10": func(j *job) {
		j.own("none", "pair")
		source := j.source("none", pair, m{"startup": fromEnd, "checkpoint": checkpoints})
		s := j.start(source)
		j.commits("none", map[string]int64{"pair-0": 3, "pair-1": 3})
		s.Stop()
		j.grow()
		j.reads(j.start(source), map[string]string{"pair-2": "0-2"})
	},
	"G11": func(j *job) {
		j.own("none", "pair")
		s := j.start(j.source("none", pair, m{"startup": fromEnd, "checkpoint": checkpoints}))
		j.commits("none", map[string]int64{"pair-0": 3, "pair-1": 3})
		require.Empty(j.t, s.Rows())
	},
	// A commit that fails is counted, and hurts nothing; the next one commits the newest offset.
	"G12": func(j *job) {
		j.own("none", "pair")
		group := j.world.Group("none")
		var refuse atomic.Bool
		refuse.Store(true)
		j.broker.ControlKey(int16(kmsg.OffsetCommit), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			j.broker.KeepControl()
			req := kreq.(*kmsg.OffsetCommitRequest)
			if req.Group != group || !refuse.Load() {
				return nil, nil, false
			}
			return refusal(req), nil, true
		})
		s := j.start(j.source("none", pair, m{"startup": fromStart, "checkpoint": checkpoints}))
		j.reads(s, wholePair)
		j.eventually(func() bool { return j.host.Count(j.id, "kafka_source_commits_failed") > 0 }, func() string { return "no failure counted" })
		require.Empty(j.t, j.world.Offsets("none"))
		j.world.Append(j.world.Topic("pair"), 0, 1)
		j.reads(s, map[string]string{"pair-0": "0-3", "pair-1": "0-2"})
		refuse.Store(false)
		j.world.Append(j.world.Topic("pair"), 0, 1)
		j.commits("none", map[string]int64{"pair-0": 5, "pair-1": 3})
		require.Empty(j.t, s.Failure())
	},
	// Flink fails the job where the brokers do not answer a look for partitions. Here it is tried again.
	"G13": func(j *job) {
		j.own("none", "pair")
		s := j.start(j.source("none", pair, m{"startup": fromEnd, "checkpoint": checkpoints, "discovery_interval": often}))
		j.commits("none", map[string]int64{"pair-0": 3, "pair-1": 3})
		var failures atomic.Int64
		const times = 5
		topic := j.world.Topic("pair")
		j.broker.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			j.broker.KeepControl()
			asked := slices.ContainsFunc(kreq.(*kmsg.MetadataRequest).Topics, func(t kmsg.MetadataRequestTopic) bool {
				return t.Topic != nil && *t.Topic == topic
			})
			if !asked || failures.Add(1) > times {
				return nil, nil, false
			}
			return nil, errors.New("the connection is gone"), true
		})
		j.eventually(func() bool { return failures.Load() >= times }, func() string { return fmt.Sprint(failures.Load()) })
		j.grow()
		j.reads(s, map[string]string{"pair-2": "0-2"})
	},
	"G17": func(j *job) {
		for _, commit := range []bool{true, false} {
			j.id = fmt.Sprintf("G17_%v", commit)
			j.onKafka("", "open")
			s := j.start(j.source("", []string{"open"}, m{"startup": fromStart, "bounded": toEnd, "isolation_level": "read_committed"}))
			j.reads(s, map[string]string{"open-0": "0"})
			j.goesOn(s, map[string]string{"open-0": "0"})
			j.world.End(commit)
			require.Equal(j.t, map[string]string{"open-0": map[bool]string{true: "0-2", false: "0"}[commit]}, j.ends(s))
		}
	},
	// A record that the pipeline drops is done with.
	"G19": func(j *job) {
		j.own("none", "pair")
		s := j.host.RunMapped(j.id, j.source("none", pair, m{"startup": fromStart, "checkpoint": checkpoints}), "root = deleted()")
		j.t.Cleanup(s.Stop)
		j.commits("none", map[string]int64{"pair-0": 3, "pair-1": 3})
		require.Empty(j.t, s.Rows())
	},
	// Consecutive partitions of a topic go to consecutive processes.
	"G21": func(j *job) {
		seen := map[int]bool{}
		for p := range int32(4) {
			seen[int(splits.Owner(splits.Partition{Topic: "orders", Partition: p}, 4))] = true
			require.Equal(j.t, (splits.Owner(splits.Partition{Topic: "orders"}, 4)+p)%4, splits.Owner(splits.Partition{Topic: "orders", Partition: p}, 4))
		}
		require.Len(j.t, seen, 4)
	},
}

// refusal refuses every partition of a commit.
func refusal(req *kmsg.OffsetCommitRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, kerr.GroupAuthorizationFailed.Code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

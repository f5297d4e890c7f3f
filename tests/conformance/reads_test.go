package conformance

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"
)

// read is a source that ends, or that is refused, on topics that are only read.
type read struct {
	id, about string
	topics    []string
	group     string
	// more is the rest of the config; topic is the real name of the first topic.
	more func(topic string) m
	// want are the records, refused what the failure says.
	want    map[string]string
	refused string
}

func (r read) run(j *job) {
	s := j.start(j.source(r.group, r.topics, r.more(j.world.Topic(r.topics[0]))))
	if r.refused != "" {
		j.refused(s, r.refused)
		return
	}
	require.Equal(j.t, r.want, j.ends(s))
}

// between is a config with a start and a stop.
func between(startup, bounded m) func(string) m {
	return func(string) m { return m{"startup": startup, "bounded": bounded} }
}

// at is a start with offsets in a map, and a reset, or none.
func at(offsets m, reset string) func(string) m {
	return func(topic string) m {
		startup := m{"mode": "specific-offsets", "specific_offsets": m{topic: offsets}}
		if reset != "" {
			startup["offset_reset"] = reset
		}
		return m{"startup": startup, "bounded": toEnd}
	}
}

// to is a stop with offsets in a map.
func to(offsets m) func(string) m {
	return func(topic string) m {
		return m{"startup": fromStart, "bounded": m{"mode": "specific-offsets", "specific_offsets": m{topic: offsets}}}
	}
}

var (
	fromStart = m{"mode": "earliest-offset"}
	toEnd     = m{"mode": "latest-offset"}
	fixture   = []string{"fixture"}
	pair      = []string{"pair"}
)

// wholePair is all that the pair has.
var wholePair = map[string]string{"pair-0": "0-2", "pair-1": "0-2"}

func reads() []read {
	all := []read{
		{"S6", "no group, the default mode", pair, "", between(m{}, toEnd), nil, "needs group_id"},
		{"S6", "no group, group-offsets", pair, "", between(m{"mode": "group-offsets"}, toEnd), nil, "needs group_id"},
		{"S9", "start", pair, "", at(m{"0": "group-offsets", "1": 1}, ""), nil, "pair-0 is to begin at its committed offset, which needs group_id"},
		{"S9", "stop", pair, "", to(m{"0": "group-offsets", "1": 1}), nil, "pair-0 is to end at its committed offset, which needs group_id"},
		{"S9", "stop mode", pair, "", between(fromStart, m{"mode": "group-offsets"}), nil, "needs group_id"},
		{"E1", "two topics", []string{"fixture", "pair"}, "", between(fromStart, toEnd), merged(fixtureFrom(same), wholePair), ""},
		{"E2", "a topic that does not exist", []string{"pair", "nowhere"}, "", between(fromStart, toEnd), nil, "no such topic in the cluster"},
		{"E6", "earliest", fixture, "", between(fromStart, toEnd), fixtureFrom(same), ""},
		{"E7", "latest", fixture, "", between(m{"mode": "latest-offset"}, toEnd), map[string]string{}, ""},
		{"E8", "committed", fixture, "committed", between(m{"mode": "group-offsets"}, toEnd), fixtureFrom(func(p int) int { return p + 2 }), ""},
		{"E8", "not committed", fixture, "none", between(m{"mode": "group-offsets"}, toEnd), nil, "has no committed offset for partitions"},
		{"E8", "not committed, earliest", fixture, "none", between(m{"mode": "group-offsets", "offset_reset": "earliest"}, toEnd), fixtureFrom(same), ""},
		{"E8", "not committed, latest", fixture, "none", between(m{"mode": "group-offsets", "offset_reset": "latest"}, toEnd), map[string]string{}, ""},
		{"E9", "2001", fixture, "", between(m{"mode": "timestamp", "timestamp": 2001}, toEnd), fixtureFrom(func(p int) int { return max(p, 3) }), ""},
		{"E9", "no match", fixture, "", between(m{"mode": "timestamp", "timestamp": 9001}, toEnd), map[string]string{}, ""},
		{"E11", "one unlisted, committed", pair, "committed", at(m{"0": 1}, ""), map[string]string{"pair-0": "1-2", "pair-1": "2"}, ""},
		{"E11", "one unlisted, not committed", pair, "none", at(m{"0": 1}, ""), map[string]string{"pair-0": "1-2", "pair-1": "0-2"}, ""},
		{"E13", "none listed", pair, "committed", at(m{}, "none"), nil, "name at least one partition"},
		{"R6", "start is stop", fixture, "", between(m{"mode": "latest-offset"}, toEnd), map[string]string{}, ""},
		{"R6", "an empty topic", []string{"empty"}, "", between(fromStart, toEnd), map[string]string{}, ""},
		{"R17", "a normal and an empty one", []string{"pair", "empty"}, "", between(fromStart, toEnd), wholePair, ""},
		{"R18", "empty ones only", []string{"empty"}, "", between(fromStart, toEnd), map[string]string{}, ""},
		{"R30", "two topics from committed offsets", []string{"fixture", "pair"}, "committed", between(m{"mode": "group-offsets"}, toEnd),
			merged(fixtureFrom(func(p int) int { return p + 2 }), map[string]string{"pair-0": "2", "pair-1": "2"}), ""},
		{"R36", "only one partition has records", []string{"gaps"}, "", between(fromStart, toEnd), map[string]string{"gaps-1": "0-4"}, ""},
		{"G1", "mode", pair, "", between(fromStart, m{"mode": "earliest-offset"}), nil, "earliest-offset"},
		{"G1", "offset", pair, "", to(m{"0": -2, "1": 1}), nil, "nothing ends"},
		{"G3", "earliest", pair, "", at(m{"0": 8, "1": 3}, ""), map[string]string{"pair-0": "0-2"}, ""},
		{"G3", "latest", pair, "", at(m{"0": 8, "1": 0}, "latest"), map[string]string{"pair-1": "0-2"}, ""},
		{"G3", "none", pair, "", at(m{"0": 8, "1": 0}, "none"), nil, "pair-0 at 8, log ends at 3"},
		{"G4", "all listed, none", pair, "", at(m{"0": 1, "1": 3}, "none"), map[string]string{"pair-0": "1-2"}, ""},
		{"G5", "one unlisted, committed, none", pair, "committed", at(m{"0": 1}, "none"), nil, "no offset is listed for partitions"},
		{"G15", "a start in the future", pair, "", between(m{"mode": "timestamp", "timestamp": 32503680000000}, toEnd), nil, "is in the future"},
		{"G20", "auto.offset.reset with earliest", pair, "", func(string) m {
			return m{"startup": fromStart, "bounded": toEnd, "properties": m{"auto.offset.reset": "none"}}
		}, nil, "startup.offset_reset"},
		{"G22", "not committed", pair, "none", between(fromStart, m{"mode": "group-offsets"}), nil, "none\" has no committed offset for"},
		{"G23b", "start", []string{"pair", "gaps"}, "", between(m{"mode": "specific-offsets", "specific_offsets": "partition:0,offset:1"}, toEnd), nil, "names no topic"},
		{"G23b", "stop", []string{"pair", "gaps"}, "", between(fromStart, m{"mode": "specific-offsets", "specific_offsets": "partition:0,offset:1"}), nil, "names no topic"},
		{"G24", "unlisted, committed", pair, "committed", to(m{"0": 1}), map[string]string{"pair-0": "0", "pair-1": "0-1"}, ""},
		{"G24", "unlisted, not committed", pair, "none", to(m{"0": 1}), map[string]string{"pair-0": "0"}, ""},
	}
	return append(all, strings23()...)
}

// strings23 are the strings of G23, read in a topic whose partitions have the records 0, 1 and 2.
func strings23() (all []read) {
	for s, want := range map[string]string{
		"partition:0,offset:1;": "1-2", "partition:0,offset:1,": "1-2", "partition:0,offset:1;partition:0,offset:2": "2", "partition:0,offset:-2": "0-2",
		";": "", "": "", "partition:0,offset:1;;partition:1,offset:2": "", "partition:0, offset:1": "", "offset:1,partition:0": "", "partition:0": "", "0:1": "",
		"partition:x,offset:1": "", "Partition:0,offset:1": "", "partition:0,offset:-7": "",
	} {
		r := read{"G23", fmt.Sprintf("%q", s), pair, "", between(m{"mode": "specific-offsets", "specific_offsets": s}, toEnd), nil, "specific_offsets"}
		if want != "" {
			r.want, r.refused = map[string]string{"pair-0": want, "pair-1": "0-2"}, ""
		}
		r.about = strings.ReplaceAll(r.about, "/", "_")
		all = append(all, r)
	}
	return all
}

func same(p int) int { return p }

func merged(ms ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, of := range ms {
		for k, v := range of {
			out[k] = v
		}
	}
	return out
}

package parity

import (
	"fmt"
	"strings"
)

// startAndStop is every start mode with every stop mode, on the fixture.
func startAndStop() (all []parityCase) {
	starts := []struct {
		name string
		position
		// left is how many records there are from there to the end.
		left int
	}{
		{"earliest-offset", earliest, 55},
		{"latest-offset", latest, 0},
		{"group-offsets", groupOffsets, 36},
		{"timestamp", timestamp(2001), 49},
		{"timestamp without match", timestamp(9001), 0},
		{"specific-offsets", every(10, func(p int) int { return p + 1 }), 45},
	}
	stops := []struct {
		name string
		position
	}{
		{"latest-offset", latest},
		{"group-offsets", groupOffsets},
		{"timestamp", timestamp(5001)},
		{"timestamp without match", timestamp(9001)},
		{"specific-offsets", every(10, func(int) int { return 7 })},
	}
	for _, start := range starts {
		for _, stop := range stops {
			all = append(all, parityCase{
				file: "start_stop", name: start.name + " to " + stop.name, ids: "E6, E7, E8, E9, R6, R30",
				topics: []string{"fixture"}, group: "committed", start: start.position, stop: stop.position,
			})
		}
		c := parityCase{
			file: "start_stop", name: start.name + ", unbounded", topics: []string{"fixture"}, group: "none",
			start: start.position, checkpoints: true, own: true,
			steps: []step{ready(10), rows(start.left), appendTo("fixture", 3, 2), appendTo("fixture", 9, 1), rows(start.left + 3), still},
		}
		if start.mode == "group-offsets" {
			c.group = "committed"
		}
		all = append(all, c)
	}
	return all
}

// pastTheEnd is why an offset that the log does not have is not passed over where it lies behind the end to read to.
const pastTheEnd = "Flink sees that the position is past the end, and reads nothing, without a word and whatever the reset is; for us " +
	"an offset that the log does not have is what offset_reset is for, bounded or not"

// fallback is what becomes of offsets that a group has not committed, or that the log does not have.
func fallback() (all []parityCase) {
	for _, group := range []string{"none", "partly", "beyond", "behind"} {
		for _, reset := range []string{"", "none", "earliest", "latest"} {
			name := fmt.Sprintf("group %s, reset %s", group, reset)
			if reset == "" {
				name = fmt.Sprintf("group %s", group)
			}
			c := parityCase{
				file: "fallback", name: name + ", bounded", ids: "E8",
				topics: []string{"fixture"}, group: group, start: groupOffsets.or(reset), stop: latest,
			}
			if group == "beyond" {
				c.differs, c.ours = pastTheEnd, &outcome{End: "failed", Kind: "out of range"}
				switch reset {
				case "earliest":
					c.ours = &outcome{End: "ended", Rows: map[string]string{"fixture-9": "9"}}
					for p := range 8 {
						c.ours.Rows[fmt.Sprintf("fixture-%d", p)] = fmt.Sprintf("%d-9", p+2)
					}
					c.ours.Rows["fixture-7"] = "9"
				case "latest":
					c.differs, c.ours = "", nil
				}
			}
			if group == "beyond" && reset != "none" {
				unbounded := c
				unbounded.differs, unbounded.ours = "", nil
				unbounded.name, unbounded.stop = name+", unbounded", position{}
				unbounded.steps = []step{rows(map[string]int{"": 37, "earliest": 37, "latest": 36}[reset]), still}
				all = append(all, unbounded)
			}
			all = append(all, c)
		}
	}
	return append(all,
		parityCase{file: "fallback", name: "default mode without a group", ids: "S6", topics: []string{"pair"}, stop: latest},
		parityCase{file: "fallback", name: "group-offsets without a group", ids: "S6", topics: []string{"pair"}, start: groupOffsets, stop: latest},
		parityCase{file: "fallback", name: "group-offsets as a stop without a group", ids: "S9", topics: []string{"pair"}, start: earliest, stop: groupOffsets},
		parityCase{file: "fallback", name: "default mode with a group", topics: []string{"pair"}, group: "committed", stop: latest},
		parityCase{file: "fallback", name: "a topic that does not exist", ids: "E2", topics: []string{"pair", "nowhere"}, start: earliest, stop: latest},
		parityCase{file: "fallback", name: "two topics", ids: "E1, R30", topics: []string{"pair", "fixture"}, start: earliest, stop: latest},
	)
}

// noPartition is why offsets of partitions that do not exist are not passed over.
const noPartition = "Flink passes over offsets of partitions that do not exist, and the partition that was meant begins elsewhere; here the typing error is named"

// specificStrings are those of G23, read on a topic with two partitions of three records.
func specificStrings() (all []parityCase) {
	for _, s := range []string{
		"partition:0,offset:1;partition:1,offset:2", "partition:0,offset:1;", "partition:0,offset:1,", "partition:0,offset:1,,,;;;", ";", "", ";;",
		"partition:0,offset:1;;partition:1,offset:2", ";partition:0,offset:1", "partition:0, offset:1", " partition:0,offset:1", "partition:0,offset:1 ",
		"offset:1,partition:0", "partition:0", "0:1", "partition:x,offset:1", "partition:0,offset:x", "partition:,offset:1", "partition:0,offset:",
		"Partition:0,offset:1", "partition:0,Offset:1", "partition:0,offset:1;partition:0,offset:2", "partition:0,offset:1,partition:1",
		"partition:+0,offset:+1", "partition:00,offset:01", "partition:0,offset:1.0", "partition:0,offset:9223372036854775808",
		"partition:2147483648,offset:1", "partition:0,offset:-1", "partition:0,offset:-2", "partition:0,offset:-3", "partition:0,offset:-7",
		"partition:-1,offset:1", "partition:7,offset:1", "partition:0,offset:1;partition:7,offset:0", "partition:0:1,offset:1",
		"partition:0,offset:1:2", "partition:partition:0,offset:1", "partition:0,,offset:1", ",partition:0,offset:1", "partition:0;offset:1",
		"partition:\u0661,offset:1",
	} {
		all = append(all,
			parityCase{file: "specific_strings", name: fmt.Sprintf("start %q", s), ids: "G23", topics: []string{"pair"}, group: "committed", start: specific(s), stop: latest},
			parityCase{file: "specific_strings", name: fmt.Sprintf("stop %q", s), ids: "G23, G24", topics: []string{"pair"}, group: "committed", start: earliest, stop: specific(s)})
	}
	for i := range all {
		for part, why := range map[string]string{
			"partition:7,": noPartition, "partition:-1,": noPartition,
			"\u0661": "Java takes digits of every script for numbers; here they are a typing error",
		} {
			if strings.Contains(all[i].start.specific+all[i].stop.specific, part) {
				kind := "malformed offsets"
				if part == "partition:7," {
					kind = "no such partition"
				}
				all[i].differs, all[i].ours = why, &outcome{End: "failed", Kind: kind}
			}
		}
	}
	return all
}

// specifics are specific offsets whatever their form.
func specifics() []parityCase {
	two := map[string]int64{"pair:0": 1, "pair:1": 2}
	one := map[string]int64{"pair:0": 1}
	c := func(name, ids, group string, start, stop position, steps ...step) parityCase {
		return parityCase{file: "specific", name: name, ids: ids, topics: []string{"pair"}, group: group, start: start, stop: stop, steps: steps}
	}
	beyond := map[string]int64{"pair:0": 8, "pair:1": 0}
	const noGroup = "Flink asks for what no group has committed, and dies of an assertion; here a partition that is not listed begins by " +
		"the reset, and ends at its beginning, where there is no group"
	but := func(c parityCase, why string, ours outcome) parityCase {
		c.differs, c.ours = why, &ours
		return c
	}
	return []parityCase{
		c("all listed, reset none", "G4", "", at(two).or("none"), latest),
		c("all listed", "E11", "", at(two), latest),
		c("one unlisted, committed", "E11", "committed", at(one), latest),
		c("one unlisted, not committed", "", "none", at(one), latest),
		c("one unlisted, not committed, reset latest", "", "none", at(one).or("latest"), latest),
		c("one unlisted, committed, reset none", "G5", "committed", at(one).or("none"), latest),
		but(c("one unlisted, no group", "", "", at(one), latest), noGroup,
			outcome{End: "ended", Rows: map[string]string{"pair-0": "1-2", "pair-1": "0-2"}}),
		c("none listed, reset none", "E13", "committed", at(map[string]int64{}).or("none"), latest),
		but(c("beyond the end, bounded", "G3", "", at(beyond), latest), pastTheEnd,
			outcome{End: "ended", Rows: map[string]string{"pair-0": "0-2", "pair-1": "0-2"}}),
		c("beyond the end, bounded, reset latest", "G3", "", at(beyond).or("latest"), latest),
		but(c("beyond the end, bounded, reset none", "G3", "", at(beyond).or("none"), latest), pastTheEnd,
			outcome{End: "failed", Kind: "out of range"}),
		c("beyond the end", "G3", "", at(beyond), position{}, rows(6), still),
		c("beyond the end, reset latest", "G3", "", at(beyond).or("latest"), position{}, rows(3), still),
		c("beyond the end, reset none", "G3", "", at(beyond).or("none"), position{}),
		c("marked as committed, without a commit", "", "none", at(map[string]int64{"pair:0": -3, "pair:1": 1}), latest),
		c("marked as committed, without a commit, reset none", "", "none", at(map[string]int64{"pair:0": -3, "pair:1": 1}).or("none"), latest),
		c("marked as committed, without a group", "S9", "", at(map[string]int64{"pair:0": -3, "pair:1": 1}), latest),
		c("to a committed offset, without a group", "S9", "", earliest, at(map[string]int64{"pair:0": -3, "pair:1": 1})),
		c("to a committed offset, without a commit", "G22", "none", earliest, at(map[string]int64{"pair:0": -3, "pair:1": 1})),
		c("to offsets, one unlisted, committed", "G24", "committed", earliest, at(one)),
		c("to offsets, one unlisted, not committed", "G24", "none", earliest, at(one)),
		but(c("to offsets, one unlisted, no group", "G24", "", earliest, at(one)), noGroup,
			outcome{End: "ended", Rows: map[string]string{"pair-0": "0"}}),
		c("without offsets", "", "", specific(absent), latest),
		c("to offsets, without offsets", "", "", earliest, specific(absent)),
		c("an end before the start", "", "", at(two), at(map[string]int64{"pair:0": 0, "pair:1": 2})),
		{file: "specific", name: "deleted offsets", topics: []string{"fixture"}, start: every(10, func(int) int { return 1 }), stop: latest},
		{file: "specific", name: "deleted offsets, and an end before what is left", topics: []string{"fixture"}, start: every(10, func(int) int { return 1 }),
			stop: every(10, func(int) int { return 3 })},
		{file: "specific", name: "string for two topics", ids: "G23b", topics: []string{"pair", "fixture"}, start: specific("partition:0,offset:1"), stop: latest},
		{file: "specific", name: "string as an end of two topics", ids: "G23b", topics: []string{"pair", "fixture"}, start: earliest, stop: specific("partition:0,offset:1")},
		{file: "specific", name: "string for a pattern", ids: "G23b", pattern: "pair", start: specific("partition:0,offset:1"), stop: latest},
		{file: "specific", name: "of two topics", topics: []string{"pair", "gaps"}, start: at(map[string]int64{"pair:0": 1, "pair:1": 2, "gaps:0": 0, "gaps:1": 3, "gaps:2": 5}), stop: latest},
	}
}

package parity

import "time"

// subscriptions are the three ways to say what is read.
func subscriptions() []parityCase {
	pattern := func(name, ids, pattern string) parityCase {
		return parityCase{file: "subscribe", name: name, ids: ids, pattern: pattern, start: earliest, stop: latest}
	}
	set := func(name, ids string, partitions ...string) parityCase {
		return parityCase{file: "subscribe", name: name, ids: ids, partitions: partitions, start: earliest, stop: latest}
	}
	java := pattern("a pattern that only Java knows", "", "(?!fixture|gaps|empty|transactions|compacted).*")
	java.differs, java.ours = "patterns are RE2's, which has no lookarounds, and cannot run for ever either; the error says so",
		&outcome{End: "failed", Kind: "pattern of Java's"}
	nothing := pattern("a pattern that matches nothing, bounded", "G7", "nowhere.*")
	nothing.steps = []step{still}
	nothing.differs, nothing.ours = "Flink never ends such a job (FLINK-31006); ours ends, as there is nothing to read",
		&outcome{End: "ended", Steps: []string{"not still running"}}
	return []parityCase{
		pattern("a pattern", "E3", "pai.*"),
		pattern("a pattern of two topics", "E3", "pair|gaps"),
		pattern("a pattern that matches a part of a name only", "E3", "fixtur|pair|xture"),
		java, nothing, laterTopic(), firstTopicLater(),
		set("partitions", "E4", "fixture:3", "fixture:5"),
		set("partitions of two topics", "E4", "fixture:9", "pair:0"),
		set("a partition that does not exist", "E5", "pair:0", "pair:7"),
		set("a partition of a topic that does not exist", "E5", "pair:0", "nowhere:0"),
		ungrown(),
	}
}

// laterTopic is one that a pattern matches and that comes while the job runs.
func laterTopic() parityCase {
	return parityCase{
		file: "subscribe", name: "a pattern, and a topic that comes later", ids: "E20", pattern: "pair.*", group: "none", own: true, made: []string{"pair"},
		start: latest, checkpoints: true, discovery: 200 * time.Millisecond,
		steps: []step{ready(2), create("pair-later"), rows(6), still},
	}
}

// firstTopicLater is the first one that a pattern matches.
func firstTopicLater() parityCase {
	return parityCase{
		file: "subscribe", name: "a pattern, and its first topic comes later", ids: "G9", pattern: "pair.*", group: "none", own: true, made: []string{},
		start: latest, checkpoints: true, discovery: 3 * time.Second,
		steps: []step{still, create("pair"), ready(2), appendTo("pair", 0, 1), rows(1), still},
		differs: "to Flink they are initial partitions, and latest-offset passes over what they hold by then; here the first look is the initial " +
			"one, whatever it finds, and what comes later is read from its first record (rule 3)",
		ours: &outcome{End: "running", Rows: map[string]string{"pair-0": "0-3", "pair-1": "0-2"}},
	}
}

// ungrown is a partition set, to which a new partition of its topic does not belong.
func ungrown() parityCase {
	return parityCase{
		file: "subscribe", name: "partitions, and their topic grows", ids: "E4", partitions: []string{"pair:1"}, group: "none", own: true, made: []string{"pair"},
		start: earliest, checkpoints: true, discovery: 200 * time.Millisecond,
		steps: []step{ready(1), rows(3), addPartitions("pair", 3), appendTo("pair", 2, 3), appendTo("pair", 1, 1), rows(4), still},
	}
}

package parity

import "time"

// discovery is what becomes of partitions and topics that come while a job runs, or while it does not.
func discovery() []parityCase {
	const often = 200 * time.Millisecond
	c := func(name, ids string, start position, every time.Duration, steps ...step) parityCase {
		return parityCase{file: "discovery", name: name, ids: ids, topics: []string{"pair"}, group: "none", own: true, start: start,
			checkpoints: true, discovery: every, steps: steps}
	}
	grow := func(steps ...step) []step {
		return append([]step{addPartitions("pair", 3), appendTo("pair", 2, 3), appendTo("pair", 0, 2)}, steps...)
	}
	cases := []parityCase{
		c("a new partition, start latest-offset", "E20", latest, often, append([]step{ready(2)}, grow(rows(5), still)...)...),
		c("a new partition, start earliest-offset", "E20", earliest, often, append([]step{rows(6)}, grow(rows(11), still)...)...),
		c("a new partition, start timestamp", "E20", timestamp(2000), often, append([]step{ready(2), rows(2)}, grow(rows(7), still)...)...),
		c("a new partition, discovery off", "E14", latest, -1, append([]step{ready(2)}, grow(rows(2), still)...)...),
		c("a new partition while the job was down", "G10", latest, often, ready(2), restart(grow()...), rows(5), still),
		c("a new partition while the job was down, discovery off", "G10", latest, -1, ready(2), restart(grow()...), rows(5), still),
		c("the start offset is committed with nothing read", "G11", latest, 0, ready(2), still),
	}
	cases[len(cases)-1].committed = true
	group := c("a new partition, start group-offsets", "E20", groupOffsets, often, append([]step{rows(2)}, grow(rows(7), still)...)...)
	group.group = "committed"
	specifically := specific("partition:0,offset:1;partition:1,offset:2")
	cases = append(cases, group,
		c("a new partition, start specific-offsets", "E20", specifically, often, append([]step{rows(3)}, grow(rows(8), still)...)...))
	stops := at(map[string]int64{"pair:0": 4, "pair:1": 3})
	grown := c("bounded, and a new partition", "S17", earliest, often, append([]step{rows(6)}, grow()...)...)
	grown.stop = stops
	running := c("setUnbounded, and a new partition that is not listed", "G6, G24", earliest, often, append([]step{rows(6)}, grow(rows(7), still)...)...)
	running.stop = stops.running()
	cases = append(cases, grown, running)
	bounded := c("bounded, restored with every partition assigned", "G8", earliest, 0, rows(6), ready(2),
		restart(appendTo("pair", 0, 3)), rows(2), still)
	bounded.stop = specific("partition:0,offset:5;partition:1,offset:3")
	bounded.differs = "Flink never ends such a job (FLINK-31006); ours does, as a bounded job should"
	bounded.ours = &outcome{End: "ended", Rows: map[string]string{"pair-0": "3-4"}, Steps: []string{"not still running"}}
	return append(cases, bounded)
}

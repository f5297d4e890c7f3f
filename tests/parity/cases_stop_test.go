package parity

import "time"

// ends are stops where there is more to it than an offset.
func ends() []parityCase {
	c := func(name, ids, topic, group string, start, stop position) parityCase {
		return parityCase{file: "ends", name: name, ids: ids, topics: []string{topic}, group: group, start: start, stop: stop}
	}
	return []parityCase{
		c("setBounded(earliest())", "G1", "pair", "", earliest, earliest),
		c("no offset is committed to end at", "G22", "pair", "none", earliest, groupOffsets),
		c("some offsets are committed to end at", "G22", "fixture", "partly", earliest, groupOffsets),
		c("only one partition has records", "R36", "gaps", "", earliest, latest),
		c("only one partition has records, from the end", "R6", "gaps", "", latest, latest),
		c("only one partition has records, from a timestamp", "E9", "gaps", "", timestamp(2001), latest),
		c("only one partition has records, to a timestamp", "", "gaps", "", earliest, timestamp(2001)),
		c("no partition has records", "R18", "empty", "", earliest, latest),
		c("no partition has records, to a timestamp", "", "empty", "", earliest, timestamp(2001)),
		c("no partition has records, from a timestamp", "E9", "empty", "", timestamp(2001), latest),
		c("compacted to the end", "", "compacted", "", earliest, specific("partition:0,offset:20")),
		c("compacted from and to", "", "compacted", "", specific("partition:0,offset:5"), specific("partition:0,offset:15")),
		c("the record at an end is not read", "", "pair", "", earliest, specific("partition:0,offset:2;partition:1,offset:0")),
		{file: "ends", name: "beyond the end of the log", ids: "G2", topics: []string{"pair"}, own: true, start: earliest,
			stop: specific("partition:0,offset:5;partition:1,offset:3"), steps: []step{rows(6), still, appendTo("pair", 0, 3)}},
		{file: "ends", name: "setUnbounded(latest())", ids: "G6", topics: []string{"pair"}, own: true, start: earliest, stop: latest.running(),
			steps: []step{rows(6), appendTo("pair", 0, 3), still}},
		{file: "ends", name: "setUnbounded beyond the end of the log", ids: "G6", topics: []string{"pair"}, own: true, start: earliest,
			stop: at(map[string]int64{"pair:0": 5, "pair:1": 1}).running(), steps: []step{rows(4), appendTo("pair", 0, 3), rows(6), still}},
		{file: "ends", name: "latest-offset while more comes", topics: []string{"fixture"}, own: true, start: earliest, stop: latest,
			steps: []step{rows(55), appendTo("fixture", 3, 2)}},
	}
}

// future timestamps find no record.
func future() []parityCase {
	const refused = "nobody can mean a time that has not come: at the start it is a typing error or the wrong unit, and Flink begins at the end without a word"
	ms := time.Now().Add(24 * time.Hour).UnixMilli()
	failed := &outcome{End: "failed", Kind: "in the future"}
	atStart := &outcome{End: "failed", Kind: "in the future", Steps: []string{"not offsets of 2 partitions", "not still running"}}
	return []parityCase{
		{file: "ends", name: "a timestamp in the future", ids: "G15", topics: []string{"pair"}, group: "none", own: true, start: timestamp(ms), checkpoints: true,
			steps: []step{ready(2), appendTo("pair", 0, 2), rows(2), still}, differs: refused, ours: atStart},
		{file: "ends", name: "to a timestamp in the future", topics: []string{"pair"}, start: earliest, stop: timestamp(ms), differs: refused, ours: failed},
	}
}

// transactions are read to the end under both isolation levels.
func transactions() (all []parityCase) {
	for _, committed := range []bool{false, true} {
		level := "read_uncommitted"
		if committed {
			level = "read_committed"
		}
		c := func(name string, start, stop position) parityCase {
			return parityCase{file: "transactions", name: name + ", " + level, ids: "R37", topics: []string{"transactions"}, group: "committed",
				readCommitted: committed, start: start, stop: stop}
		}
		open := func(name, ids string, start, stop position, steps ...step) parityCase {
			return parityCase{file: "transactions", name: name + ", " + level, ids: ids, topics: []string{"open"}, group: "committed", own: true,
				readCommitted: committed, start: start, stop: stop, steps: steps}
		}
		all = append(all,
			c("control records at the end", earliest, latest),
			c("from a control record to the next", every(4, func(p int) int { return []int{3, 2, 1, 0}[p] }), every(4, func(p int) int { return []int{5, 3, 2, 0}[p] })),
			c("ends within transactions", earliest, every(4, func(p int) int { return []int{5, 1, 1, 0}[p] })),
			c("committed to a committed offset", groupOffsets, latest),
			c("from and to timestamps", timestamp(1000), timestamp(4000)),
			open("open at the end, then committed", "G17", earliest, latest, rows(1), still, endTransaction(true)),
			open("open at the end, then aborted", "G17", earliest, latest, rows(1), still, endTransaction(false)),
			open("open, and an end within it", "G17", earliest, specific("partition:0,offset:2"), rows(1), still, endTransaction(true)),
			open("open, and the end before it", "", earliest, specific("partition:0,offset:1")),
			open("open, and a committed offset within it as the end", "", earliest, groupOffsets, rows(1), still, endTransaction(true)),
			open("open, and the timestamp of a record of it as the end", "", earliest, timestamp(2000), rows(1), still, endTransaction(true)),
			open("open, and a timestamp without match as the end", "", earliest, timestamp(9001), rows(1), still, endTransaction(true)),
			open("open, from the end to the end", "", latest, latest),
		)
		fromEnd := open("open, from the end on", "", latest, position{}, ready(1), endTransaction(true), appendTo("open", 0, 2), rows(2), still)
		fromEnd.checkpoints, fromEnd.group = true, "none"
		all = append(all, fromEnd)
	}
	return all
}

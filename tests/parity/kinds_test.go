package parity

import (
	"regexp"
	"strings"

	"github.com/tidegate/tidegate/tests/topics"
)

// kinds are the kinds of failures, each by what Flink says and by what we say.
var kinds = []struct {
	name        string
	flink, ours string
}{
	{"no committed offset", `NoOffsetForPartitionException`, `has no committed offset for partitions`},
	{"out of range", `OffsetOutOfRangeException`, `are not in the log`},
	{"no committed offset to end at", `NullPointerException.*committed|committed offset.*(null|not)`, `so there is no end to read to`},
	{"no such topic", `UnknownTopicOrPartitionException`, `no such topic in the cluster`},
	{"no such partition", `does not exist on Kafka brokers|could not be found|Partition.*does not exist`, `no such partitions?`},
	{"pattern of Java's", `never said`, `which Java's patterns know|has what Java's patterns know`},
	{"group needed", `group\.id is required`, `needs group_id`},
	{"malformed offsets", `should follow the format`, `is not of the form partition:|names no offset; write partition:`},
	{"offsets of one topic only", `only supports? specific offset|only supported for a single topic|specific offsets.*single topic`, `specific_offsets as a string names no topic|names no topic, so the source has to read exactly one`},
	{"unlisted", `IllegalStateException.*(offset|partition)`, `no offset is listed for partitions|is empty; name at least one`},
	{"not an offset", `Illegal (start|stopp)ing offset|Invalid starting offset`, `nothing ends (there|at earliest)|an offset is 0 or more, or a marker|bounded.mode: .*earliest-offset.* is not one of`},
	{"option missing", `is required in '.*' (startup|bounded) mode but missing`, `which needs (startup|bounded)\.`},
	{"no group asked for", `Unexpected size of key set`, `never said`},
	{"in the future", `never said`, `is in the future`},
}

// kindOf finds the kind of a failure in an engine's words.
func kindOf(engine, cause string) string {
	for _, k := range kinds {
		pattern := k.ours
		if engine == flinkName {
			pattern = k.flink
		}
		if regexp.MustCompile("(?s)" + pattern).MatchString(cause) {
			return k.name
		}
	}
	return "other"
}

// anonymous takes out of an engine's words what is different in every run.
func anonymous(w *topics.World, cause string) string {
	for _, addr := range w.Bootstrap {
		cause = strings.ReplaceAll(cause, addr, "BOOTSTRAP")
	}
	return strings.ReplaceAll(cause, w.Prefix, "")
}

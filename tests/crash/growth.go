package crash

import (
	"slices"
	"strings"
)

// growing are pipelines whose input gets partitions. The first two begin at the group's offsets, which are there for the
// first partitions, and at the end for others: nothing of a new one would come out if that were asked.
var growing = []scenario{
	{
		name: "discovery", store: pebbleStore, startup: "{ mode: group-offsets, offset_reset: latest }", discovery: "200ms", grows: maxGrown,
		checkpoint: everySome, sink: exactlyOnce, processors: asIs, perSecond: 100,
	},
	{
		// One message is refused in each process, which takes the stream back to a checkpoint, often to one without the
		// newest partition.
		name: "discovery/failover", store: pebbleStore, startup: "{ mode: group-offsets, offset_reset: latest }", discovery: "200ms", grows: maxGrown,
		checkpoint: everySome, sink: exactlyOnce, processors: asIs, perSecond: 100, shape: shape{stumbles: true},
	},
	{
		// A partition that comes while the process is down begins as offset_reset says, so that this is earliest here.
		name: "discovery/uncheckpointed", startup: fromGroup, discovery: "200ms", grows: maxGrown, solo: "auto_commit: { interval: 200ms }",
		processors: asIs, repeats: true, perSecond: 100, sink: `
    delivery_guarantee: at-least-once`,
	},
}

// maxGrown is how many partitions an input can get.
const maxGrown = 600

// pickGrowing are those of a list of names, separated by commas; "discovery" and "all" are all.
func pickGrowing(list string) []scenario { return pickKind(growing, list) }

// pickKind are the scenarios in a list of names, separated by commas, each by its own name or by what stands before the
// slash; "all" is all.
func pickKind(all []scenario, list string) (picked []scenario) {
	for _, s := range all {
		kind, _, _ := strings.Cut(s.name, "/")
		if slices.ContainsFunc(strings.Split(list, ","), func(name string) bool { return name == s.name || name == kind || name == "all" }) {
			picked = append(picked, s)
		}
	}
	return picked
}

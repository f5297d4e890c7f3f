package crash

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What a pipeline decides once, where it begins and where it ends, is tried in many lives: a life goes from a first start
// to a last one, with names and a state of its own, and reads a topic that all lives share and that goes on growing.

// livesRate is how many records a second each partition of that topic gets.
const livesRate = 200

// beginning are pipelines whose first positions would be others if they were resolved once more.
var beginning = []scenario{
	{name: "latest", store: pebbleStore, startup: "{ mode: latest-offset }", sink: exactlyOnce, processors: asIs},
	{name: "latest/files", store: filesStore, startup: "{ mode: latest-offset }", sink: exactlyOnce, processors: asIs},
	{
		// Whatever was written since then is due, and no record is ever as young as now, so that the second one begins at the end.
		name: "latest/timestamp", store: pebbleStore, startup: `{ mode: timestamp, timestamp: "-2s" }`, sink: exactlyOnce, processors: asIs,
	},
	{name: "latest/now", store: filesStore, startup: `{ mode: timestamp, timestamp: "-0s" }`, sink: exactlyOnce, processors: asIs},
	{
		// What the first start publishes is in the very group that the second one would begin at.
		name: "latest/reset", store: pebbleStore, startup: "{ mode: group-offsets, offset_reset: latest }", sink: exactlyOnce, processors: asIs,
	},
	{
		// What is emitted too early would be there to be seen.
		name: "latest/at-least-once", store: pebbleStore, startup: "{ mode: latest-offset }", processors: asIs, repeats: true,
		checkpoint: "mode: at-least-once", sink: `
    delivery_guarantee: at-least-once`,
	},
}

// stopping are pipelines with an end, while their input has none. %s are offsets that are others in each life.
var stopping = []scenario{
	{name: "bounded/latest-offset", store: pebbleStore, bounded: "bounded: { mode: latest-offset }, ", sink: exactlyOnce, processors: slowly},
	{name: "bounded/timestamp", store: filesStore, bounded: `bounded: { mode: timestamp, timestamp: "-100ms" }, `, sink: exactlyOnce, processors: slowly},
	{name: "bounded/specific-offsets", store: pebbleStore, bounded: `bounded: { mode: specific-offsets, specific_offsets: "%s" }, `, sink: exactlyOnce, processors: slowly},
}

// slowly leaves time for kills on the way.
const slowly = `
    - sleep: { duration: 300us }` + asIs

// sharing are pipelines of several processes.
var sharing = []scenario{
	{name: "parallelism/two", store: pebbleStore, checkpoint: everySome, sink: exactlyOnce, processors: asIs, processes: 2},
	{name: "parallelism/three", store: pebbleStore, checkpoint: everySome, sink: exactlyOnce, processors: asIs, processes: 3},
}

// lives are all of these.
func lives() []scenario { return slices.Concat(beginning, stopping, sharing) }

// clocked makes records that have the time at which they are written, about.
func clocked(topic string, partition int32, n int64, began time.Time) *kgo.Record {
	r := record(topic, partition, n, began)
	r.Timestamp = began.Add(time.Duration(n) * time.Second / livesRate)
	return r
}

// eachFrom writes offsets by partition as source and Flink read them: "partition:0,offset:42;partition:1,offset:300".
func eachFrom(offsets []int64) (text string) {
	for p, offset := range offsets {
		if p > 0 {
			text += ";"
		}
		text += fmt.Sprintf("partition:%d,offset:%d", p, offset)
	}
	return text
}

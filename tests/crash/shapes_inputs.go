package crash

import "slices"

const bothTopics = `broker:
    inputs:
      - {{ source .In }}
      - {{ source .In2 }}`

// inputShapes have other inputs.
var inputShapes = shaped(
	scenario{name: "batched-input", processors: asIs, shape: shape{stumbles: true, input: `batched:
    child:
      {{ source .In }}
    policy: { count: 300, period: 20ms }`}},
	scenario{name: "input-broker", processors: asIs, shape: shape{stumbles: true, twoTopics: true, input: bothTopics}},
	scenario{name: "input-broker-batching", processors: asIs + `
    - split: { size: 10 }`, shape: shape{stumbles: true, twoTopics: true, input: bothTopics + `
    batching: { count: 500, period: 20ms, processors: [ { mapping: root = content() } ] }`}},
	scenario{name: "two-topics", processors: asIs, shape: shape{stumbles: true, twoTopics: true, input: `{{ source .In .In2 }}`}},
	scenario{name: "read-until-never", processors: asIs, shape: shape{stumbles: true, input: `read_until:
    check: 'false'
    input:
      {{ source .In }}`}},
	scenario{name: "read-until", processors: asIs, shape: shape{stumbles: true, ends: true, input: `read_until:
    check: 'count("batches") >= 6'
    input:
      {{ source .In }}`}},
	scenario{name: "two-in-two-out", processors: asIs, threads: 2, shape: shape{stumbles: true, twoTopics: true, input: bothTopics, outlets: both,
		output: `broker:
    outputs:
      - {{ another .Out "a" }}
      - {{ another .Out2 "b" }}`}},
	// The second source begins when the first one has come to its end.
	scenario{name: "sequence", bounded: "bounded: { mode: latest-offset }, ", shape: shape{stumbles: true, twoTopics: true,
		input: `sequence:
    inputs:
      - {{ source .In }}
      - {{ source .In2 }}`},
		processors: `
    - sleep: { duration: 300us }` + asIs},
)

// refuseLast refuses the last record of two partitions the first time.
const refuseLast = `
    - mapping: 'root = if @kafka_offset == {{ .Last }} && count("last") <= 2 { throw("refused at the end") } else { content() }'`

// ending gives shapes an input with an end.
func ending(list ...scenario) []scenario {
	for i := range list {
		s := &list[i]
		s.name = "ending/" + s.name
		s.bounded = "bounded: { mode: latest-offset }, "
		// Long enough for kills on the way.
		s.processors = `
    - sleep: { duration: 300us }` + s.processors
	}
	return list
}

// boundedShapes come to an end by themselves, and everything has to be committed then.
func boundedShapes() []scenario {
	named := func(name string) scenario {
		return pickFrom(slices.Concat(processorShapes, outputShapes, inputShapes), name)[0]
	}
	return slices.Concat(ending(
		scenario{name: "copy", store: pebbleStore, checkpoint: everySome, sink: exactlyOnce, processors: asIs},
		scenario{name: "refused-at-the-end", store: pebbleStore, checkpoint: everySome, sink: exactlyOnce, refusing: true,
			processors: refuseLast},
		scenario{name: "refused-at-the-end-switch", store: pebbleStore, checkpoint: "interval: 1m", sink: exactlyOnce, refusing: true,
			processors: refuseLast, shape: named("switch").shape},
		scenario{name: "at-least-once", store: pebbleStore, checkpoint: everySome + "\n      mode: at-least-once", processors: asIs,
			repeats: true, sink: "\n    delivery_guarantee: at-least-once"},
	), ending(
		named("filter-errors"), named("pieces"), named("archive-split"), named("threads-pieces"), named("call-retry"),
		named("fan_out"), named("fan_out_fail_fast"), named("greedy"), named("output-batching"), named("batched-input"),
		named("input-broker"), named("two-in-two-out"), named("read-until-never"),
	))
}

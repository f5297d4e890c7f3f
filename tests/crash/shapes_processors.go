package crash

// Every shape goes through what this file and the next ones say between, before and behind source and sink.

func odd(n int64) bool  { return n%2 == 1 }
func even(n int64) bool { return n%2 == 0 }

// third are the records that the processors below refuse, and others what is left.
func third(n int64) bool  { return n%10 == 3 }
func others(n int64) bool { return !third(n) }

// failThird fails every tenth record.
const failThird = `
    - mapping: 'root = if @kafka_offset % 10 == 3 { throw("not this one") } else { content() }'`

// shaped fills in what the shapes have in common.
func shaped(list ...scenario) []scenario {
	for i := range list {
		s := &list[i]
		if s.store == "" {
			s.store = pebbleStore
		}
		if s.checkpoint == "" {
			s.checkpoint = everySome
		}
		if s.sink == "" {
			s.sink = exactlyOnce
		}
		if s.perSecond == 0 {
			s.perSecond = 250
		}
	}
	return list
}

// processorShapes have other processors.
var processorShapes = shaped(
	scenario{name: "filter-errors", processors: failThird + `
    - mapping: root = if errored() { deleted() }`, wanted: others},
	scenario{name: "pieces", processors: toJSON + `
    - mapping: 'root = range(0, 3).map_each(i -> this.merge({"piece": i}))'
    - unarchive: { format: json_array }`, shape: shape{json: true, pieces: 3, stumbles: true}},
	scenario{name: "split-singles", processors: asIs + `
    - split: { size: 1 }`, perSecond: 100, shape: shape{stumbles: true}},
	scenario{name: "archive", processors: toJSON + `
    - archive: { format: json_array }`, shape: shape{json: true, stumbles: true}},
	scenario{name: "archive-split", processors: toJSON + `
    - archive: { format: lines }
    - unarchive: { format: lines }
    - split: { size: 5 }`, shape: shape{json: true, stumbles: true}},
	scenario{name: "group", processors: asIs + `
    - group_by_value: { value: '${! @kafka_partition }' }`, shape: shape{stumbles: true}},
	scenario{name: "group-by", processors: asIs + `
    - group_by: [ { check: '@kafka_offset % 3 == 0', processors: [ { sleep: { duration: 1ms } } ] } ]`,
		shape: shape{unordered: true, stumbles: true}},
	scenario{name: "reorder", processors: toJSON + `
    - archive: { format: json_array }
    - mapping: root = this.sort_by(e -> e.sum)
    - unarchive: { format: json_array }`, shape: shape{unordered: true, json: true, stumbles: true}},
	scenario{name: "threads", processors: asIs, threads: 4, shape: shape{stumbles: true}},
	scenario{name: "threads-pieces", processors: toJSON + `
    - mapping: 'root = range(0, 3).map_each(i -> this.merge({"piece": i}))'
    - unarchive: { format: json_array }
    - split: { size: 2 }`, threads: 4, shape: shape{json: true, pieces: 3, stumbles: true}},
	scenario{name: "writers", processors: asIs + `
    - split: { size: 3 }`, sink: exactlyOnce + "\n    max_in_flight: 8", threads: 2, shape: shape{stumbles: true}},
	scenario{name: "call-retry", perSecond: 50, processors: `
    - retry:
        backoff: { initial_interval: 1ms, max_interval: 20ms, max_elapsed_time: 0s }
        processors: [ { http: { url: '{{ .Callee }}/flaky', verb: POST, retries: 0 } } ]`},
	scenario{name: "call-catch", perSecond: 50, processors: `
    - http: { url: '{{ .Callee }}/flaky', verb: POST, retries: 0 }
    - catch: [ { mapping: root = content() } ]`},
	scenario{name: "call-refused", perSecond: 50, refusing: true, processors: `
    - http: { url: '{{ .Callee }}/rare', verb: POST, retries: 0 }`},
	scenario{name: "try-catch", processors: `
    - try: [ { mapping: 'root = if @kafka_offset % 10 == 3 { throw("not this one") } else { content() }' }, { mapping: root = content() } ]
    - catch: [ { mapping: root = content() } ]
    - switch: [ { check: '@kafka_offset % 2 == 0', processors: [ { mapping: root = content() } ] } ]`, shape: shape{stumbles: true}},
	scenario{name: "branch", processors: toJSON + `
    - branch:
        request_map: root = this.id
        processors: [ { mapping: 'root = content().uppercase()' } ]
        result_map: root.branch = content().string()`, shape: shape{json: true, stumbles: true}},
	scenario{name: "workflow", processors: toJSON + `
    - workflow:
        meta_path: ""
        branches:
          a: { request_map: root = this.id, processors: [ { mapping: root = content() } ], result_map: root.a = content().string() }
          b: { request_map: root = this.a, processors: [ { mapping: root = content() } ], result_map: root.b = content().string() }
    - parallel: { cap: 4, processors: [ { mapping: 'root = this.merge({"c": this.b})' } ] }`, shape: shape{json: true, stumbles: true}},
	scenario{name: "processors-all-over", processors: asIs, shape: shape{stumbles: true,
		input: `{{ source .In }}
  processors: [ { mapping: root = content() }, { split: { size: 11 } } ]`,
		output: `{{ sink .Out }}
  processors: [ { mapping: root = content() } ]`}},
	scenario{name: "dedupe", processors: `
    - dedupe: { cache: seen, key: '${! @kafka_partition }:${! @kafka_offset }' }`, shape: shape{
		refusal: "dedupe notes a record before it is delivered", resources: `
  - label: seen
    memory: {}`}},
)

package crash

import (
	"bytes"
	"fmt"
	"strings"
	"text/template"
)

// partitions is how many partitions the input and the output have.
const partitions = 4

// scenario is a pipeline that is to copy its records through every crash.
type scenario struct {
	name string
	// store is the cache that holds the checkpoints; checkpoint and sink are added to the source's and the sink's
	// settings; processors is what stands in between.
	store, checkpoint, sink, processors string
	// wanted tells which records come out; nil: all.
	wanted func(n int64) bool
	// repeats is set where records may come out more than once.
	repeats bool
	// brokerToo kills the broker as well from time to time.
	brokerToo bool
}

const (
	pebbleStore = `pebble: { path: "{{ .Dir }}/state" }`
	exactlyOnce = `
    delivery_guarantee: exactly-once
    transactional_id_prefix: {{ .Prefix }}`
	everySome = `interval: 100ms`
	// asIs passes every byte through Benthos's mapping language.
	asIs = `
    - mapping: root = content()`
)

// scenarios are all there are; the first one is what `make test` runs.
var scenarios = []scenario{
	{name: "copy", store: pebbleStore, checkpoint: everySome, sink: exactlyOnce, processors: asIs},
	{
		name: "filter", store: pebbleStore, checkpoint: everySome, sink: exactlyOnce,
		processors: `
    - mapping: root = if @kafka_offset % 10 == 3 { deleted() } else { content() }`,
		wanted: func(n int64) bool { return n%10 != 3 },
	},
	{
		// Batches change their shape on the way, so acknowledgements do not match what was read.
		name: "split", store: pebbleStore, checkpoint: everySome, sink: exactlyOnce,
		processors: asIs + `
    - split: { size: 7 }`,
	},
	{name: "files", store: `checkpoint_file: { path: "{{ .Dir }}/state" }`, checkpoint: everySome, sink: exactlyOnce, processors: asIs},
	{
		name: "concurrent", store: pebbleStore, processors: asIs,
		checkpoint: "interval: 20ms\n      max_concurrent: 3",
		sink:       exactlyOnce + "\n    transactions: { pool_size: 6 }",
	},
	{name: "at-least-once", store: pebbleStore, checkpoint: everySome + "\n      mode: at-least-once", processors: asIs, repeats: true, sink: `
    delivery_guarantee: at-least-once`},
	{name: "broker", store: pebbleStore, checkpoint: everySome, sink: exactlyOnce, processors: asIs, brokerToo: true},
}

// pick returns the scenarios of a list of names, separated by commas; "all" for all.
func pick(names string) ([]scenario, error) {
	if names == "all" {
		return scenarios, nil
	}
	var picked []scenario
	for name := range strings.SplitSeq(names, ",") {
		known := len(picked)
		for _, s := range scenarios {
			if s.name == name {
				picked = append(picked, s)
			}
		}
		if len(picked) == known {
			return nil, fmt.Errorf("scenario %q is none of %s, all", name, scenarioNames())
		}
	}
	return picked, nil
}

func scenarioNames() string {
	names := make([]string, len(scenarios))
	for i, s := range scenarios {
		names[i] = s.name
	}
	return strings.Join(names, ", ")
}

// comesOut tells whether record n is to come out.
func (s scenario) comesOut(n int64) bool { return s.wanted == nil || s.wanted(n) }

// names are what the config of one run of a scenario has of its own.
type names struct {
	Dir, Bootstrap, In, Out, Group, Prefix string
}

const configText = `# Written by the crash test.
http: { enabled: false }
logger: { level: INFO, add_timestamp: true }
shutdown_timeout: 30s

cache_resources:
  - label: state
    %s

input:
  kafka_flink_source:
    bootstrap_servers: [ "{{ .Bootstrap }}" ]
    topics: [ {{ .In }} ]
    group_id: {{ .Group }}
    startup: { mode: earliest-offset }
    checkpoint:
      store: state
      %s

pipeline:
  threads: 1
  processors: %s

output:
  kafka_flink_sink:
    bootstrap_servers: [ "{{ .Bootstrap }}" ]
    topic: {{ .Out }}%s
`

// config renders the scenario's YAML.
func (s scenario) config(n names) ([]byte, error) {
	text := fmt.Sprintf(configText, s.store, s.checkpoint, s.processors, s.sink)
	parsed, err := template.New(s.name).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parsing the config of scenario %s: %w", s.name, err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, n); err != nil {
		return nil, fmt.Errorf("writing the config of scenario %s: %w", s.name, err)
	}
	return out.Bytes(), nil
}

package crash

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/template"
)

// partitions is how many partitions the input and the output have.
const partitions = 4

// scenario is a pipeline that is to copy its records through every crash.
type scenario struct {
	name string
	// store is the cache that holds the checkpoints; startup is the source's block of that name, where it is not the
	// usual one; checkpoint and sink are added to the source's and the sink's settings; processors is what stands in
	// between.
	store, startup, checkpoint, sink, processors string
	// solo are the source's settings where it has no checkpoints; store and checkpoint are empty then.
	solo string
	// threads is how many run the processors, 0 for one. With more records come out in any order.
	threads int
	// wanted tells which records come out; nil: all.
	wanted func(n int64) bool
	// refusing is set where a message that a processor has failed is to be nacked.
	refusing bool
	// repeats is set where records may come out more than once.
	repeats bool
	// bounded is set where the input has an end.
	bounded string
	// discovery is the source's discovery_interval; empty: the usual one.
	discovery string
	// headerFilter is the source's.
	headerFilter string
	// processes is how many processes it has, 0 for one; share is the part of the partitions that a process reads, empty for
	// all.
	processes int
	share     string
	// grows is how many partitions the input may have in the end, one or more being added now and then; 0: it has what it
	// has.
	grows int32
	// perSecond is how many records a second each partition gets; 0: 500.
	perSecond int
	// shutdown is the shutdown_timeout; empty: 30s.
	shutdown string
	// recordOf makes what it reads; nil: record.
	recordOf maker
	// brokerToo kills the broker as well from time to time.
	brokerToo bool
	// shape is what it has beside the usual.
	shape
}

const (
	pebbleStore = `pebble: { path: "{{ .Dir }}/state" }`
	filesStore  = `checkpoint_file: { path: "{{ .Dir }}/state" }`
	exactlyOnce = `
    delivery_guarantee: exactly-once
    transactional_id_prefix: {{ .Prefix }}`
	everySome = `interval: 100ms`
	fromGroup = `{ mode: group-offsets, offset_reset: earliest }`
	// asIs passes every byte through Benthos's mapping language.
	asIs = `
    - mapping: root = content()`
)

// scenarios are all there are; the first one is what `make test` runs.
var scenarios = []scenario{
	{name: "copy", store: pebbleStore, checkpoint: everySome, sink: exactlyOnce, processors: asIs},
	{
		// Nine of ten records are never made into messages; the position moves past them.
		name: "filter", store: pebbleStore, checkpoint: everySome, sink: exactlyOnce, headerFilter: "lane:3&!lane:none",
		wanted: func(n int64) bool { return n%10 == 3 },
	},
	{
		name: "drop", store: pebbleStore, checkpoint: everySome, sink: exactlyOnce,
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
	{name: "files", store: filesStore, checkpoint: everySome, sink: exactlyOnce, processors: asIs},
	{
		name: "concurrent", store: pebbleStore, processors: asIs,
		checkpoint: "interval: 20ms\n      max_concurrent: 3",
		sink:       exactlyOnce + "\n    transactions: { pool_size: 6 }",
	},
	{name: "at-least-once", store: pebbleStore, checkpoint: everySome + "\n      mode: at-least-once", processors: asIs, repeats: true, sink: `
    delivery_guarantee: at-least-once`},
	{
		// Positions are in the consumer group alone, and are behind by up to the interval.
		name: "uncheckpointed", startup: fromGroup, solo: "auto_commit: { interval: 200ms }", processors: asIs, repeats: true,
		sink: `
    delivery_guarantee: at-least-once`,
	},
	{
		// Acknowledgements come in any order, some say no, and the broker dies too.
		name: "uncheckpointed-parallel", startup: fromGroup, solo: "auto_commit: { interval: 200ms }", repeats: true, threads: 4,
		refusing: true, brokerToo: true,
		processors: `
    - mapping: 'root = if random_int(max: 19999) == 0 { throw("refused now and then") } else { content() }'`,
		sink: `
    delivery_guarantee: at-least-once
    max_in_flight: 16`,
	},
	{
		// Each batch is a transaction of its own, acknowledged when it has committed; positions are behind as above.
		name: "uncheckpointed-transactions", startup: fromGroup, solo: "auto_commit: { interval: 200ms }", processors: asIs,
		repeats: true, brokerToo: true, sink: exactlyOnce,
	},
	{name: "broker", store: pebbleStore, checkpoint: everySome, sink: exactlyOnce, processors: asIs, brokerToo: true},
}

// troubles are what else a pipeline goes through, beside random kills; the tests that bear them have these names.
var troubles = []string{"brokers", "proxy", "freeze", "zombie", "reload", "streams", "stop", "disk"}

// behind are the inputs without checkpoints before an exactly-once sink; the tests that bear them have these names.
var behind = []string{"http", "socket", "generate"}

// split tells the scenarios of a list of names, separated by commas, from the troubles and from the inputs without
// checkpoints; "all" is all of them, and nothing is the first scenario.
func split(list string) (picked []scenario, troubled, inputs []string, err error) {
	switch list {
	case "all":
		return scenarios, troubles, behind, nil
	case "":
		return scenarios[:1], nil, nil, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
		switch {
		case i >= 0:
			picked = append(picked, scenarios[i])
		case len(pickShapes(name)) > 0: // another test's
		case slices.Contains(troubles, name):
			troubled = append(troubled, name)
		case name == "table", len(pickGrowing(name)) > 0, len(pickKind(lives(), name)) > 0: // another test's
		case slices.Contains(behind, name):
			inputs = append(inputs, name)
		default:
			return nil, nil, nil, fmt.Errorf("scenario %q is none of %s, %s, %s, shapes, the name of one, table, discovery, latest, bounded, parallelism, all", name, scenarioNames(), troubleNames(),
				strings.Join(behind, ", "))
		}
	}
	return picked, troubled, inputs, nil
}

func pickScenarios(list string) ([]scenario, error) {
	picked, _, _, err := split(list)
	return picked, err
}

func pickTroubles(list string) ([]string, error) {
	_, picked, _, err := split(list)
	return picked, err
}

func troubleNames() string { return strings.Join(troubles, ", ") }

func scenarioNames() string {
	names := make([]string, len(scenarios))
	for i, s := range scenarios {
		names[i] = s.name
	}
	return strings.Join(names, ", ")
}

// comesOut tells whether record n is to come out.
func (s scenario) comesOut(n int64) bool { return s.wanted == nil || s.wanted(n) }

func (s scenario) rate() int {
	if s.perSecond == 0 {
		return 500
	}
	return s.perSecond
}

// names are what the config of one run of a scenario has of its own.
type names struct {
	Dir, In, Out, Group, Prefix string
	// Kafka is the way to the cluster.
	Kafka connection
	// In2 and Out2 are a second topic each, Abroad is one on another cluster, Elsewhere; Callee is the address of an HTTP
	// server.
	In2, Out2, Abroad, Callee string
	Elsewhere                 connection
	// Debug is where Benthos's own debug endpoints are; empty for nowhere.
	Debug string
	// Last is the number of the last record in each partition, where the input ends.
	Last int64
	// TransactionVersion is the cluster's.
	TransactionVersion int
}

// HTTP is the block of that name.
func (n names) HTTP() string {
	if n.Debug == "" {
		return "{ enabled: false }"
	}
	return fmt.Sprintf("{ address: %q, debug_endpoints: true }", n.Debug)
}

const configText = `# Written by the crash test.
http: {{ .HTTP }}
logger: { level: INFO, add_timestamp: true }
shutdown_timeout: %s

%sinput:
  %s

pipeline:
  threads: %d
  processors: %s

output:
  %s
`

// source is the block of one of our sources, on one line.
func (s scenario) source(n names, topics, group string) string {
	how := flow(s.solo)
	if s.solo == "" {
		how = "checkpoint: { store: state, " + flow(s.checkpoint) + " }"
	}
	if s.discovery != "" {
		how = "discovery_interval: " + s.discovery + ", " + how
	}
	if s.share != "" {
		how = s.share + ", " + how
	}
	if s.headerFilter != "" {
		how = fmt.Sprintf("header_filter: %q, ", s.headerFilter) + how
	}
	return fmt.Sprintf(`kafka_flink_source: { %s, topics: [ %s ], group_id: %s, startup: %s, %s%s }`,
		n.Kafka.Flow(), topics, group, cmp.Or(s.startup, "{ mode: earliest-offset }"), s.bounded, how)
}

// sinkTo is the block of one of our sinks.
func (s scenario) sinkTo(kafka connection, topic, settings string) string {
	return fmt.Sprintf(`kafka_flink_sink: { %s, topic: %s, %s }`, kafka.Flow(), topic, flow(settings))
}

// flow puts settings, one on a line, on one line.
func flow(settings string) string {
	lines := strings.FieldsFunc(settings, func(r rune) bool { return r == '\n' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, ", ")
}

// config renders the scenario's YAML.
func (s scenario) config(n names) ([]byte, error) {
	output := cmp.Or(s.output, "{{ sink .Out }}")
	if s.refusing || s.stumbles {
		output = "reject_errored:\n    " + strings.ReplaceAll(output, "\n", "\n  ")
	}
	processors := s.processors
	if s.stumbles {
		processors = stumble + processors
	}
	caches := ""
	if s.solo == "" {
		caches = "cache_resources:\n  - label: state\n    " + s.store + s.resources + "\n\n"
	}
	sink := strings.ReplaceAll(s.sink, "{{ .Prefix }}", n.Prefix)
	text := fmt.Sprintf(configText, cmp.Or(s.shutdown, "30s"), caches, cmp.Or(s.input, "{{ source .In }}"), max(1, s.threads), cmp.Or(processors, "[]"), output)
	parsed, err := template.New(s.name).Funcs(template.FuncMap{
		"source": func(topics ...string) string { return s.source(n, strings.Join(topics, ", "), n.Group) },
		"sink":   func(topic string) string { return s.sinkTo(n.Kafka, topic, sink) },
		// another is a sink with a prefix of its own.
		"another": func(topic, name string) string { return s.sinkTo(n.Kafka, topic, sink+"-"+name) },
		"abroad":  func(topic string) string { return s.sinkTo(n.Elsewhere, topic, sink+"-abroad") },
	}).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parsing the config of scenario %s: %w", s.name, err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, n); err != nil {
		return nil, fmt.Errorf("writing the config of scenario %s: %w", s.name, err)
	}
	return out.Bytes(), nil
}

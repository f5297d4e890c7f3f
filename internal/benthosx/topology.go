package benthosx

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// checkTopology walks over a config and the resources it names. refused is why checkpoints could not hold what they
// promise, nil where nothing is in their way.
func checkTopology(root map[string]any) (t *topology, refused error) {
	t = &topology{resources: resourcesOf(root), visited: map[string]bool{}}
	for _, section := range []string{"input", "buffer", "pipeline", "output"} {
		t.walk(root[section], []string{section})
	}
	if kind := bufferKind(root["buffer"]); kind != "" {
		t.refuse("buffer", "a %s buffer acknowledges records before they are written, so a checkpoint would count them as "+
			"done; remove it: the source waits for the outputs by itself", kind)
	}
	for _, p := range t.deleting {
		if t.sinks == 0 {
			t.refuse(p, "on_stop: delete inside a sequence would delete the checkpoints when the first input ends; use retain")
		}
	}
	if t.exactlyOnce && len(t.otherInputs) > 0 {
		t.refuse(t.otherInputs[0], "an input without checkpoints beside a checkpointed kafka_flink_source, into an exactly-once "+
			"output: nobody could tell what of it a transaction holds; use a stream of its own, or "+
			"delivery_guarantee: at-least-once")
	}
	return t, errors.Join(t.errs...)
}

// topology is what a walk over the config has found, by path.
type topology struct {
	checkpointed, exactlyOnce bool
	errs                      []error
	deleting, otherInputs     []string
	// sinks is how many there are.
	sinks int
	// sources are the kafka_flink_source under input, in order.
	sources []Source
	// copies are the fields that make several of what is being looked at, of how many.
	copies []copies
	// resources are those of the process, visited what of them the stream names, and missing what there is not.
	resources []resource
	visited   map[string]bool
	missing   []string
}

// copies is a broker's field of that name.
type copies struct {
	path string
	n    int
}

func (t *topology) refuse(path, format string, args ...any) {
	t.errs = append(t.errs, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
}

// containers are inputs that hold inputs.
var containers = []string{"broker", "sequence", "read_until", "batched", "resource"}

// walk goes through a config in one order, so that its faults always come in one.
func (t *topology) walk(v any, path []string) {
	at := func(key string) []string { return append(slices.Clone(path), key) }
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			t.walk(e, at(fmt.Sprint(i)))
		}
	case map[string]any:
		t.noteSource(v, path)
		for _, key := range slices.Sorted(maps.Keys(v)) {
			e := v[key]
			t.look(key, e, at(key))
			outside := t.copies
			if n := copiesOf(key, e); n > 1 {
				t.copies = append(slices.Clone(outside), copies{strings.Join(at(key), ".") + ".copies", n})
			}
			t.walk(e, at(key))
			t.copies = outside
		}
		t.follow(v)
		if isInput(path) {
			t.lookAtInput(v, path)
		}
	}
}

func (t *topology) look(key string, v any, path []string) {
	object, _ := v.(map[string]any)
	name := strings.Join(path, ".")
	inResource := slices.Contains(resourceSections, path[0])
	switch key {
	case "kafka_flink_source":
		if inResource {
			t.refuse(name, "a kafka_flink_source cannot be a resource, since a resource belongs to no stream and has no "+
				"checkpoints; write it under input")
		}
		t.lookAtSource(object, name, slices.Contains(path, "sequence"))
	case "kafka_flink_sink":
		if inResource {
			t.refuse(name, "a kafka_flink_sink cannot be a resource, since a resource belongs to no stream and takes part in no "+
				"checkpoint; write it under output")
			break
		}
		t.exactlyOnce = t.exactlyOnce || strings.EqualFold(fmt.Sprint(object["delivery_guarantee"]), "exactly-once")
		n := 1
		for _, c := range t.copies {
			n *= c.n
		}
		t.sinks += n
	case "batching", "policy":
		if gathers := endless(object); gathers != "" {
			t.refuse(name, "a batch with %s and without a period waits for records that a checkpoint does not let through; set "+
				"period, such as 100ms", gathers)
		}
	case "dynamic":
		if strings.HasPrefix(path[0], "output") {
			t.refuse(name, "outputs that come and go cannot be found again when transactions have to be committed after a crash; "+
				"write them into the config")
		}
	case "dedupe":
		// A branch of a workflow may have that name.
		if _, is := object["cache"].(string); is {
			t.refuse(name, "dedupe notes a record before it is delivered, and its cache is not part of a checkpoint: when a failure "+
				"sends the stream back, records that are read again would count as seen, and be lost; deduplicate in a stream "+
				"of its own, without checkpoints")
		}
	case "sequence":
		join, _ := object["sharded_join"].(map[string]any)
		if kind, _ := join["type"].(string); kind != "" && kind != "none" {
			t.refuse(name+".sharded_join", "a sharded join (type: %s) acknowledges records when it has them in memory, so a "+
				"checkpoint would count them as done; remove it", kind)
		}
	case "read_until":
		if object["restart_input"] == true {
			t.refuse(name+".restart_input", "true builds the source anew in the middle of a stream; remove it")
		}
	}
}

func (t *topology) lookAtSource(source map[string]any, name string, inSequence bool) {
	checkpoint, _ := source["checkpoint"].(map[string]any)
	if checkpoint["interval"] == nil {
		return
	}
	t.checkpointed = true
	for _, c := range t.copies {
		t.refuse(c.path, "%d, and each copy of the kafka_flink_source in it reads every record; remove copies: one source reads "+
			"as fast as its pipeline takes", c.n)
	}
	if inSequence && strings.EqualFold(fmt.Sprint(checkpoint["on_stop"]), "delete") {
		t.deleting = append(t.deleting, name+".checkpoint.on_stop")
	}
}

// copiesOf is how many of its children a broker makes.
func copiesOf(key string, v any) int {
	object, _ := v.(map[string]any)
	if n, ok := object["copies"].(int); ok && key == "broker" {
		return n
	}
	return 1
}

// endless tells by what a batch policy gathers records without a limit in time, "" where it does not.
func endless(policy map[string]any) string {
	if period, _ := policy["period"].(string); period != "" {
		return ""
	}
	var by []string
	for _, k := range []string{"count", "byte_size", "check"} {
		switch v := policy[k].(type) {
		case nil:
		case int:
			if v > 1 {
				by = append(by, fmt.Sprintf("%s: %d", k, v))
			}
		case string:
			if v != "" {
				by = append(by, fmt.Sprintf("%s: %q", k, v))
			}
		default:
			by = append(by, fmt.Sprintf("%s: %v", k, v))
		}
	}
	return strings.Join(by, ", ")
}

// isInput tells whether the object at path is an input: the input itself, a resource, or one that another one holds.
func isInput(path []string) bool {
	if !strings.HasPrefix(path[0], "input") || slices.Contains(path, "processors") {
		return false
	}
	last := path[len(path)-1]
	return len(path) == 1 || len(path) == 2 && path[0] == "input_resources" ||
		last == "input" || last == "child" || path[len(path)-2] == "inputs"
}

func (t *topology) lookAtInput(v map[string]any, path []string) {
	for _, kind := range slices.Sorted(maps.Keys(v)) {
		switch {
		case kind == "label", kind == "processors", kind == "kafka_flink_source", slices.Contains(containers, kind):
		default:
			t.otherInputs = append(t.otherInputs, strings.Join(append(slices.Clone(path), kind), "."))
		}
	}
}

func bufferKind(v any) string {
	object, _ := v.(map[string]any)
	for kind := range object {
		if kind != "none" {
			return kind
		}
	}
	return ""
}

package benthosx

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// checkTopology walks over a config. refused is why checkpoints could not hold what they promise, nil where nothing is in
// their way.
func checkTopology(root map[string]any) (t *topology, refused error) {
	t = &topology{copies: 1}
	t.walk(root, nil)
	var errs []error
	refuse := func(path, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
	}
	if kind := bufferKind(root["buffer"]); kind != "" {
		refuse("buffer", "a %s buffer acknowledges records before they are written, so a checkpoint would count them as "+
			"done; remove it: the source waits for the outputs by itself", kind)
	}
	for _, p := range t.endless {
		refuse(p, "a batch without a period waits for records that a checkpoint does not let through; set period, such as 100ms")
	}
	for _, p := range t.dynamic {
		refuse(p, "outputs that come and go cannot be found again when transactions have to be committed after a crash; "+
			"write them into the config")
	}
	for _, p := range t.restarting {
		refuse(p, "restart_input builds the source anew in the middle of a stream; remove it")
	}
	for _, p := range t.sharded {
		refuse(p, "a sharded join acknowledges records when it has them in memory, so a checkpoint would count them as done; "+
			"remove it")
	}
	for _, p := range t.copied {
		refuse(p, "each copy of a kafka_flink_source reads every record; remove copies: one source reads as fast as its "+
			"pipeline takes")
	}
	for _, p := range t.deleting {
		if t.sinks == 0 {
			refuse(p, "on_stop: delete inside a sequence would delete the checkpoints when the first input ends; use retain")
		}
	}
	for _, p := range t.dedupes {
		refuse(p, "dedupe notes a record before it is delivered, and its cache is not part of a checkpoint: when a failure "+
			"sends the stream back, records that are read again would count as seen, and be lost; deduplicate in a stream "+
			"of its own, without checkpoints")
	}
	if t.exactlyOnce && len(t.otherInputs) > 0 {
		refuse(t.otherInputs[0], "an input without checkpoints beside a checkpointed kafka_flink_source, into an exactly-once "+
			"output: nobody could tell what of it a transaction holds; use a stream of its own, or "+
			"delivery_guarantee: at-least-once")
	}
	return t, errors.Join(errs...)
}

// topology is what a walk over the config has found, by path.
type topology struct {
	checkpointed, exactlyOnce                                                     bool
	endless, dynamic, restarting, sharded, copied, deleting, dedupes, otherInputs []string
	// sinks is how many there are; copies how many of what is being looked at.
	sinks, copies int
}

// containers are inputs that hold inputs.
var containers = []string{"broker", "sequence", "read_until", "batched", "resource"}

func (t *topology) walk(v any, path []string) {
	at := func(key string) []string { return append(slices.Clone(path), key) }
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			t.walk(e, at(fmt.Sprint(i)))
		}
	case map[string]any:
		for key, e := range v {
			t.look(key, e, at(key))
			copies := t.copies
			t.copies *= copiesOf(key, e)
			t.walk(e, at(key))
			t.copies = copies
		}
		if t.isInput(path) {
			t.lookAtInput(v, path)
		}
	}
}

func (t *topology) look(key string, v any, path []string) {
	object, _ := v.(map[string]any)
	name := strings.Join(path, ".")
	switch key {
	case "kafka_flink_source":
		t.lookAtSource(object, path)
	case "kafka_flink_sink":
		t.exactlyOnce = t.exactlyOnce || strings.EqualFold(fmt.Sprint(object["delivery_guarantee"]), "exactly-once")
		t.sinks += t.copies
	case "batching", "policy":
		if endless(object) {
			t.endless = append(t.endless, name)
		}
	case "dynamic":
		if strings.HasPrefix(path[0], "output") {
			t.dynamic = append(t.dynamic, name)
		}
	case "dedupe":
		// A branch of a workflow may have that name.
		if _, is := object["cache"].(string); is {
			t.dedupes = append(t.dedupes, name)
		}
	case "sequence":
		join, _ := object["sharded_join"].(map[string]any)
		if kind, _ := join["type"].(string); kind != "" && kind != "none" {
			t.sharded = append(t.sharded, name+".sharded_join")
		}
	case "read_until":
		if object["restart_input"] == true {
			t.restarting = append(t.restarting, name)
		}
	}
}

func (t *topology) lookAtSource(source map[string]any, path []string) {
	checkpoint, _ := source["checkpoint"].(map[string]any)
	if checkpoint["interval"] == nil {
		return
	}
	t.checkpointed = true
	name := strings.Join(path, ".")
	if t.copies > 1 {
		t.copied = append(t.copied, name)
	}
	if slices.Contains(path, "sequence") && strings.EqualFold(fmt.Sprint(checkpoint["on_stop"]), "delete") {
		t.deleting = append(t.deleting, name+".checkpoint.on_stop")
	}
}

// copiesOf is how many of its children a broker makes.
func copiesOf(key string, v any) int {
	object, _ := v.(map[string]any)
	if n, ok := object["copies"].(int); ok && key == "broker" && n > 1 {
		return n
	}
	return 1
}

// endless tells whether a batch policy gathers records without a limit in time.
func endless(policy map[string]any) bool {
	gathers := false
	for _, k := range []string{"count", "byte_size", "check"} {
		switch v := policy[k].(type) {
		case nil:
		case int:
			gathers = gathers || v > 1
		case string:
			gathers = gathers || v != ""
		default:
			gathers = true
		}
	}
	period, _ := policy["period"].(string)
	return gathers && period == ""
}

// isInput tells whether the object at path is an input: the input itself, or one that another one holds.
func (t *topology) isInput(path []string) bool {
	if len(path) == 0 || path[0] != "input" || slices.Contains(path, "processors") {
		return false
	}
	last := path[len(path)-1]
	return len(path) == 1 || last == "input" || last == "child" || len(path) > 1 && path[len(path)-2] == "inputs"
}

func (t *topology) lookAtInput(v map[string]any, path []string) {
	for kind := range v {
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

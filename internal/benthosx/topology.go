package benthosx

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redpanda-data/benthos/v4/public/service"
	"gopkg.in/yaml.v3"
)

// A plugin sees only its own config. Whether a stream can be checkpointed is decided by what stands around it: a buffer
// acknowledges before anything is written, a batch without a period never ends, outputs that come and go cannot be
// found again at a recovery. So the whole file is checked before its stream is built, and a source with checkpoints
// does not start where nobody has checked.

// looked is what a look at the whole config has found.
var looked struct {
	sync.Mutex
	// done is set once somebody has looked, accepted where a host takes everything.
	done, accepted bool
	// refused is why checkpoints could not hold what they promise, nil where nothing is in their way.
	refused error
}

var (
	// errUnchecked is what a source says that does not know what stands around it.
	errUnchecked = errors.New("checkpoints need a look at the whole config, which this build does not take: a main of one's " +
		"own calls host.Main of cmd/connect/host, or host.CheckTopology in its CLIOptOnConfigParse")
	// errStreamsMode is what a source says in streams mode.
	errStreamsMode = errors.New("streams mode gives no sight of a stream's whole config (a buffer would lose what a " +
		"checkpoint counts as written), so checkpoints are refused there for now: run the stream by `connect run`")
	// errReloaded is what a source says after a reload, which no callback of Benthos's announces.
	errReloaded = errors.New("the config was reloaded (-w), and what stands around a checkpointed source now was not " +
		"checked: start the process anew; it goes on from its last checkpoint")
)

// RequireTopology tells whether a source may be checkpointed where it stands. incarnation counts how often its stream was
// built in this process.
func RequireTopology(res *service.Resources, incarnation int) error {
	looked.Lock()
	defer looked.Unlock()
	switch {
	case looked.accepted:
		return nil
	case res.StreamID() != "":
		return errStreamsMode
	case !looked.done:
		return errUnchecked
	case incarnation > 1:
		return errReloaded
	}
	return looked.refused
}

// AcceptTopology takes whatever is around a source, for a host that builds streams in code and knows better.
func AcceptTopology() {
	looked.Lock()
	defer looked.Unlock()
	looked.accepted = true
}

// CheckTopology looks at the whole config, and refuses one whose checkpoints could not hold what they promise. Its error
// names every place. Where no checkpointed source is in sight, as behind a template, what it found is kept for one that
// turns up.
func CheckTopology(conf *service.ParsedConfig) error {
	root := map[string]any{}
	for _, section := range []string{"input", "buffer", "pipeline", "output", "input_resources", "processor_resources", "output_resources"} {
		v, err := conf.FieldAny(section)
		if err != nil {
			continue // not in the config
		}
		if v, err = plain(v); err != nil {
			return fmt.Errorf("reading %s: %w", section, err)
		}
		root[section] = v
	}
	checkpointed, refused := checkTopology(root)
	looked.Lock()
	looked.done, looked.refused = true, refused
	looked.Unlock()
	if checkpointed {
		return refused
	}
	return nil
}

// plain decodes what the parser has left as YAML.
func plain(v any) (out any, err error) {
	switch v := v.(type) {
	case *yaml.Node:
		err = v.Decode(&out)
		return out, err
	case []any:
		list := make([]any, len(v))
		for i := range v {
			if list[i], err = plain(v[i]); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		object := make(map[string]any, len(v))
		for key := range v {
			if object[key], err = plain(v[key]); err != nil {
				return nil, err
			}
		}
		return object, nil
	}
	return v, nil
}

func checkTopology(root map[string]any) (checkpointed bool, refused error) {
	t := &topology{}
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
	for _, p := range t.sequences {
		refuse(p, "a checkpointed kafka_flink_source cannot be part of a sequence yet; run one after the other, or read them "+
			"at once by a broker")
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
	return t.checkpointed, errors.Join(errs...)
}

// topology is what a walk over the config has found, by path.
type topology struct {
	checkpointed, exactlyOnce                            bool
	endless, dynamic, restarting, sequences, otherInputs []string
	dedupes                                              []string
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
			t.walk(e, at(key))
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
		checkpoint, _ := object["checkpoint"].(map[string]any)
		t.checkpointed = t.checkpointed || checkpoint["interval"] != nil
		if i := slices.Index(path, "sequence"); i >= 0 {
			t.sequences = append(t.sequences, strings.Join(path[:i+1], "."))
		}
	case "kafka_flink_sink":
		t.exactlyOnce = t.exactlyOnce || strings.EqualFold(fmt.Sprint(object["delivery_guarantee"]), "exactly-once")
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
	case "read_until":
		if object["restart_input"] == true {
			t.restarting = append(t.restarting, name)
		}
	}
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

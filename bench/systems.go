package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Names of what can be measured.
const (
	floor       = "floor"
	atLeastOnce = "at-least-once"
	exactlyOnce = "exactly-once"
)

// pipeline copies the input to its end, and stops then. It is what a user would write: nothing in it is there for speed.
const pipeline = `
http: { enabled: %[7]t, address: "%[6]s", debug_endpoints: %[7]t }
logger: { level: WARN }
cache_resources:
  - label: state
    pebble: { path: %[4]q }
input:
  kafka_flink_source:
    bootstrap_servers: [ %[1]q ]
    topics: [ %[2]s ]
    group_id: %[3]s
    startup: { mode: earliest-offset }
    bounded: { mode: latest-offset }
    checkpoint: { interval: 1s, store: state%[8]s }
pipeline:
  threads: 1
output:
  kafka_flink_sink:
    bootstrap_servers: [ %[1]q ]
    topic: %[3]s
    delivery_guarantee: %[5]s
`

// command returns what copies the input to a topic, in a folder of its own.
func (b *bench) command(system, topic, dir string) (*exec.Cmd, error) {
	bootstrap := strings.Join(b.bootstrap, ",")
	switch system {
	case floor:
		return exec.Command(b.floor, "-bootstrap", bootstrap, "-in", inputTopic, "-out", topic,
			"-records", strconv.FormatInt(b.records, 10)), nil
	case atLeastOnce, exactlyOnce:
		more, prefix := "", "    transactional_id_prefix: "+topic+"\n"
		if system == atLeastOnce {
			more, prefix = ", mode: at-least-once", ""
		}
		text := fmt.Sprintf(pipeline+prefix, bootstrap, inputTopic, topic, filepath.Join(dir, "state"), system,
			profileAddress, b.profiles != "", more)
		file := filepath.Join(dir, "job.yaml")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return nil, fmt.Errorf("writing the pipeline: %w", err)
		}
		return exec.Command(b.connect, "run", file), nil
	}
	return nil, fmt.Errorf("there is no %q: it is %s, %s or %s", system, floor, atLeastOnce, exactlyOnce)
}

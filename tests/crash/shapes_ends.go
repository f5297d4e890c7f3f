package crash

import (
	"bytes"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	// both is every record at both outputs, either each at one of them, whichever.
	both   = []outlet{{topics: []string{first}}, {topics: []string{second}}}
	either = []outlet{{topics: []string{first, second}}}
	// evenAndOdd has each record at one of them.
	evenAndOdd = []outlet{{topics: []string{first}, wanted: even}, {topics: []string{second}, wanted: odd}}
)

// brokerOf is a broker output of two sinks.
func brokerOf(pattern string, outlets []outlet) scenario {
	return scenario{name: pattern, processors: asIs, shape: shape{stumbles: true, outlets: outlets, output: `broker:
    pattern: ` + pattern + `
    outputs:
      - {{ another .Out "a" }}
      - {{ another .Out2 "b" }}`}}
}

// besides is a broker output of a sink and of something else that gets identities.
func besides(name, pattern, output string, beside side) scenario {
	beside.repeats = true
	return scenario{name: name, processors: asIs, perSecond: 50, shape: shape{stumbles: true, sides: []side{beside}, output: `broker:
    pattern: ` + pattern + `
    outputs:
      - {{ sink .Out }}
      - ` + output + `
        processors:` + indented(toJSON, "      ")}}
}

func unordered(s scenario) scenario {
	s.unordered = true
	return s
}

func indented(text, by string) string {
	return string(bytes.ReplaceAll([]byte(text), []byte("\n"), []byte("\n"+by)))
}

// outputShapes have other outputs.
var outputShapes = shaped(
	scenario{name: "reject-errored", processors: asIs, shape: shape{stumbles: true}},
	scenario{name: "retry-output", processors: asIs, shape: shape{stumbles: true, output: `retry:
    output:
      {{ sink .Out }}`}},
	scenario{name: "fallback", processors: failThird, shape: shape{
		outlets: []outlet{{topics: []string{first}, wanted: others}, {topics: []string{second}, wanted: third}}, output: `fallback:
    - reject_errored:
        {{ another .Out "a" }}
    - {{ another .Out2 "b" }}`}},
	scenario{name: "fallback-topic", processors: asIs, shape: shape{
		outlets: []outlet{{topics: []string{first}, wanted: others}, {topics: []string{second}, wanted: third}}, output: `fallback:
    - switch:
        cases:
          - check: '@kafka_offset % 10 == 3'
            output: { reject: "not this one" }
          - output:
              {{ another .Out "a" }}
    - {{ another .Out2 "b" }}`}},
	scenario{name: "drop-on-error", processors: failThird, wanted: others, shape: shape{output: `drop_on:
    error: true
    output:
      reject_errored:
        {{ sink .Out }}`}},
	scenario{name: "drop-on-pressure", processors: asIs, shape: shape{lossy: true, stumbles: true, output: `drop_on:
    error: true
    back_pressure: 1ms
    output:
      {{ sink .Out }}`}},
	scenario{name: "switch", processors: asIs, shape: shape{stumbles: true,
		outlets: evenAndOdd, output: `switch:
    cases:
      - check: '@kafka_offset % 2 == 0'
        output:
          {{ another .Out "a" }}
      - output:
          {{ another .Out2 "b" }}`}},
	scenario{name: "switch-continue", processors: asIs, shape: shape{stumbles: true,
		outlets: []outlet{{topics: []string{first}, wanted: even}, {topics: []string{second}}}, output: `switch:
    cases:
      - check: '@kafka_offset % 2 == 0'
        continue: true
        output:
          {{ another .Out "a" }}
      - output:
          {{ another .Out2 "b" }}`}},
	brokerOf("fan_out", both),
	brokerOf("fan_out_fail_fast", both),
	// An output that is tried again for ever, as that of this pattern is, answers in goroutines of their own: what comes
	// after it gets batches in any order.
	unordered(brokerOf("fan_out_sequential", both)),
	brokerOf("fan_out_sequential_fail_fast", both),
	brokerOf("round_robin", either),
	brokerOf("greedy", either),
	scenario{name: "output-batching", processors: asIs, shape: shape{stumbles: true, output: `broker:
    batching: { count: 500, period: 20ms, processors: [ { mapping: root = content() } ] }
    outputs:
      - {{ sink .Out }}`}},
	scenario{name: "interpolated", processors: asIs, shape: shape{stumbles: true,
		outlets: evenAndOdd,
		output:  `{{ sink (printf "'${! if @kafka_offset %% 2 == 0 { %q } else { %q } }'" .Out .Out2) }}`}},
	scenario{name: "two-clusters", processors: asIs, shape: shape{stumbles: true, output: `broker:
    outputs:
      - {{ another .Out "here" }}
      - {{ abroad .Abroad }}`,
		sides: []side{{name: "abroad", copies: true, read: abroad}}}},
	besides("file-beside", "fan_out", `file: { path: '{{ .Dir }}/side', codec: lines }`, side{name: "file", read: sideFile}),
	besides("http-beside", "fan_out_sequential", `http_client: { url: '{{ .Callee }}/take', verb: POST }`, side{name: "http", read: sideHTTP}),
	scenario{name: "at-least-once-sink", processors: asIs, repeats: true, shape: shape{stumbles: true},
		sink: "\n    delivery_guarantee: at-least-once"},
	scenario{name: "mixed-guarantees", processors: asIs, shape: shape{stumbles: true, output: `broker:
    outputs:
      - {{ sink .Out }}
      - kafka_flink_sink: { {{ .Kafka.Flow }}, topic: "{{ .Out2 }}", delivery_guarantee: at-least-once }`,
		sides: []side{{name: "second sink", copies: true, repeats: true, read: secondTopic}}}},
)

func sideFile(tr *trial) ([]*kgo.Record, error) {
	text, err := os.ReadFile(tr.names.Dir + "/side")
	if err != nil {
		return nil, fmt.Errorf("reading what a file output wrote: %w", err)
	}
	var records []*kgo.Record
	for line := range bytes.Lines(text) {
		records = append(records, &kgo.Record{Topic: "file", Value: bytes.TrimSpace(line)})
	}
	return records, nil
}

func sideHTTP(tr *trial) ([]*kgo.Record, error) {
	tr.callee.mu.Lock()
	defer tr.callee.mu.Unlock()
	var records []*kgo.Record
	for _, body := range tr.callee.taken {
		records = append(records, &kgo.Record{Topic: "http", Value: body})
	}
	return records, nil
}

func abroad(tr *trial) ([]*kgo.Record, error) {
	return topicOf(tr.names.Elsewhere.witness, tr.names.Abroad)
}
func secondTopic(tr *trial) ([]*kgo.Record, error) {
	return topicOf(tr.cluster.Bootstrap(), tr.names.Out2)
}

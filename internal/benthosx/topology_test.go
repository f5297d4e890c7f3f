package benthosx

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

func TestTopologyThatCheckpointsCannotHoldIsRefused(t *testing.T) {
	const source = "kafka_flink_source: { checkpoint: { interval: 1s } }"
	const sink = "output: { kafka_flink_sink: { delivery_guarantee: exactly-once } }\n"
	tests := map[string]struct{ conf, want string }{
		"nothing around it":            {"input: { " + source + " }\n" + sink, ""},
		"no buffer, written out":       {"input: { " + source + " }\nbuffer: { none: {} }\n" + sink, ""},
		"a buffer without checkpoints": {"input: { kafka_flink_source: {} }\nbuffer: { memory: {} }\n", ""},
		"a buffer":                     {"input: { " + source + " }\nbuffer: { memory: {} }\n", "buffer: a memory buffer acknowledges"},
		"a buffer around a nested source": {
			"input: { broker: { inputs: [ { label: x, " + source + " } ] } }\nbuffer: { system_window: {} }\n", "system_window"},
		"batching without a period": {
			"input: { " + source + " }\noutput: { broker: { batching: { count: 10 }, outputs: [] } }\n",
			"output.broker.batching: a batch with count: 10 and without a period"},
		"batching with a period": {
			"input: { " + source + " }\noutput: { broker: { batching: { count: 10, period: 1s }, outputs: [] } }\n", ""},
		"batching that gathers nothing": {
			"input: { " + source + " }\noutput: { http_client: { batching: { count: 1 } } }\n", ""},
		"a batched input without a period": {
			"input: { batched: { child: { " + source + " }, policy: { byte_size: 100 } } }\n", "input.batched.policy"},
		"dynamic outputs": {"input: { " + source + " }\noutput: { dynamic: {} }\n", "output.dynamic: outputs that come and go"},
		"an input that is built anew": {
			"input: { read_until: { restart_input: true, input: { " + source + " } } }\n", "input.read_until.restart_input: true builds"},
		"another input beside it": {
			"input: { broker: { inputs: [ { " + source + " }, { generate: {} } ] } }\n" + sink,
			"input.broker.inputs.1.generate: an input without checkpoints"},
		"another input, at-least-once": {
			"input: { broker: { inputs: [ { " + source + " }, { generate: {} } ] } }\noutput: { kafka_flink_sink: {} }\n", ""},
		"a sequence": {"input: { sequence: { inputs: [ { " + source + " }, { " + source + " } ] } }\n", ""},
		"a sequence that joins": {
			"input: { sequence: { sharded_join: { type: outer }, inputs: [ { " + source + " } ] } }\n",
			"input.sequence.sharded_join: a sharded join (type: outer) acknowledges"},
		"a sequence without sinks that deletes": {
			"input: { sequence: { inputs: [ { kafka_flink_source: { checkpoint: { interval: 1s, on_stop: delete } } } ] } }\n",
			"input.sequence.inputs.0.kafka_flink_source.checkpoint.on_stop: on_stop: delete inside a sequence"},
		"a sequence with a sink that deletes": {
			"input: { sequence: { inputs: [ { kafka_flink_source: { checkpoint: { interval: 1s, on_stop: delete } } } ] } }\n" + sink, ""},
		"copies of a source": {
			"input: { broker: { copies: 2, inputs: [ { " + source + " } ] } }\n",
			"input.broker.copies: 2, and each copy of the kafka_flink_source"},
		"a resource output that batches without a period": {
			"input: { " + source + " }\noutput: { resource: o }\noutput_resources: [ { label: o, broker: { batching: { count: 9 }, outputs: [] } } ]\n",
			"output_resources.o.broker.batching: a batch with count: 9 and without a period"},
		"a sink as a resource": {
			"input: { " + source + " }\noutput: { resource: o }\noutput_resources: [ { label: o, kafka_flink_sink: {} } ]\n",
			"output_resources.o.kafka_flink_sink: a kafka_flink_sink cannot be a resource"},
		"a source as a resource": {
			"input: { resource: o }\ninput_resources: [ { label: o, " + source + " } ]\n",
			"input_resources.o.kafka_flink_source: a kafka_flink_source cannot be a resource"},
		"a resource that nobody names": {
			"input: { " + source + " }\noutput_resources: [ { label: o, broker: { batching: { count: 9 }, outputs: [] } } ]\n", ""},
		"another input as a resource": {
			"input: { broker: { inputs: [ { " + source + " }, { resource: o } ] } }\ninput_resources: [ { label: o, broker: { inputs: [ { generate: {} } ] } } ]\n" + sink,
			"input_resources.o.broker.inputs.0.generate: an input without checkpoints"},
		"a resource that a resource names, round about": {
			"input: { " + source + " }\npipeline: { processors: [ { resource: a } ] }\nprocessor_resources: [ { label: a, try: [ { resource: b } ] }, " +
				"{ label: b, try: [ { resource: a }, { dedupe: { cache: c, key: k } } ] } ]\n",
			"processor_resources.b.try.1.dedupe"},
		"a branch of a workflow as a resource": {
			"input: { " + source + " }\npipeline: { processors: [ { workflow: { branch_resources: [ b ] } } ] }\n" +
				"processor_resources: [ { label: b, branch: { processors: [ { dedupe: { cache: c, key: k } } ] } } ]\n",
			"processor_resources.b.branch.processors.0.dedupe"},
		"a dedupe processor": {
			"input: { " + source + " }\npipeline: { processors: [ { try: [ { dedupe: { cache: c, key: k } } ] } ] }\n",
			"pipeline.processors.0.try.0.dedupe: dedupe notes a record before it is delivered"},
		"a dedupe processor as a resource": {
			"input: { " + source + " }\npipeline: { processors: [ { resource: p } ] }\nprocessor_resources: [ { label: p, dedupe: { cache: c, key: k } } ]\n",
			"processor_resources.p.dedupe"},
		"a dedupe processor without checkpoints": {
			"input: { kafka_flink_source: {} }\npipeline: { processors: [ { dedupe: { cache: c, key: k } } ] }\n", ""},
		"a branch that is called dedupe": {
			"input: { " + source + " }\npipeline: { processors: [ { workflow: { branches: { dedupe: { processors: [] } } } } ] }\n", ""},
		"processors are no inputs": {
			"input: { " + source + ", processors: [ { branch: { processors: [ { cache: {} } ] } } ] }\n" + sink, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var root map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(tc.conf), &root))
			found, err := checkTopology(root)
			if tc.want == "" {
				require.True(t, err == nil || !found.checkpointed, "%v", err)
			} else {
				require.True(t, found.checkpointed)
				require.ErrorContains(t, err, tc.want)
			}
		})
	}
}

func TestSinksAreCounted(t *testing.T) {
	var root map[string]any
	require.NoError(t, yaml.Unmarshal([]byte("output: { broker: { copies: 3, outputs: [ { kafka_flink_sink: {} }, { drop: {} } ] } }"), &root))
	found, err := checkTopology(root)
	require.NoError(t, err)
	require.Equal(t, 3, found.sinks)
}

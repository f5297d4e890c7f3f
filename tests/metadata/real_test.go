package metadata

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/tests/binary"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// awkward are records of which each has something that is easily lost.
func awkward() []*kgo.Record {
	h := func(key string, value []byte) kgo.RecordHeader { return kgo.RecordHeader{Key: key, Value: value} }
	at := time.UnixMilli
	return []*kgo.Record{
		{Key: []byte("k"), Value: []byte("v"), Timestamp: at(1_700_000_000_123)},
		{Key: nil, Value: []byte("no key"), Timestamp: at(0)},
		{Key: []byte{}, Value: []byte("empty key"), Timestamp: at(1)},
		{Key: []byte{0, 255, 254, '\n', 0x80}, Value: []byte{255, 0, 128, '\n'}, Timestamp: at(-5000)},
		{Key: []byte("null"), Value: nil, Timestamp: at(-2)},
		{Key: nil, Value: nil, Timestamp: at(3)},
		{Key: []byte{}, Value: []byte{}, Timestamp: at(4)},
		{Key: []byte("text null"), Value: []byte("null"), Timestamp: at(5)},
		{Key: []byte("names of ours"), Value: []byte("v"), Timestamp: at(6), Headers: []kgo.RecordHeader{
			h("kafka_key", []byte("evil")), h("kafka_tombstone_message", []byte("true")), h("kafka_headers", nil), h("kafka_offset", []byte{}),
		}},
		{Key: []byte("order and duplicates"), Value: []byte("v"), Timestamp: at(7), Headers: []kgo.RecordHeader{
			h("b", []byte("1")), h("a", []byte("2")), h("b", nil), h("b", []byte{}), h("a", []byte("2")),
		}},
		{Key: []byte("bytes"), Value: nil, Timestamp: at(8), Headers: []kgo.RecordHeader{
			h("", []byte("no name")), h("schlüssel-鍵", []byte("wert-値")), h("binary", []byte{0, 255, 254}), h("no\xffutf8", []byte("v")),
		}},
		{Key: []byte(`{"json":1}`), Value: []byte(` {"not" : "reformatted"} `), Timestamp: at(9)},
	}
}

const realConfig = `
http: { enabled: false }
cache_resources:
  - label: state
    pebble: { path: %[2]q }
input:
  kafka_flink_source:
    bootstrap_servers: %[1]s
    topics: [ %[3]s ]
    startup: { mode: earliest-offset }
    bounded: { mode: latest-offset }
    header_metadata: { include_prefixes: [ "" ] }
    metadata: [ topic, partition, offset, timestamp, key, headers, timestamp_type, leader_epoch ]
    checkpoint: { interval: 200ms, store: state }
pipeline:
  threads: 1
  processors: %[5]s
output:
  broker:
    pattern: fan_out
    outputs:
      - kafka_flink_sink: { bootstrap_servers: %[1]s, topic: %[4]s, delivery_guarantee: exactly-once, transactional_id_prefix: %[4]s }
      # What is done to the copy for another output is not to be seen by the first.
      - drop: {}
        processors: [ { mapping: 'root = "changed"' }, { mapping: 'meta = {"kafka_headers": @kafka_headers.append({"key": "x"})}' } ]
`

// TestAwkwardRecordsAreCopiedByteForByteOnARealKafka runs the binary, exactly-once, through processors that copy and
// split, with every piece of metadata there is (rule 9).
func TestAwkwardRecordsAreCopiedByteForByteOnARealKafka(t *testing.T) {
	kafka := realkafka.Shared(t)
	connect := binary.Connect(t)
	for name, processors := range map[string]string{
		"alone":            "[]",
		"copied and split": "[ { split: { size: 1 } }, { parallel: { processors: [ { noop: {} } ] } }, { for_each: [ { noop: {} } ] } ]",
		"assigned anew":    "[ { mapping: 'meta = @' }, { mapping: 'meta kafka_headers = @kafka_headers.map_each(h -> {\"key\": h.key, \"value\": h.value})' } ]",
		"failed":           "[ { mapping: 'root = throw(\"on purpose\")' } ]",
	} {
		t.Run(name, func(t *testing.T) {
			copyOnce(t, kafka, connect, "CreateTime", processors)
		})
	}
	t.Run("with the broker's timestamps", func(t *testing.T) {
		copyOnce(t, kafka, connect, "LogAppendTime", "[]")
	})
}

const aheadConfig = `
logger: { level: off }
input:
  kafka_flink_source:
    bootstrap_servers: %[1]s
    topics: [ %[2]s ]
    startup: { mode: earliest-offset }
    bounded: { mode: latest-offset }
output:
  fallback:
    - kafka_flink_sink: { bootstrap_servers: %[1]s, topic: %[3]s }
    - kafka_flink_sink: { bootstrap_servers: %[1]s, topic: %[4]s, timestamp: "" }
      processors: [ { mapping: 'root = @fallback_error' } ]
`

func TestTimestampThatTheBrokerRefusesIsNamed(t *testing.T) {
	kafka := realkafka.Shared(t)
	in := kafka.Topic(t, 1, "message.timestamp.after.max.ms", fmt.Sprint(24*time.Hour.Milliseconds()))
	out, refused := kafka.Topic(t, 1), kafka.Topic(t, 1)
	produce(t, kafka.Bootstrap(), in, []*kgo.Record{{Value: []byte("v"), Timestamp: time.Now().Add(12 * time.Hour)}})
	runStream(t, fmt.Sprintf(aheadConfig, kafka.Bootstrap()[0], in, out, refused))
	require.Empty(t, readAll(t, kafka.Bootstrap(), out))
	why := readAll(t, kafka.Bootstrap(), refused)
	require.Len(t, why, 1)
	require.Contains(t, string(why[0].Value), "INVALID_TIMESTAMP")
	require.Contains(t, string(why[0].Value), "further ahead than the topic's message.timestamp.after.max.ms allows")
}

func copyOnce(t *testing.T, kafka *realkafka.Cluster, connect, timestamps, processors string) {
	t.Helper()
	in, out := kafka.Topic(t, 1, "message.timestamp.type", timestamps), kafka.Topic(t, 1)
	produce(t, kafka.Bootstrap(), in, awkward())
	runBinary(t, connect, fmt.Sprintf(realConfig, kafka.Bootstrap()[0], filepath.Join(t.TempDir(), "state"), in, out, processors))
	sameRecords(t, readAll(t, kafka.Bootstrap(), in), readAll(t, kafka.Bootstrap(), out))
}

// sameRecords compares what a reader of the copy sees with what one of the original does.
func sameRecords(t *testing.T, want, got []*kgo.Record) {
	t.Helper()
	require.Len(t, want, len(awkward()))
	require.Len(t, got, len(want))
	for i := range want {
		w, g := want[i], got[i]
		require.Equal(t, w.Key, g.Key, "record %d", i)
		require.Equal(t, w.Value, g.Value, "record %d", i)
		require.Len(t, g.Headers, len(w.Headers), "record %d", i)
		for h := range w.Headers {
			require.Equal(t, w.Headers[h], g.Headers[h], "record %d, header %d", i, h)
		}
		require.Equal(t, w.Timestamp, g.Timestamp, "record %d", i)
	}
}

func runBinary(t *testing.T, connect, config string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	file := filepath.Join(t.TempDir(), "job.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o644))
	out, err := exec.CommandContext(ctx, connect, "run", file).CombinedOutput()
	require.NoError(t, err, string(out))
}

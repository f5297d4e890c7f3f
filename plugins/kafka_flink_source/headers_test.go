package kafkaflinksource

import (
	"math"
	"testing"
	"time"

	"github.com/redpanda-data/benthos/v4/public/bloblang"
	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// namesOf parses header_metadata as a config has it.
func namesOf(t *testing.T, yaml string) headerNames {
	t.Helper()
	c, err := parse(t, minimal+"header_metadata: "+yaml)
	require.NoError(t, err)
	return c.headers
}

// TestHeadersUnderTheirOwnNames: rule 9, no header takes the place of what the source sets, whatever is asked for.
func TestHeadersUnderTheirOwnNames(t *testing.T) {
	headers := []kgo.RecordHeader{
		{Key: "tenant", Value: []byte("a")},
		{Key: "app_v", Value: []byte("1")},
		{Key: "tenant", Value: []byte("b")},
		{Key: "app_gone", Value: []byte("x")},
		{Key: "app_gone", Value: nil},
		{Key: "app_back", Value: nil},
		{Key: "app_back", Value: []byte("y")},
		{Key: "app_empty", Value: []byte{}},
		{Key: "app_binary", Value: []byte{0, 255}},
		{Key: "other", Value: []byte("o")},
		{Key: "", Value: []byte("nameless")},
		{Key: "kafka_offset", Value: []byte("evil")},
		{Key: "kafka_tombstone_message", Value: []byte("true")},
		{Key: "kafka_later", Value: []byte("evil")},
		{Key: "Kafka_x", Value: []byte("another name")},
	}
	app := map[string]any{"app_v": "1", "app_back": "y", "app_empty": "", "app_binary": "\x00\xff"}
	with := func(base, more map[string]any) map[string]any {
		all := map[string]any{"kafka_offset": int64(7)}
		for _, m := range []map[string]any{base, more} {
			for k, v := range m {
				all[k] = v
			}
		}
		return all
	}
	for yaml, want := range map[string]map[string]any{
		`{}`:                                   with(nil, nil),
		`{ include_prefixes: [ app_ ] }`:       with(app, nil),
		`{ include_patterns: [ "^tenant$" ] }`: with(nil, map[string]any{"tenant": "b"}),
		`{ include_patterns: [ enan ] }`:       with(nil, map[string]any{"tenant": "b"}),
		`{ include_prefixes: [ app_ ], include_patterns: [ "^(tenant|other)$" ] }`: with(app, map[string]any{"tenant": "b", "other": "o"}),
		`{ include_prefixes: [ "" ] }`:                                             with(app, map[string]any{"tenant": "b", "other": "o", "Kafka_x": "another name"}),
		`{ include_patterns: [ ".*" ] }`:                                           with(app, map[string]any{"tenant": "b", "other": "o", "Kafka_x": "another name"}),
		`{ include_prefixes: [ kafka_ ] }`:                                         with(nil, nil),
	} {
		t.Run(yaml, func(t *testing.T) {
			m := newMessages([]string{listOffset}, namesOf(t, yaml))
			batch := m.build(checkpoint.Tag{}, []*kgo.Record{{Offset: 7, Value: []byte("v"), Headers: headers}})
			require.Equal(t, want, allMeta(t, batch[0]))
		})
	}
}

// TestPatternsThatAreGoodHaveNoLint: TestBadInput has one that is not.
func TestPatternsThatAreGoodHaveNoLint(t *testing.T) {
	require.Empty(t, lint(t, minimal+`header_metadata: { include_patterns: [ "^a.*z$", "(?i)b", "" ], include_prefixes: [ "" ] }`))
}

// TestMessagesDoNotShareWhatMappingsChange: copies of a message share their metadata's values, so that what one branch of
// a pipeline does to its headers must not be seen by another.
func TestMessagesDoNotShareWhatMappingsChange(t *testing.T) {
	rec := &kgo.Record{Value: []byte(`{}`), Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}}}
	msg := newMessages(defaultMetadata, headerNames{}).build(checkpoint.Tag{}, []*kgo.Record{rec})[0]
	copied := msg.Copy()

	list, _ := copied.MetaGetMut("kafka_headers") // "mutable, and so it is safe to modify"
	list.([]any)[0].(map[string]any)["value"] = []byte("changed")
	again, _ := copied.MetaGetMut("kafka_headers")
	require.Equal(t, []any{map[string]any{"key": "a", "value": []byte("1")}}, again)

	exec, err := bloblang.Parse("root.h = @kafka_headers\nroot.h.0.value = \"changed\"\nmeta kafka_headers = @kafka_headers.append({\"key\":\"b\"})")
	require.NoError(t, err)
	mapped, err := copied.BloblangQuery(exec)
	require.NoError(t, err)
	require.Len(t, allMeta(t, mapped)["kafka_headers"], 2)
	for _, m := range []*service.Message{msg, copied} {
		require.Equal(t, []any{map[string]any{"key": "a", "value": []byte("1")}}, allMeta(t, m)["kafka_headers"])
	}
	require.Equal(t, []kgo.RecordHeader{{Key: "a", Value: []byte("1")}}, rec.Headers)
}

// TestTimestampsBeyondTheClientsRange: the client reads milliseconds into nanoseconds of 64 bits, which micro- and
// nanoseconds that a producer took for milliseconds overflow.
func TestTimestampsBeyondTheClientsRange(t *testing.T) {
	wrap := func(ms int64) time.Time { return time.Unix(0, ms*1e6) } // as franz-go does
	for _, ms := range []int64{
		0, 1, -2, -5000, 1_700_000_000_123, math.MaxInt64 / 1_000_000, math.MinInt64 / 1_000_000,
		math.MaxInt64/1_000_000 + 1, 1_700_000_000_123_456, -1_700_000_000_123_456, 1<<57 - 1, -1 << 57,
	} {
		require.Equal(t, ms, millis(wrap(ms)))
	}
	micros := fetched(t, kmsg.MessageV1{Magic: 1, Timestamp: 1_700_000_000_123_456})
	require.EqualValues(t, 1_700_000_000_123_456, millis(micros.Timestamp), "the client does wrap so")
	m := newMessages([]string{listTimestamp}, headerNames{})
	batch := m.build(checkpoint.Tag{}, []*kgo.Record{{Timestamp: time.UnixMilli(-1)}, {Timestamp: time.UnixMilli(-2)}, {Timestamp: wrap(1_700_000_000_123_456)}})
	require.NotContains(t, allMeta(t, batch[0]), "kafka_timestamp_ms", "-1 is Kafka's word for none")
	require.EqualValues(t, -2, allMeta(t, batch[1])["kafka_timestamp_ms"])
	require.EqualValues(t, 1_700_000_000_123_456, allMeta(t, batch[2])["kafka_timestamp_ms"])
}

package kafkaflinksource

import (
	"fmt"
	"testing"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// allMeta returns the metadata of a message as it was set.
func allMeta(t *testing.T, msg *service.Message) map[string]any {
	t.Helper()
	out := make(map[string]any)
	require.NoError(t, msg.MetaWalkMut(func(k string, v any) error {
		out[k] = v
		return nil
	}))
	return out
}

func TestMetadataIsExactlyWhatIsListed(t *testing.T) {
	rec := &kgo.Record{
		Topic: "orders", Partition: 3, Offset: 1 << 40, LeaderEpoch: 7, Timestamp: time.UnixMilli(1700000000123),
		Key: []byte("k"), Value: []byte("v"), Headers: []kgo.RecordHeader{
			{Key: "b", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "b", Value: []byte{}}, {Key: "kafka_topic", Value: []byte("evil")},
		},
	}
	for name, tc := range map[string]struct {
		listed []string
		want   map[string]any
	}{
		"nothing":   {nil, map[string]any{}},
		"topic":     {[]string{"topic"}, map[string]any{"kafka_topic": "orders"}},
		"partition": {[]string{"partition"}, map[string]any{"kafka_partition": 3}},
		"offset":    {[]string{"offset"}, map[string]any{"kafka_offset": int64(1 << 40)}},
		"timestamp": {[]string{"timestamp"}, map[string]any{"kafka_timestamp_ms": int64(1700000000123)}},
		"type":      {[]string{"timestamp_type"}, map[string]any{"kafka_timestamp_type": "CreateTime"}},
		"epoch":     {[]string{"leader_epoch"}, map[string]any{"kafka_leader_epoch": 7}},
		"key":       {[]string{"key"}, map[string]any{"kafka_key": []byte("k")}},
		// In order, with duplicates; null and empty are told apart, and no header becomes metadata by itself (rule 9).
		"headers": {[]string{"headers"}, map[string]any{"kafka_headers": []any{
			map[string]any{"key": "b", "value": []byte("1")},
			map[string]any{"key": "a", "value": nil},
			map[string]any{"key": "b", "value": []byte{}},
			map[string]any{"key": "kafka_topic", "value": []byte("evil")},
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			batch := newMessages(tc.listed, headerNames{}).build(checkpoint.Tag{}, []*kgo.Record{rec})
			require.Len(t, batch, 1)
			require.Equal(t, tc.want, allMeta(t, batch[0]))
			body, err := batch[0].AsBytes()
			require.NoError(t, err)
			require.Equal(t, "v", string(body))
		})
	}
}

func TestNullAndEmptyAreToldApart(t *testing.T) {
	records := []*kgo.Record{
		{Key: nil, Value: nil},
		{Key: []byte{}, Value: []byte{}},
		{Key: []byte("k"), Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "kafka_tombstone_message", Value: []byte("true")}}},
	}
	batch := newMessages([]string{"key", "headers"}, headerNames{}).build(checkpoint.Tag{}, records)
	require.Equal(t, map[string]any{"kafka_headers": []any{}, "kafka_tombstone_message": true}, allMeta(t, batch[0]))
	require.Equal(t, map[string]any{"kafka_headers": []any{}, "kafka_key": []byte{}}, allMeta(t, batch[1]))
	require.NotContains(t, allMeta(t, batch[2]), "kafka_tombstone_message")
	for _, msg := range batch[:2] {
		body, err := msg.AsBytes()
		require.NoError(t, err)
		require.Empty(t, body)
	}
}

func TestOneMessageIsNotChangedByAnother(t *testing.T) {
	tag := checkpoint.Tag{Attempt: 4}
	m := newMessages(defaultMetadata, headerNames{})
	batch := m.build(tag, []*kgo.Record{
		{Topic: "a", Partition: 0, Offset: 1, Value: []byte("x")},
		{Topic: "a", Partition: 1, Offset: 2, Value: []byte("y")},
		{Topic: "b", Partition: 1, Offset: 3, Value: []byte("z")},
	})
	for i, want := range []string{"a 0 1 x", "a 1 2 y", "b 1 3 z"} {
		meta := allMeta(t, batch[i])
		body, err := batch[i].AsBytes()
		require.NoError(t, err)
		require.Equal(t, want, fmt.Sprint(meta["kafka_topic"], " ", meta["kafka_partition"], " ", meta["kafka_offset"], " ", string(body)))
		got, ok := checkpoint.TagFrom(batch[i].Context())
		require.True(t, ok)
		require.Equal(t, tag, got)
		require.Same(t, batch[0].Context(), batch[i].Context(), "one context for the batch, not one for each record")
	}
	batch[0].MetaSetMut("kafka_topic", "changed")
	batch[0].SetBytes([]byte("changed"))
	require.Equal(t, "a", allMeta(t, batch[1])["kafka_topic"])
	next := m.build(checkpoint.Tag{Attempt: 5}, []*kgo.Record{{Topic: "a", Partition: 1}})
	got, _ := checkpoint.TagFrom(next[0].Context())
	require.EqualValues(t, 5, got.Attempt)
	require.Equal(t, 1, allMeta(t, next[0])["kafka_partition"])
}

// TestTimestampTypes reads record batches, since the type is a bit that only a fetch sets.
func TestTimestampTypes(t *testing.T) {
	meta := func(rec *kgo.Record) map[string]any {
		return allMeta(t, newMessages([]string{"timestamp", "timestamp_type"}, headerNames{}).build(checkpoint.Tag{}, []*kgo.Record{rec})[0])
	}
	for attributes, want := range map[int8]string{0: "CreateTime", 1 << 3: "LogAppendTime"} {
		require.Equal(t, map[string]any{"kafka_timestamp_ms": int64(42), "kafka_timestamp_type": want},
			meta(fetched(t, kmsg.MessageV1{Magic: 1, Attributes: attributes, Timestamp: 42})))
	}
	require.Equal(t, map[string]any{"kafka_timestamp_type": "NoTimestampType"}, meta(fetchedV0(t)), "absent where there is none")
}

func BenchmarkBuild(b *testing.B) {
	records := make([]*kgo.Record, 1000)
	for i := range records {
		records[i] = &kgo.Record{Topic: "orders", Partition: 3, Offset: int64(i), Key: []byte("key"), Value: make([]byte, 100)}
	}
	for name, listed := range map[string][]string{"none": nil, "default": defaultMetadata} {
		b.Run(name, func(b *testing.B) {
			m := newMessages(listed, headerNames{})
			b.ReportAllocs()
			for b.Loop() {
				m.build(checkpoint.Tag{}, records)
			}
		})
	}
}

package kafkaflinksource

import (
	"context"
	"slices"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// What can be listed in metadata.
const (
	listTopic         = "topic"
	listPartition     = "partition"
	listOffset        = "offset"
	listTimestamp     = "timestamp"
	listTimestampType = "timestamp_type"
	listLeaderEpoch   = "leader_epoch"
	listKey           = "key"
	listHeaders       = "headers"
)

var (
	metadataNames = []string{
		listTopic, listPartition, listOffset, listTimestamp, listKey, listHeaders, listTimestampType, listLeaderEpoch,
	}
	defaultMetadata = metadataNames[:6]
)

func knownMetadata(name string) bool { return slices.Contains(metadataNames, name) }

// Metadata keys. Those that Redpanda Connect has too have its names.
const (
	metaTopic         = "kafka_topic"
	metaPartition     = "kafka_partition"
	metaOffset        = "kafka_offset"
	metaTimestamp     = "kafka_timestamp_ms"
	metaTimestampType = "kafka_timestamp_type"
	metaLeaderEpoch   = "kafka_leader_epoch"
	metaKey           = "kafka_key"
	metaHeaders       = "kafka_headers"
	metaTombstone     = "kafka_tombstone_message"
)

// Keys of one entry of kafka_headers.
const (
	headerKey   = "key"
	headerValue = "value"
)

// messages builds messages of records. It is used by one goroutine, and keeps what is the same for many records.
type messages struct {
	topic, partition, offset, timestamp, timestampType, leaderEpoch, key, headers bool

	// The last topic and partition, as the values that go into the metadata.
	lastTopic        string
	topicValue       any
	lastPartition    int32
	partitionValue   any
	havePartition    bool
	noHeaders, truth any
}

func newMessages(listed []string) *messages {
	has := func(name string) bool { return slices.Contains(listed, name) }
	return &messages{
		topic: has(listTopic), partition: has(listPartition), offset: has(listOffset), timestamp: has(listTimestamp),
		timestampType: has(listTimestampType), leaderEpoch: has(listLeaderEpoch), key: has(listKey), headers: has(listHeaders),
		noHeaders: []any{}, truth: true,
	}
}

// build makes a message of each record, with the tag in one context for the whole batch: it is the one value that every
// processor keeps (rule 8). The tag of a source without checkpoints names no stream, and so means nothing to any sink.
func (m *messages) build(tag checkpoint.Tag, records []*kgo.Record) service.MessageBatch {
	ctx := checkpoint.WithTag(context.Background(), tag)
	batch := make(service.MessageBatch, len(records))
	for i, rec := range records {
		batch[i] = service.NewMessage(rec.Value).WithContext(ctx)
		m.fill(batch[i], rec)
	}
	return batch
}

// fill sets exactly the metadata that is listed, and the mark of a null value. Record headers only ever go into the list
// under kafka_headers, so none can overwrite what is set here (rule 9).
func (m *messages) fill(msg *service.Message, rec *kgo.Record) {
	if m.topic {
		if m.topicValue == nil || m.lastTopic != rec.Topic {
			m.lastTopic, m.topicValue = rec.Topic, rec.Topic
		}
		msg.MetaSetMut(metaTopic, m.topicValue)
	}
	if m.partition {
		if !m.havePartition || m.lastPartition != rec.Partition {
			m.havePartition, m.lastPartition, m.partitionValue = true, rec.Partition, int(rec.Partition)
		}
		msg.MetaSetMut(metaPartition, m.partitionValue)
	}
	if m.offset {
		msg.MetaSetMut(metaOffset, rec.Offset)
	}
	if m.timestamp && rec.Attrs.TimestampType() >= 0 {
		msg.MetaSetMut(metaTimestamp, rec.Timestamp.UnixMilli())
	}
	if m.timestampType {
		msg.MetaSetMut(metaTimestampType, timestampType(rec))
	}
	if m.leaderEpoch && rec.LeaderEpoch >= 0 {
		msg.MetaSetMut(metaLeaderEpoch, int(rec.LeaderEpoch))
	}
	// Rule 9: a null key is absent, an empty one is present and empty.
	if m.key && rec.Key != nil {
		msg.MetaSetMut(metaKey, rec.Key)
	}
	if m.headers {
		msg.MetaSetMut(metaHeaders, m.headerList(rec.Headers))
	}
	if rec.Value == nil {
		msg.MetaSetMut(metaTombstone, m.truth)
	}
}

// headerList keeps order, duplicates, and the difference between null and empty values (rule 9).
func (m *messages) headerList(headers []kgo.RecordHeader) any {
	if len(headers) == 0 {
		return m.noHeaders
	}
	list := make([]any, len(headers))
	for i, h := range headers {
		var value any
		if h.Value != nil {
			value = h.Value
		}
		list[i] = map[string]any{headerKey: h.Key, headerValue: value}
	}
	return list
}

// timestampType is the name of Kafka's TimestampType.
func timestampType(rec *kgo.Record) any {
	switch rec.Attrs.TimestampType() {
	case 0:
		return "CreateTime"
	case 1:
		return "LogAppendTime"
	}
	return "NoTimestampType"
}

package kafkaflinksource

import (
	"context"
	"slices"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/benthosx"
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

// Metadata keys besides those that the sink reads. Those that Redpanda Connect has too have its names.
const (
	metaTopic         = "kafka_topic"
	metaPartition     = "kafka_partition"
	metaOffset        = "kafka_offset"
	metaTimestampType = "kafka_timestamp_type"
	metaLeaderEpoch   = "kafka_leader_epoch"
)

// messages builds messages of records. It is used by one goroutine, and keeps what is the same for many records.
type messages struct {
	topic, partition, offset, timestamp, timestampType, leaderEpoch, key, headers bool
	named                                                                         headerNames

	// context prepares the context of a batch's messages; as it is unless it is set.
	context func(context.Context) context.Context

	// The last topic, partition and timestamp, as the values that go into the metadata.
	lastTopic      string
	topicValue     any
	lastPartition  int32
	partitionValue any
	lastTimestamp  int64
	timestampValue any
}

func newMessages(listed []string, named headerNames) *messages {
	has := func(name string) bool { return slices.Contains(listed, name) }
	return &messages{
		topic: has(listTopic), partition: has(listPartition), offset: has(listOffset), timestamp: has(listTimestamp),
		timestampType: has(listTimestampType), leaderEpoch: has(listLeaderEpoch), key: has(listKey), headers: has(listHeaders),
		named: named, context: func(ctx context.Context) context.Context { return ctx },
	}
}

// build makes a message of each record, with the tag in one context for the whole batch: it is the one value that every
// processor keeps (rule 8). The tag of a source without checkpoints names no stream, and so means nothing to any sink.
func (m *messages) build(tag checkpoint.Tag, records []*kgo.Record) service.MessageBatch {
	ctx := m.context(checkpoint.WithTag(context.Background(), tag))
	batch := make(service.MessageBatch, len(records))
	for i, rec := range records {
		batch[i] = service.NewMessage(rec.Value).WithContext(ctx)
		m.fill(batch[i], rec)
	}
	return batch
}

// fill sets exactly the metadata that is listed, the headers that are asked for by name, and the mark of a null value.
func (m *messages) fill(msg *service.Message, rec *kgo.Record) {
	if m.topic {
		if m.topicValue == nil || m.lastTopic != rec.Topic {
			m.lastTopic, m.topicValue = rec.Topic, rec.Topic
		}
		msg.MetaSetMut(metaTopic, m.topicValue)
	}
	if m.partition {
		if m.partitionValue == nil || m.lastPartition != rec.Partition {
			m.lastPartition, m.partitionValue = rec.Partition, int(rec.Partition)
		}
		msg.MetaSetMut(metaPartition, m.partitionValue)
	}
	if m.offset {
		msg.MetaSetMut(metaOffset, rec.Offset)
	}
	if m.timestamp && rec.Attrs.TimestampType() >= 0 {
		if ms := millis(rec.Timestamp); ms != noTimestamp {
			if m.timestampValue == nil || m.lastTimestamp != ms {
				m.lastTimestamp, m.timestampValue = ms, ms
			}
			msg.MetaSetMut(benthosx.MetaTimestamp, m.timestampValue)
		}
	}
	if m.timestampType {
		msg.MetaSetMut(metaTimestampType, timestampType(rec))
	}
	if m.leaderEpoch && rec.LeaderEpoch >= 0 {
		msg.MetaSetMut(metaLeaderEpoch, int(rec.LeaderEpoch))
	}
	// Rule 9: a null key is absent, an empty one is present and empty.
	if m.key && rec.Key != nil {
		msg.MetaSetMut(benthosx.MetaKey, rec.Key)
	}
	if m.headers {
		msg.MetaSetImmut(benthosx.MetaHeaders, benthosx.Headers(rec.Headers))
	}
	if m.named.any() {
		m.named.set(msg, rec.Headers)
	}
	if rec.Value == nil {
		msg.MetaSetImmut(benthosx.MetaTombstone, benthosx.ReadTombstone{})
	}
}

// noTimestamp is what Kafka writes where a record has none.
const noTimestamp = -1

// millis is a record's timestamp in milliseconds since 1970. The client makes nanoseconds in 64 bits of them, in which
// what lies outside of the years 1677 to 2262 does not fit: topics hold it where a producer took micro- or nanoseconds
// for milliseconds. The lost bits are found again where the number has up to 58.
func millis(t time.Time) int64 {
	ns := t.UnixNano()
	if ns%1e6 == 0 {
		return ns / 1e6
	}
	// ns is ms * 2^6 * 5^6 modulo 2^64, and multiplying by an odd number can be undone modulo 2^58.
	const inverse = 0x790fb65668c26139 // of 5^6
	return int64(uint64(ns)>>6*inverse<<6) >> 6
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

package kafkaflinksink

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkasink"
)

// Metadata that the source sets and the sink copies.
const (
	metaKey       = "kafka_key"
	metaHeaders   = "kafka_headers"
	metaTimestamp = "kafka_timestamp_ms"
	metaTombstone = "kafka_tombstone_message"
)

// recordBuilder makes records of messages.
type recordBuilder struct {
	topic *service.InterpolatedString
	// constantTopic is the topic where it is the same for every message.
	constantTopic string
	// key and timestamp are nil where the metadata is copied.
	key, timestamp *service.InterpolatedString
	// headersFrom is the metadata key of the header list, empty for no headers.
	headersFrom string
}

func (b *recordBuilder) build(batch service.MessageBatch) ([]kafkasink.Record, error) {
	records := make([]kafkasink.Record, len(batch))
	for i, msg := range batch {
		if err := b.fill(&records[i], batch, i, msg); err != nil {
			return nil, fmt.Errorf("message %d of a batch of %d: %w", i, len(batch), err)
		}
	}
	return records, nil
}

func (b *recordBuilder) fill(r *kafkasink.Record, batch service.MessageBatch, i int, msg *service.Message) (err error) {
	r.Tag, _ = checkpoint.TagFrom(msg.Context())
	if r.Topic = b.constantTopic; r.Topic == "" {
		if r.Topic, err = batch.TryInterpolatedString(i, b.topic); err != nil {
			return fmt.Errorf("topic: %w", err)
		}
	}
	if r.Key, err = b.keyOf(batch, i, msg); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if r.Timestamp, err = b.timestampOf(batch, i, msg); err != nil {
		return fmt.Errorf("timestamp: %w", err)
	}
	if b.headersFrom != "" {
		if list, ok := msg.MetaGetMut(b.headersFrom); ok {
			if r.Headers, err = headers(list); err != nil {
				return fmt.Errorf("headers from @%s: %w", b.headersFrom, err)
			}
		}
	}
	// Rule 9: a null value is not an empty one.
	if isTombstone(msg) {
		return nil
	}
	if r.Value, err = msg.AsBytes(); err != nil {
		return fmt.Errorf("value: %w", err)
	}
	if r.Value == nil {
		r.Value = []byte{}
	}
	return nil
}

func isTombstone(msg *service.Message) bool {
	v, ok := msg.MetaGetMut(metaTombstone)
	if !ok {
		return false
	}
	switch v := v.(type) {
	case bool:
		return v
	case string:
		return v == "true"
	}
	return false
}

// keyOf returns nil for a null key.
func (b *recordBuilder) keyOf(batch service.MessageBatch, i int, msg *service.Message) ([]byte, error) {
	if b.key != nil {
		return batch.TryInterpolatedBytes(i, b.key)
	}
	v, ok := msg.MetaGetMut(metaKey)
	if !ok || v == nil {
		return nil, nil
	}
	return asBytes(v)
}

// asBytes returns what a processor may have made of bytes.
func asBytes(v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		if v == nil {
			return []byte{}, nil
		}
		return v, nil
	case string:
		return []byte(v), nil
	case bool, int, int32, int64, uint32, uint64, float64, json.Number:
		return fmt.Append(nil, v), nil
	}
	return nil, fmt.Errorf("a %T cannot be written as bytes; make it a string first, such as with .string() or .format_json()", v)
}

// timestampOf returns the zero time, which the client replaces by now, where there is none.
func (b *recordBuilder) timestampOf(batch service.MessageBatch, i int, msg *service.Message) (time.Time, error) {
	if b.timestamp != nil {
		s, err := batch.TryInterpolatedString(i, b.timestamp)
		if err != nil {
			return time.Time{}, err
		}
		return parseMillis(s)
	}
	v, ok := msg.MetaGetMut(metaTimestamp)
	if !ok || v == nil {
		return time.Time{}, nil
	}
	if ms, ok := v.(int64); ok {
		return time.UnixMilli(ms), nil
	}
	if f, ok := v.(float64); ok {
		return time.UnixMilli(int64(f)), nil
	}
	return parseMillis(fmt.Sprint(v))
}

func parseMillis(s string) (time.Time, error) {
	ms, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a number of milliseconds since 1970", s)
	}
	return time.UnixMilli(ms), nil
}

// headers reads a list of {key, value}: order and duplicates are kept, a null value is not an empty one (rule 9).
func headers(list any) ([]kgo.RecordHeader, error) {
	entries, ok := list.([]any)
	if !ok {
		if list == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("a %T is not a list of {key, value} objects", list)
	}
	if len(entries) == 0 {
		return nil, nil
	}
	out := make([]kgo.RecordHeader, len(entries))
	for i, e := range entries {
		object, ok := e.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("entry %d is a %T, not a {key, value} object", i, e)
		}
		switch k := object["key"].(type) {
		case string:
			out[i].Key = k
		case []byte:
			out[i].Key = string(k)
		default:
			return nil, fmt.Errorf("entry %d has a key of type %T, not a string", i, k)
		}
		v, ok := object["value"]
		if !ok || v == nil {
			continue
		}
		value, err := asBytes(v)
		if err != nil {
			return nil, fmt.Errorf("entry %d (%q): %w", i, out[i].Key, err)
		}
		out[i].Value = value
	}
	return out, nil
}

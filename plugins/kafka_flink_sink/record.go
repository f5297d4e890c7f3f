package kafkaflinksink

import (
	"fmt"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkasink"
)

// metaTombstone marks a message whose record had a null value.
const metaTombstone = "kafka_tombstone_message"

// Keys of one entry of a header list.
const (
	headerKey   = "key"
	headerValue = "value"
)

// recordBuilder makes records of messages.
type recordBuilder struct {
	topic *service.InterpolatedString
	// constantTopic is the topic where it is the same for every message.
	constantTopic  string
	key, timestamp value
	// headersFrom is the metadata key of the header list, empty for no headers.
	headersFrom string
}

// build makes a record of each message of a batch. Its error is of the first message of which none can be made.
func (b *recordBuilder) build(batch service.MessageBatch) ([]kafkasink.Record, error) {
	records := make([]kafkasink.Record, len(batch))
	for i := range batch {
		if err := b.fill(&records[i], batch, i); err != nil {
			return nil, fmt.Errorf("message %d of a batch of %d: %w", i, len(batch), err)
		}
	}
	return records, nil
}

func (b *recordBuilder) fill(r *kafkasink.Record, batch service.MessageBatch, i int) (err error) {
	msg := batch[i]
	r.Tag, _ = checkpoint.TagFrom(msg.Context())
	if r.Topic = b.constantTopic; r.Topic == "" {
		if r.Topic, err = batch.TryInterpolatedString(i, b.topic); err != nil {
			return fmt.Errorf("`topic`: %w", err)
		}
	}
	if r.Key, err = b.key.bytes(batch, i); err != nil {
		return fmt.Errorf("`key`: %w", err)
	}
	if r.Timestamp, err = b.timestamp.time(batch, i); err != nil {
		return fmt.Errorf("`timestamp`: %w", err)
	}
	if b.headersFrom != "" {
		if list, ok := msg.MetaGetMut(b.headersFrom); ok {
			if r.Headers, err = headers(list); err != nil {
				return fmt.Errorf("`headers.from` @%s: %w", b.headersFrom, err)
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

// headers reads a list of {key, value}: order and duplicates are kept, a null value is not an empty one (rule 9).
func headers(list any) ([]kgo.RecordHeader, error) {
	entries, ok := list.([]any)
	switch {
	case list == nil:
		return nil, nil
	case !ok:
		return nil, fmt.Errorf("a %s is not a list of {key, value} objects", kind(list))
	case len(entries) == 0:
		return nil, nil
	}
	out := make([]kgo.RecordHeader, len(entries))
	for i, e := range entries {
		object, ok := e.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("entry %d is a %s, not a {key, value} object", i, kind(e))
		}
		switch k := object[headerKey].(type) {
		case string:
			out[i].Key = k
		case []byte:
			out[i].Key = string(k)
		default:
			return nil, fmt.Errorf("entry %d has a key that is a %s, not a string", i, kind(k))
		}
		v := object[headerValue]
		if v == nil {
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

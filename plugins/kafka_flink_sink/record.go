package kafkaflinksink

import (
	"fmt"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/benthosx"
	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkasink"
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

// into makes a record of each message of a batch; there must be as many records, all of them zero. Its error is of the
// first message of which none can be made.
func (b *recordBuilder) into(records []kafkasink.Record, batch service.MessageBatch) error {
	for i := range batch {
		if err := b.fill(&records[i], batch, i); err != nil {
			return fmt.Errorf("message %d of a batch of %d: %w", i, len(batch), err)
		}
	}
	return nil
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
		if r.Headers, _, err = benthosx.HeadersFrom(msg, b.headersFrom); err != nil {
			return fmt.Errorf("`headers.from` @%s: %w", b.headersFrom, err)
		}
	}
	r.Value, err = content(msg)
	return err
}

// content is the value of the record, nil for a null one, which is not an empty one (rule 9).
//
// Where a mapping has set the mark, null is meant, whatever the content is. Where it is still the source's, content that
// was made since contradicts it, and either may be what is meant: a mapping that makes events of tombstones and an archive
// that begins with one have left the mark behind, a mapping that adds a field to whatever comes has given content to a
// deletion. Whichever won, the other would be lost without a word, so such a batch is refused.
func content(msg *service.Message) ([]byte, error) {
	value, err := msg.AsBytes()
	if err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	null, err := marked(msg, value)
	switch {
	case err != nil, null:
		return nil, err
	case value == nil:
		return []byte{}, nil
	}
	return value, nil
}

// marked tells whether the message is marked as one with a null value.
func marked(msg *service.Message, content []byte) (bool, error) {
	mark, _ := msg.MetaGetImmut(benthosx.MetaTombstone)
	switch mark := mark.(type) {
	case nil:
		return false, nil
	case benthosx.ReadTombstone:
		if len(content) == 0 {
			return true, nil
		}
		return false, fmt.Errorf("@%[1]s is true, since a record with a null value was read, and the message has content by now, "+
			"%[2]d bytes, and one of them would be lost; to write null set it, by meta %[1]s = true, to write the content remove it, "+
			"by meta %[1]s = deleted()", benthosx.MetaTombstone, len(content))
	case bool:
		return mark, nil
	case string:
		if mark == "true" || mark == "false" {
			return mark == "true", nil
		}
	}
	return false, fmt.Errorf("@%[1]s is %[2]s, and neither true nor false; set true for a null value, or remove it, by "+
		"meta %[1]s = deleted()", benthosx.MetaTombstone, benthosx.Show(mark))
}

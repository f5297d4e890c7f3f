package kafkasink

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// Record is one record to write, with the tag its message carried; the zero Tag where it carried none. The sink keeps it
// until it is acknowledged.
type Record struct {
	kgo.Record
	Tag checkpoint.Tag
}

// TooLargeError says that a record cannot be sent because of its size.
type TooLargeError struct {
	Topic        string
	Bytes, Limit int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("record for topic %q takes %d bytes in a request, more than the %d that Kafka's max.request.size and "+
		"message.max.bytes allow: make it smaller, or drop it before the output", e.Topic, e.Bytes, e.Limit)
}

// TopicError says that a record has no topic it can go to.
type TopicError struct{ Topic string }

func (e *TopicError) Error() string {
	if e.Topic == "" {
		return "`topic` is empty for a record: every record needs one; check what the interpolation refers to"
	}
	return fmt.Sprintf("`topic` is %q for a record: a topic's name is 1 to 249 letters, digits, dots, dashes and underscores; "+
		"check what the interpolation refers to", e.Topic)
}

// check tells what is wrong with any record of a batch, before one of them is produced. It returns the bytes they take
// in the buffer.
func (s *Sink) check(batch []Record) (bytes int64, err error) {
	known := "" // neighbours mostly share a topic
	for i := range batch {
		r := &batch[i].Record
		if r.Topic != known || known == "" {
			if !validTopic(r.Topic) {
				return 0, &TopicError{r.Topic}
			}
			known = r.Topic
		}
		size := userSize(r)
		bytes += size
		// Only a record near the limit is worth a precise look.
		if size+int64(overhead+headerOverhead*len(r.Headers)) > int64(s.limit) {
			if n := batchLength(r); n > s.limit {
				return 0, &TooLargeError{Topic: r.Topic, Bytes: n, Limit: s.limit}
			}
		}
	}
	return bytes, nil
}

func validTopic(name string) bool {
	if name == "" || len(name) > 249 || name == "." || name == ".." {
		return false
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// userSize is what a record takes in the buffer.
func userSize(r *kgo.Record) int64 {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return int64(n)
}

const (
	// batchOverhead is the length of a record batch around its records, in Kafka's v2 format.
	batchOverhead = 61
	// overhead and headerOverhead are upper bounds of what batchLength adds to the size of keys and values.
	overhead       = batchOverhead + 5*5 + 3
	headerOverhead = 2 * 5
)

// clientLimit is the client's limit for a record batch with its length in front, such that the batch alone is never
// longer than the broker takes. The length takes as many bytes as varint says, but four until the client knows the
// broker's version, so that is what a single record must fit into.
func (c Config) clientLimit() (client int32, record int) {
	length := varint(int(c.MaxMessageBytes+1) / 2) // as an unsigned number
	return c.MaxMessageBytes + int32(length), int(c.MaxMessageBytes) + length - 4
}

// batchLength is the length of a batch that holds this record alone, which is the least it can be sent in.
func batchLength(r *kgo.Record) int {
	n := 1 + 1 + 1 // attributes, and the deltas of timestamp and offset, which are 0 for the first record
	n += varbytes(r.Key) + varbytes(r.Value) + varint(len(r.Headers))
	for i := range r.Headers {
		n += varint(len(r.Headers[i].Key)) + len(r.Headers[i].Key) + varbytes(r.Headers[i].Value)
	}
	return batchOverhead + varint(n) + n
}

func varbytes(b []byte) int {
	if b == nil {
		return 1 // the length -1
	}
	return varint(len(b)) + len(b)
}

// varint is the length of a number in Kafka's zigzag encoding.
func varint(n int) int {
	l := 1
	for u := uint64(n) << 1; u >= 0x80; u >>= 7 {
		l++
	}
	return l
}

package benthosx

import "github.com/twmb/franz-go/pkg/kgo"

// Metadata by which the sink makes of a message the record that the source has read. docs/metadata.md is the contract.
const (
	MetaKey       = "kafka_key"
	MetaHeaders   = "kafka_headers"
	MetaTimestamp = "kafka_timestamp_ms"
	MetaTombstone = "kafka_tombstone_message"
)

// Fields of an entry of a header list.
const (
	HeaderKey   = "key"
	HeaderValue = "value"
)

// ReadTombstone is the mark of a null value as the source sets it. Mappings see true, and what they set is true itself, so
// the sink can tell a mark that was left behind from one that somebody means.
type ReadTombstone struct{}

// Copy makes the value that mappings see.
func (ReadTombstone) Copy() any { return true }

// Headers are the headers of a record as the source hands them on, in order and with duplicates (rule 9). Copies of a
// message share the value, so nobody may change it; who asks for it in a mapping gets a list of its own, which is only
// made then.
type Headers []kgo.RecordHeader

// Copy makes the list that mappings see: an object of key, a string, and value, bytes or null, for each header. The
// bytes are shared: no processor changes bytes in place.
func (h Headers) Copy() any {
	list := make([]any, len(h))
	for i := range h {
		var value any
		if h[i].Value != nil {
			value = h[i].Value
		}
		list[i] = map[string]any{HeaderKey: h[i].Key, HeaderValue: value}
	}
	return list
}

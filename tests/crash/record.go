package crash

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// numberHeader names a record: its partition and its number there, as "2:1041".
const numberHeader = "number"

// laneHeader tells the last digit of the number.
const laneHeader = "lane"

// record returns record n of a partition, always the same for the same time of the first one. Null and empty keys,
// values and header values occur, headers with one name twice, with an empty name, and with the names of the metadata
// that a source sets.
func record(topic string, partition int32, n int64, began time.Time) *kgo.Record {
	r := &kgo.Record{
		Topic: topic, Partition: partition, Timestamp: began.Add(time.Duration(n) * time.Millisecond),
		Headers: []kgo.RecordHeader{
			{Key: numberHeader, Value: []byte(fmt.Sprintf("%d:%d", partition, n))},
			{Key: "hop", Value: []byte("first")},
			{Key: "hop", Value: []byte{0xff, 0x00, 0xfe}},
			{Key: "hop", Value: []byte("first")},
			{Key: "empty", Value: []byte{}},
			{Key: "null", Value: nil},
			{Key: "", Value: []byte("no name")},
			{Key: "kafka_topic", Value: []byte("not this one")},
			{Key: "kafka_key", Value: []byte("nor this")},
			{Key: laneHeader, Value: strconv.AppendInt(nil, n%10, 10)},
		},
	}
	switch n % 7 {
	case 0:
		r.Key = nil
	case 1:
		r.Key = []byte{}
	default:
		r.Key = []byte(fmt.Sprintf("key-%d-%d", partition, n%13))
	}
	switch n % 11 {
	case 0:
		r.Value = nil
	case 1:
		r.Value = []byte{}
	case 2:
		r.Value = bytes.Repeat([]byte{0x00, 0xc3, 0x28, byte(n)}, 512) // no UTF-8, and longer than the others
	default:
		r.Value = []byte(fmt.Sprintf(`{"partition":%d,"n":%d}`, partition, n))
	}
	return r
}

// numberOf reads a record's partition and number from its header.
func numberOf(r *kgo.Record) (partition int32, n int64, err error) {
	for _, h := range r.Headers {
		if h.Key != numberHeader {
			continue
		}
		partition, n, err := parseNumber(string(h.Value))
		if err != nil {
			return 0, 0, fmt.Errorf("header %s: %w", numberHeader, err)
		}
		return partition, n, nil
	}
	return 0, 0, fmt.Errorf("no header %s", numberHeader)
}

// parseNumber reads the name of a record, such as "2:1041".
func parseNumber(text string) (partition int32, n int64, err error) {
	left, right, _ := strings.Cut(text, ":")
	p, err := strconv.ParseInt(left, 10, 32)
	if err == nil {
		n, err = strconv.ParseInt(right, 10, 64)
	}
	if err != nil || p < 0 || n < 0 {
		return 0, 0, fmt.Errorf("%q is no partition and number", text)
	}
	return int32(p), n, nil
}

// difference tells the first way in which a copy is not its original; empty where it is one. Null and empty differ.
func difference(original, copied *kgo.Record) string {
	switch {
	case !same(original.Key, copied.Key):
		return fmt.Sprintf("key is %s, not %s", show(copied.Key), show(original.Key))
	case !same(original.Value, copied.Value):
		return fmt.Sprintf("value is %s, not %s", show(copied.Value), show(original.Value))
	case original.Timestamp.UnixMilli() != copied.Timestamp.UnixMilli():
		return fmt.Sprintf("timestamp is %d, not %d", copied.Timestamp.UnixMilli(), original.Timestamp.UnixMilli())
	case len(original.Headers) != len(copied.Headers):
		return fmt.Sprintf("%d headers, not %d", len(copied.Headers), len(original.Headers))
	}
	for i, h := range original.Headers {
		if got := copied.Headers[i]; got.Key != h.Key || !same(got.Value, h.Value) {
			return fmt.Sprintf("header %d is %q=%s, not %q=%s", i, got.Key, show(got.Value), h.Key, show(h.Value))
		}
	}
	return ""
}

func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func show(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case len(b) > 80:
		return fmt.Sprintf("%q… (%d bytes)", b[:80], len(b))
	}
	return strconv.Quote(string(b))
}

package devbroker

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// NumberHeader is the header that holds a numbered record's number, in decimal.
const NumberHeader = "n"

// keysPerPartition is how many different keys the records of one partition have.
const keysPerPartition = 250

// Load is a number of records, numbered from 0, to be written to a topic.
type Load struct {
	Topic string
	// Partitions is the topic's partition count: record n goes to partition n modulo it.
	Partitions int32
	Records    int64
	// Began is the timestamp of record 0; each further record is a millisecond younger.
	Began time.Time
}

// Record returns record n. Its key is one of 250 of its partition, so records of one key are ordered by number in the
// log; its value is a JSON object; its headers are the number, a key that occurs twice, an empty and a null value.
func (l Load) Record(n int64) *kgo.Record {
	keys := int64(l.Partitions) * keysPerPartition
	customer := fmt.Sprintf("customer-%05d", n%keys)
	status := "paid"
	if Cancelled(n) {
		status = "cancelled"
	}
	value := make([]byte, 0, 96)
	value = append(value, `{"n":`...)
	value = strconv.AppendInt(value, n, 10)
	value = append(value, `,"customer":"`...)
	value = append(value, customer...)
	value = append(value, `","status":"`...)
	value = append(value, status...)
	value = append(value, `","cents":`...)
	value = strconv.AppendInt(value, Cents(n), 10)
	value = append(value, '}')
	return &kgo.Record{
		Topic:     l.Topic,
		Partition: int32(n % int64(l.Partitions)),
		Key:       []byte(customer),
		Value:     value,
		Timestamp: l.Began.Add(time.Duration(n) * time.Millisecond),
		Headers: []kgo.RecordHeader{
			{Key: NumberHeader, Value: strconv.AppendInt(nil, n, 10)},
			{Key: "hop", Value: []byte("shop")},
			{Key: "hop", Value: []byte("gateway")},
			{Key: "empty", Value: []byte{}},
			{Key: "null", Value: nil},
		},
	}
}

// Cancelled tells whether record n says that its order was cancelled: one in ten does.
func Cancelled(n int64) bool { return n%10 == 3 }

// Cents is the amount that record n says, between 1 and 9999.
func Cents(n int64) int64 { return (n*7919)%9999 + 1 }

// Run writes the records and returns once the broker has acknowledged every one.
func (l Load) Run(ctx context.Context, bootstrap []string) error {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(5*time.Millisecond),
		kgo.MaxBufferedRecords(50_000),
	)
	if err != nil {
		return fmt.Errorf("loading topic %q: %w", l.Topic, err)
	}
	defer cl.Close()
	failed := make(chan error, 1)
	for n := range l.Records {
		cl.Produce(ctx, l.Record(n), func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default: // the first error tells enough
				}
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return fmt.Errorf("loading topic %q: %w", l.Topic, err)
	}
	select {
	case err := <-failed:
		return fmt.Errorf("loading topic %q: %w", l.Topic, err)
	default:
		return nil
	}
}

// Number returns the number of a numbered record, from its header.
func Number(r *kgo.Record) (int64, error) {
	for _, h := range r.Headers {
		if h.Key == NumberHeader {
			n, err := strconv.ParseInt(string(h.Value), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("header %q: %w", NumberHeader, err)
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("no header %q", NumberHeader)
}

// SameEnvelope tells how a copy's key, headers or timestamp differ from those of record n: null, empty and absent are
// different, and headers are an ordered list.
func (l Load) SameEnvelope(n int64, r *kgo.Record) error {
	want := l.Record(n)
	if !sameBytes(want.Key, r.Key) {
		return fmt.Errorf("key is %s, not %s", show(r.Key), show(want.Key))
	}
	if r.Timestamp.UnixMilli() != want.Timestamp.UnixMilli() {
		return fmt.Errorf("timestamp is %d, not %d", r.Timestamp.UnixMilli(), want.Timestamp.UnixMilli())
	}
	if len(r.Headers) != len(want.Headers) {
		return fmt.Errorf("%d headers, not %d", len(r.Headers), len(want.Headers))
	}
	for i, h := range want.Headers {
		if got := r.Headers[i]; got.Key != h.Key || !sameBytes(got.Value, h.Value) {
			return fmt.Errorf("header %d is %s=%s, not %s=%s", i, got.Key, show(got.Value), h.Key, show(h.Value))
		}
	}
	return nil
}

func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func show(b []byte) string {
	if b == nil {
		return "null"
	}
	return strconv.Quote(string(b))
}

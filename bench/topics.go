package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	partitions = 4
	keyBytes   = 8
	valueBytes = 100
	inputTopic = "bench-in"
)

// bench is the broker with its topics.
type bench struct {
	settings
	dir       string
	bootstrap []string
	broker    int // its process
	client    *kgo.Client
	admin     *kadm.Client
}

func (b *bench) open() (err error) {
	if b.client, err = kgo.NewClient(kgo.SeedBrokers(b.bootstrap...), kgo.MetadataMinAge(lookEvery)); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	b.admin = kadm.NewClient(b.client)
	return nil
}

func (b *bench) close() { b.client.Close() }

// create makes a topic, and returns once its brokers know it.
func (b *bench) create(ctx context.Context, name string) error {
	if _, err := b.admin.CreateTopic(ctx, partitions, 1, nil, name); err != nil {
		return fmt.Errorf("creating topic %s: %w", name, err)
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		_, err := total(b.admin.ListEndOffsets(ctx, name))
		if err == nil || !kerr.IsRetriable(err) {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fillValue makes the value of record n, which holds its number and is otherwise different in every byte of a record.
func fillValue(value []byte, n int64) {
	binary.BigEndian.PutUint64(value, uint64(n))
	for i := keyBytes; i < valueBytes; i++ {
		value[i] = byte(i) ^ byte(n)
	}
}

// load writes the records: number n to partition n modulo their count, with n as the key.
func (b *bench) load(ctx context.Context) error {
	if err := b.create(ctx, inputTopic); err != nil {
		return err
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(b.bootstrap...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(10*time.Millisecond),
		kgo.MaxBufferedRecords(100_000),
	)
	if err != nil {
		return fmt.Errorf("making a producer: %w", err)
	}
	defer client.Close()
	failed := make(chan error, 1)
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			select {
			case failed <- err:
			default: // the first tells enough
			}
		}
	}
	for n := range b.records {
		data := make([]byte, keyBytes+valueBytes)
		binary.BigEndian.PutUint64(data, uint64(n))
		fillValue(data[keyBytes:], n)
		client.Produce(ctx, &kgo.Record{
			Topic: inputTopic, Partition: int32(n % partitions), Key: data[:keyBytes:keyBytes], Value: data[keyBytes:],
		}, promise)
	}
	if err := client.Flush(ctx); err != nil {
		return fmt.Errorf("filling topic %s: %w", inputTopic, err)
	}
	select {
	case err := <-failed:
		return fmt.Errorf("filling topic %s: %w", inputTopic, err)
	default:
		return nil
	}
}

// verify reads a copy as its readers do, and fails unless each record is there once, as it was written, and in the order
// of its partition.
func (b *bench) verify(ctx context.Context, topic string) error {
	ends, err := b.admin.ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("looking up the end of %s: %w", topic, err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.bootstrap...), kgo.ConsumeTopics(topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		return fmt.Errorf("making a consumer: %w", err)
	}
	defer client.Close()
	a := newAudit(b.records)
	left := make(map[int32]int64)
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("reading %s: %w", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				a.see(r)
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return a.err()
}

// audit counts what a copy holds.
type audit struct {
	seen []bool
	last [partitions][partitions]int64 // the highest number by partition of the input and of the copy, plus one
	want [valueBytes]byte

	lost, doubled, altered, disordered int64
}

func newAudit(records int64) *audit { return &audit{seen: make([]bool, records)} }

func (a *audit) see(r *kgo.Record) {
	if len(r.Key) != keyBytes || len(r.Value) != valueBytes || len(r.Headers) > 0 {
		a.altered++
		return
	}
	n := int64(binary.BigEndian.Uint64(r.Key))
	if n < 0 || n >= int64(len(a.seen)) {
		a.altered++
		return
	}
	if fillValue(a.want[:], n); !bytes.Equal(a.want[:], r.Value) {
		a.altered++
	}
	if a.seen[n] {
		a.doubled++
		return
	}
	a.seen[n] = true
	last := &a.last[n%partitions][r.Partition]
	if n < *last {
		a.disordered++
	}
	*last = max(*last, n+1)
}

func (a *audit) err() error {
	a.lost = 0
	for _, seen := range a.seen {
		if !seen {
			a.lost++
		}
	}
	if !slices.ContainsFunc([]int64{a.lost, a.doubled, a.altered, a.disordered}, func(n int64) bool { return n > 0 }) {
		return nil
	}
	return fmt.Errorf("the copy is not one: of %d records %d are lost, %d doubled, %d altered, %d out of order",
		len(a.seen), a.lost, a.doubled, a.altered, a.disordered)
}

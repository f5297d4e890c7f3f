package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	bootstrap := flag.String("bootstrap", "localhost:9092", "addresses of brokers, separated by commas")
	in := flag.String("in", "", "the topic that is copied, from its start")
	out := flag.String("out", "", "the topic that it is copied to; also the transactional id")
	records := flag.Int64("records", 0, "how many records are copied")
	flag.Parse()
	if err := run(context.Background(), strings.Split(*bootstrap, ","), *in, *out, *records); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run copies records. The client's settings are its own, but for those that have to be the same everywhere: no
// compression, Kafka's partitioner, and a bound on what is buffered.
func run(ctx context.Context, bootstrap []string, in, out string, records int64) error {
	consumer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.ConsumeTopics(in),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer consumer.Close()
	producer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.TransactionalID(out), kgo.DefaultProduceTopic(out),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(50_000))
	if err != nil {
		return err
	}
	defer producer.Close()
	var failed atomic.Pointer[error]
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			failed.CompareAndSwap(nil, &err)
		}
	}
	for copied := int64(0); copied < records; {
		if err := producer.BeginTransaction(); err != nil {
			return err
		}
		for end := time.Now().Add(time.Second); copied < records && time.Now().Before(end); {
			fetches := consumer.PollRecords(ctx, 1000)
			if err := fetches.Err(); err != nil {
				return err
			}
			fetches.EachRecord(func(r *kgo.Record) {
				r.Topic = out
				producer.Produce(ctx, r, promise)
				copied++
			})
		}
		if err := producer.Flush(ctx); err != nil {
			return err
		}
		if err := failed.Load(); err != nil {
			return *err
		}
		if err := producer.EndTransaction(ctx, kgo.TryCommit); err != nil {
			return errors.Join(errors.New("committing"), err)
		}
	}
	return nil
}

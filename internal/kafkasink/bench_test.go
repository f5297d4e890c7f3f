package kafkasink

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// BenchmarkExactlyOnce writes records of 108 bytes in batches of 1,000 to four partitions, one transaction a second.
func BenchmarkExactlyOnce(b *testing.B) {
	cluster := realkafka.Start(b, realkafka.Options{JVM: []string{"-Xmx1g"}})
	s := New(Config{
		Guarantee: ExactlyOnce, Stream: ours, Seat: newSeat(), Client: []kgo.Opt{kgo.SeedBrokers(cluster.Bootstrap()...)},
		Pool: checkpoint.Pool{Prefix: "bench", Size: 4},
	})
	defer s.Close()
	topic := cluster.Topic(b, 4)
	_, err := s.Connect(b.Context())
	require.NoError(b, err)
	s.Start(tag(1), 0)
	next := int32(0)
	value := make([]byte, 100)
	b.SetBytes(108)
	b.ReportAllocs()
	last := time.Now()
	barrier := func() {
		require.NoError(b, s.Flush(b.Context()))
		next = (next + 1) % 4
		c, err := s.Seal(next)
		require.NoError(b, err)
		if c != nil {
			_, err = s.Commit(b.Context(), *c)
			require.NoError(b, err)
		}
		last = time.Now()
	}
	for n := 0; n < b.N; n += 1000 {
		batch := make([]Record, 1000)
		for i := range batch {
			batch[i] = Record{Record: kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "%08d", n+i), Value: value}, Tag: tag(1)}
		}
		require.NoError(b, s.WriteBatch(b.Context(), batch))
		if time.Since(last) > time.Second {
			barrier()
		}
	}
	barrier()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rec/s")
}

// BenchmarkBareClient is the same without the sink: the floor.
func BenchmarkBareClient(b *testing.B) {
	cluster := realkafka.Start(b, realkafka.Options{JVM: []string{"-Xmx1g"}})
	topic := cluster.Topic(b, 4)
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.Bootstrap()...), kgo.TransactionalID("bare"), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(50_000), kgo.DisableClientMetrics())
	require.NoError(b, err)
	defer cl.Close()
	require.NoError(b, cl.BeginTransaction())
	value := make([]byte, 100)
	b.SetBytes(108)
	b.ReportAllocs()
	last := time.Now()
	barrier := func() {
		require.NoError(b, cl.Flush(b.Context()))
		require.NoError(b, cl.EndTransaction(b.Context(), kgo.TryCommit))
		require.NoError(b, cl.BeginTransaction())
		last = time.Now()
	}
	for n := 0; n < b.N; n += 1000 {
		batch := make([]kgo.Record, 1000)
		for i := range batch {
			batch[i] = kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "%08d", n+i), Value: value}
			cl.Produce(b.Context(), &batch[i], nil)
		}
		if time.Since(last) > time.Second {
			barrier()
		}
	}
	barrier()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rec/s")
}

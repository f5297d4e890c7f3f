package kafkasource

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// TestARecordLargerThanAnySizeArrives has a topic that takes larger records than a fetch asks for, and than is read ahead: a
// batch that is larger than the limits comes alone (KIP-74).
func TestARecordLargerThanAnySizeArrives(t *testing.T) {
	kafka := realkafka.Shared(t)
	b := brokerAt(t, kafka.Bootstrap())
	noise := make([]byte, 24<<20)
	fillNoise(noise)
	for name, tc := range map[string]struct {
		properties map[string]any
		size       int
		codec      kgo.CompressionCodec
	}{
		"8 MB, 1 KB asked for":          {map[string]any{"fetch.max.bytes": 1024, "max.partition.fetch.bytes": 1024}, 8 << 20, kgo.NoCompression()},
		"8 MB, compressed":              {map[string]any{"fetch.max.bytes": 1024, "max.partition.fetch.bytes": 1024}, 8 << 20, kgo.Lz4Compression()},
		"8 MB, 1 MB asked for":          {map[string]any{"fetch.max.bytes": 1 << 20, "max.partition.fetch.bytes": 1 << 20}, 8 << 20, kgo.NoCompression()},
		"8 MB, nothing set":             {nil, 8 << 20, kgo.NoCompression()},
		"more than is read ahead":       {nil, readAheadBytes + 1<<20, kgo.NoCompression()},
		"more than that, by its packed": {nil, readAheadBytes + 1<<20, kgo.ZstdCompression()},
	} {
		t.Run(name, func(t *testing.T) {
			topic := kafka.Topic(t, 2, "max.message.bytes", fmt.Sprint(32<<20))
			large := noise[:tc.size]
			client, err := kgo.NewClient(kgo.SeedBrokers(b.servers...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
				kgo.ProducerBatchMaxBytes(32<<20), kgo.MaxBufferedBytes(64<<20), kgo.ProducerBatchCompression(tc.codec))
			require.NoError(t, err)
			defer client.Close()
			for p := range int32(2) {
				for _, value := range [][]byte{[]byte("before"), large, large, []byte("behind")} {
					require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: p, Value: value}).FirstErr())
				}
			}
			cfg := baseConfig(b.servers, topic)
			var errs []error
			cfg.Connection.Properties, errs = kafkaclient.NewProperties(kafkaclient.Source, tc.properties)
			require.Empty(t, errs)
			s := newSource(t, cfg)
			s.resolve(nil)
			next := map[int32]int64{}
			for next[0] < 4 || next[1] < 4 {
				batch := s.next()
				for _, r := range batch.Records {
					require.Equal(t, next[r.Partition], r.Offset)
					next[r.Partition]++
					switch r.Offset {
					case 0:
						require.Equal(t, "before", string(r.Value))
					case 3:
						require.Equal(t, "behind", string(r.Value))
					default:
						require.True(t, bytes.Equal(large, r.Value), "partition %d, offset %d: %d bytes", r.Partition, r.Offset, len(r.Value))
					}
				}
				batch.Ack(t.Context(), nil)
			}
			require.Empty(t, s.seat.failed)
			require.Empty(t, s.seat.fatal)
		})
	}
}

// fillNoise makes bytes that no codec makes smaller.
func fillNoise(b []byte) {
	r := rand.NewChaCha8([32]byte{})
	_, _ = r.Read(b)
}

// TestAnAnswerLargerThanTheClientTakesEndsTheStream: the client says of no partition that it will never get past it.
func TestAnAnswerLargerThanTheClientTakesEndsTheStream(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	noise := make([]byte, 900_000)
	fillNoise(noise)
	b.produce("a", 0, string(noise))
	cfg := baseConfig(b.servers, "a")
	s := newSource(t, cfg)
	s.resolve(nil)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.servers...), kgo.FetchMaxBytes(10_000), kgo.BrokerMaxReadBytes(100_000),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"a": {0: kgo.NewOffset().AtStart()}}))
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	fetches := client.PollFetches(ctx)
	s.mu.Lock()
	a := s.att
	failed := a.accept(fetches, false)
	s.mu.Unlock()
	s.reportFetchErrors(t.Context(), a, failed)
	require.ErrorContains(t, receive(t, s.seat.fatal, "the end"), "set properties.fetch.max.bytes to half of the batch's size")
	require.Empty(t, s.seat.failed)
}

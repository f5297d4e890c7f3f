package kafkasource

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// fill writes records that are told by the number at their beginning, so many to each partition.
func fill(t testing.TB, servers []string, topic string, partitions int32, each, size int, codec kgo.CompressionCodec) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(servers...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(20*time.Millisecond), kgo.MaxBufferedBytes(32<<20))
	require.NoError(t, err)
	defer client.Close()
	padding := bytes.Repeat([]byte{'x'}, size)
	for n := range each {
		for p := range partitions {
			value := fmt.Appendf(nil, "%d ", n)
			value = append(value, padding[:max(0, size-len(value))]...)
			client.Produce(t.Context(), &kgo.Record{Topic: topic, Partition: p, Value: value}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Errorf("writing: %v", err)
				}
			})
		}
	}
	require.NoError(t, client.Flush(t.Context()))
}

// TestReadAheadIsBoundedWhateverRecordsTakeUnpacked reads topics that would fill the memory if the bytes on the wire were
// all that is bounded, and looks at what the client holds before each batch.
func TestReadAheadIsBoundedWhateverRecordsTakeUnpacked(t *testing.T) {
	const partitions = 4
	for name, tc := range map[string]struct {
		codec      kgo.CompressionCodec
		each, size int
	}{
		"a thousand to one":        {kgo.ZstdCompression(), 20_000, 1000},
		"large, a thousand to one": {kgo.GzipCompression(), 30, 900_000},
		"large":                    {kgo.NoCompression(), 24, 900_000},
		"tiny":                     {kgo.SnappyCompression(), 60_000, 8},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(partitions, "a"), kfake.ClusterID("fake"))
			require.NoError(t, err)
			t.Cleanup(c.Close)
			fill(t, c.ListenAddrs(), "a", partitions, tc.each, tc.size, tc.codec)
			s := newSource(t, baseConfig(c.ListenAddrs(), "a"))
			s.resolve(nil)
			a := s.att
			next, most := make([]int, partitions), int64(0)
			for left := partitions * tc.each; left > 0; {
				b := s.next()
				most = max(most, a.client.BufferedFetchBytes()+a.client.BufferedFetchRecords()*recordOverhead)
				taken := 0
				for _, r := range b.Records {
					word, _, _ := bytes.Cut(r.Value, []byte(" "))
					require.Equal(t, strconv.Itoa(next[r.Partition]), string(word), "partition %d", r.Partition)
					next[r.Partition]++
					taken += len(r.Value)
				}
				if left < partitions*tc.each { // of the first one nobody knows
					require.LessOrEqual(t, taken, 2*maxBatchBytes, "a batch")
				}
				left -= len(b.Records)
				b.Ack(t.Context(), nil)
			}
			// Each broker may have begun to unpack one more batch, of up to 1 MB.
			require.LessOrEqual(t, most, int64(readAheadBytes+3<<20))
			require.Empty(t, s.seat.failed)
			require.Empty(t, s.seat.fatal)
		})
	}
}

// TestFetchSizesOfTheConfigAreTheMost: what the user has set is never exceeded, and a size above the read-ahead raises it.
func TestFetchSizesOfTheConfigAreTheMost(t *testing.T) {
	for name, tc := range map[string]struct {
		set               []kgo.Opt
		bytes, ofOne      int32
		small, smallOfOne int32 // where records take a thousand times what is on the wire
	}{
		"1 MB":  {[]kgo.Opt{kgo.FetchMaxBytes(1 << 20), kgo.FetchMaxPartitionBytes(1 << 20)}, 1 << 20, 1 << 20, 17 << 10, 17 << 10},
		"none":  {nil, fetchMaxBytes, fetchMaxPartitionBytes, 17 << 10, 17 << 10},
		"both":  {[]kgo.Opt{kgo.FetchMaxBytes(2 << 20), kgo.FetchMaxPartitionBytes(20 << 10)}, 2 << 20, 20 << 10, 17 << 10, 20 << 10},
		"large": {[]kgo.Opt{kgo.FetchMaxBytes(60 << 20), kgo.FetchMaxPartitionBytes(30 << 20)}, 60 << 20, 30 << 20, 61 << 10, 61 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReadAhead(readAheadBytes, kgo.DefaultDecompressor())
			client, err := kgo.NewClient(append(r.options(), tc.set...)...)
			require.NoError(t, err)
			defer client.Close()
			sizes := func() [2]int32 {
				return [2]int32{client.OptValue(kgo.FetchMaxBytes).(int32), client.OptValue(kgo.FetchMaxPartitionBytes).(int32)}
			}
			r.OnFetchBatchRead(kgo.BrokerMetadata{NodeID: 1}, "a", 0, kgo.FetchBatchMetrics{NumRecords: 1, CompressedBytes: 4 << 20, UncompressedBytes: 4 << 20})
			got := sizes()
			require.InEpsilon(t, tc.bytes, got[0], 0.01)
			require.InEpsilon(t, tc.ofOne, got[1], 0.01)
			for range 40 {
				r.OnFetchBatchRead(kgo.BrokerMetadata{NodeID: 1}, "a", 0, kgo.FetchBatchMetrics{NumRecords: 1, CompressedBytes: 1 << 20, UncompressedBytes: 1000 << 20})
			}
			got = sizes()
			require.InEpsilon(t, tc.small, got[0], 0.3)
			require.InEpsilon(t, tc.smallOfOne, got[1], 0.3)
		})
	}
}

// TestReadAheadOfABrokerThatIsGoneIsForgotten: it takes no part of the budget for ever.
func TestReadAheadOfABrokerThatIsGoneIsForgotten(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(1, "a"), kfake.ClusterID("fake"))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	require.NoError(t, c.MoveTopicPartition("a", 0, 0))
	fill(t, c.ListenAddrs(), "a", 1, 40_000, 1000, kgo.ZstdCompression())
	s := newSource(t, baseConfig(c.ListenAddrs(), "a"))
	s.resolve(nil)
	read := 0
	for read < 1000 {
		b := s.next()
		read += len(b.Records)
		b.Ack(t.Context(), nil)
	}
	require.NoError(t, c.MoveTopicPartition("a", 0, 1))
	for read < 40_000 {
		b := s.next()
		read += len(b.Records)
		b.Ack(t.Context(), nil)
	}
}

// TestRefusedBatchIsFetchedAgain: the first batch of an answer is not unpacked while others fill the memory, and comes
// when they are gone.
func TestRefusedBatchIsFetchedAgain(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	fill(t, b.servers, "a", 1, 100, 1000, kgo.Lz4Compression())
	s := newSource(t, baseConfig(b.servers, "a"))
	state, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	s.Start(tag(1), state)
	s.mu.Lock()
	ahead := s.att.ahead
	s.mu.Unlock()
	ahead.mu.Lock()
	ahead.held[99], ahead.unpacked = readAheadBytes, time.Now() // a broker that sends no more
	ahead.total += readAheadBytes
	ahead.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	read := 0
	for read < 100 {
		batch, err := s.Next(ctx)
		require.NoError(t, err)
		read += len(batch.Records)
		batch.Ack(ctx, nil)
	}
	require.Empty(t, s.seat.failed)
}

package kafkasource

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/internal/offsets"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// damages are what a log may suffer in the first batch that holds one record, by what becomes of it.
var damages = map[string]struct {
	place int64
	mask  byte
	says  string
}{
	"a changed value":             {place: realkafka.BatchRecords + 6, mask: 2, says: "encoded crc"},
	"another version":             {place: realkafka.BatchMagic, mask: 4, says: "unknown magic 6"},
	"a length that is too short":  {place: realkafka.BatchLength + 3, mask: 0x3f, says: "CORRUPT_MESSAGE"},
	"a negative length":           {place: realkafka.BatchLength, mask: 0x80, says: "CORRUPT_MESSAGE"},
	"a length into the next":      {place: realkafka.BatchLength + 3, mask: 0x40, says: "encoded crc"},
	"a record count without them": {place: 59, mask: 1, says: "encoded crc"},
}

// corruptSource reads a topic of two partitions, in partition 0 of which the batch of offset 2 is damaged.
func corruptSource(t *testing.T, b *broker, topic string, change func(*Config)) *source {
	t.Helper()
	cfg := baseConfig(b.servers, topic)
	cfg.EndInterval = 100 * time.Millisecond
	if change != nil {
		change(&cfg)
	}
	return newSource(t, cfg)
}

// writeDamaged writes 0 and 1, 2, 3 in three batches of partition 0, and damages the second.
func writeDamaged(t *testing.T, kafka *realkafka.Cluster, b *broker, place int64, mask byte) (topic string, repair func()) {
	t.Helper()
	topic = kafka.Topic(t, 2)
	b.produce(topic, 0, "0", "1")
	b.produce(topic, 0, "2")
	b.produce(topic, 0, "3")
	b.produce(topic, 1, "other")
	return topic, kafka.Damage(t, 0, topic, 0, 1, place, mask)
}

// TestACorruptBatchEndsTheStreamAfterThreeTriesWithEverythingBeforeItCommitted: nothing is skipped, other partitions go on until
// then, and what the client asks for again and again in silence is found too.
func TestACorruptBatchEndsTheStreamAfterThreeTriesWithEverythingBeforeItCommitted(t *testing.T) {
	kafka := realkafka.Shared(t)
	b := brokerAt(t, kafka.Bootstrap())
	for name, tc := range damages {
		t.Run(name, func(t *testing.T) {
			topic, repair := writeDamaged(t, kafka, b, tc.place, tc.mask)
			s := corruptSource(t, b, topic, nil)
			s.resolve(nil)
			require.ElementsMatch(t, []string{topic + "-0@0=0", topic + "-0@1=1", topic + "-1@0=other"}, s.read(3))
			waiting := s.background()
			b.produce(topic, 1, "goes on")
			got := receive(t, waiting, "a record of the other partition")
			require.Equal(t, "goes on", string(got.Records[0].Value))
			got.Ack(t.Context(), nil)
			waiting = s.background()
			require.Eventually(t, func() bool { return strings.Contains(s.log.String(), "what was read before it is committed first") }, patience, time.Millisecond)
			stays(t, s.seat.failed)

			state := s.pause()
			require.Equal(t, []int64{2, 2}, offsetsOf(state))
			for attempt := uint64(1); attempt < corruptTries; attempt++ {
				f := receive(t, s.seat.failed, "the failure")
				require.Equal(t, tag(attempt), f.tag)
				require.ErrorContains(t, f.cause, "the batch there is corrupt")
				s.Start(tag(attempt+1), state)
			}
			err := receive(t, s.seat.fatal, "the end")
			require.ErrorContains(t, err, fmt.Sprintf("fetching %s-0 at offset 2: the batch there is corrupt in the log of its leader, broker 1: ", topic))
			require.ErrorContains(t, err, tc.says)
			require.ErrorContains(t, err, "Nothing of it is skipped.")
			require.ErrorContains(t, err, "kafka-delete-records.sh up to there, and checkpoint.on_restore_out_of_range: earliest")
			require.ErrorContains(t, err, "it was read 3 times")
			stays(t, waiting)

			repair()
			whole := corruptSource(t, b, topic, nil)
			whole.resolve(&state)
			require.Equal(t, []string{topic + "-0@2=2", topic + "-0@3=3"}, whole.read(2))
		})
	}
}

// TestWhatIsCorruptBehindTheStopIsOfNoConcern: a fetch brings more than is to be read.
func TestWhatIsCorruptBehindTheStopIsOfNoConcern(t *testing.T) {
	b := fakeBroker(t, 2, "a")
	s := newSource(t, baseConfig(b.servers, "a"))
	state, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	state.Splits[0].Stop, state.Splits[1].Stop = 0, 5
	s.Start(tag(1), state)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, due := range []bool{false, true} {
		split := s.att.splits[i]
		s.att.block(split, split.pos.Offset, kerr.CorruptMessage)
		c, _ := s.att.corruptDue(false)
		require.Equal(t, due, c != nil)
	}
}

// corruptNearby damages the copy of the replica that is read for its rack, in a way of which the client says nothing. The leader
// has the batch whole, and is read where there is no rack.
func corruptNearby(t *testing.T, kafka *realkafka.Cluster, b *broker, near int32, cfg Config) {
	t.Helper()
	topic := realkafka.Name(t)
	b.led(topic, near%3+1)
	cfg.Subscription.Topics, cfg.EndInterval = []string{topic}, 100*time.Millisecond
	for _, value := range []string{"0", "1", "2"} {
		b.produce(topic, 0, value)
	}
	kafka.Damage(t, int(near)-1, topic, 0, 1, realkafka.BatchLength+3, 0x3f)
	s := newSource(t, cfg)
	state, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	state.Splits[0].Offset = 1
	s.Start(tag(1), state)
	waiting := s.background()
	f := receive(t, s.seat.failed, "the failure")
	require.ErrorContains(t, f.cause, fmt.Sprintf("corrupt in the log of broker %d, which is read for its rack (the leader is broker %d): ", near, near%3+1))
	require.ErrorContains(t, f.cause, "let a replica that is whole lead the partition, and remove rack")
	stays(t, waiting)
	cfg.Rack = ""
	whole := newSource(t, cfg)
	whole.resolve(&state)
	require.Equal(t, []string{topic + "-0@1=1", topic + "-0@2=2"}, whole.read(2))
}

// TestALengthBeyondTheLogIsWarnedOf: the broker then sends nothing at all, as it does to one whom a quota holds up. The stream
// goes on with other partitions, and with this one once it is mended.
func TestALengthBeyondTheLogIsWarnedOf(t *testing.T) {
	kafka := realkafka.Shared(t)
	b := brokerAt(t, kafka.Bootstrap())
	topic, repair := writeDamaged(t, kafka, b, realkafka.BatchLength+1, 0x40)
	s := corruptSource(t, b, topic, nil)
	s.resolve(nil)
	require.ElementsMatch(t, []string{topic + "-0@0=0", topic + "-0@1=1", topic + "-1@0=other"}, s.read(3))
	waiting := s.background()
	require.Eventually(t, func() bool {
		return strings.Contains(s.log.String(), "returns nothing between the position and the end of the log")
	}, patience, time.Millisecond)
	b.produce(topic, 1, "goes on")
	got := receive(t, waiting, "a record of the other partition")
	require.Equal(t, "goes on", string(got.Records[0].Value))
	got.Ack(t.Context(), nil)
	repair()
	require.Equal(t, []string{topic + "-0@2=2", topic + "-0@3=3"}, s.read(2))
	require.Empty(t, s.seat.failed)
}

// TestTheWaysOutOfACorruptBatch: what the error names works.
func TestTheWaysOutOfACorruptBatch(t *testing.T) {
	kafka := realkafka.Shared(t)
	b := brokerAt(t, kafka.Bootstrap())
	changed := damages["a changed value"]
	for name, tc := range map[string]struct {
		change func(*Config)
		do     func(t *testing.T, topic string)
		want   []string
		lost   int64
	}{
		"unchecked": {
			change: func(c *Config) {
				c.Connection.Properties, _ = kafkaclient.NewProperties(kafkaclient.Source, map[string]any{"check.crcs": "false"})
			},
			want: []string{"0", "1", "0", "3"}, // the 2 with one bit changed
		},
		"deleted up to there": {
			change: func(c *Config) { c.Restore.Policy = offsets.EarliestOutOfRange },
			do:     func(_ *testing.T, topic string) { b.deleteRecords(topic, 0, 3) },
			want:   []string{"3"}, lost: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			topic, _ := writeDamaged(t, kafka, b, changed.place, changed.mask)
			var lost int64
			s := corruptSource(t, b, topic, func(c *Config) {
				c.Metrics.SkippedOffsets = func(n int64) { lost += n }
				tc.change(c)
			})
			state, err := s.Resolve(t.Context(), nil)
			require.NoError(t, err)
			if tc.do != nil {
				tc.do(t, topic)
			}
			s.Start(tag(1), state)
			var got []string
			for len(got) < len(tc.want) {
				batch := s.next()
				for _, r := range batch.Records {
					if r.Partition == 0 {
						got = append(got, string(r.Value))
					}
				}
				batch.Ack(t.Context(), nil)
			}
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.lost, lost)
			require.Empty(t, s.seat.failed)
		})
	}
}

// TestACorruptBatchWithoutCheckpointsIsReadAgainFromItsOffset: what is before it is acknowledged, so a rewind goes to the batch.
func TestACorruptBatchWithoutCheckpointsIsReadAgainFromItsOffset(t *testing.T) {
	kafka := realkafka.Shared(t)
	b := brokerAt(t, kafka.Bootstrap())
	changed := damages["a changed value"]
	topic, repair := writeDamaged(t, kafka, b, changed.place, changed.mask)
	s := newSolo(t, b, func(c *Config) { c.Subscription.Topics, c.Group = []string{topic}, realkafka.Name(t) }).begin()
	require.ElementsMatch(t, []string{topic + "-0@0=0", topic + "-0@1=1", topic + "-1@0=other"}, s.read(3))
	waiting := s.background()
	err := receive(t, s.seat.fatal, "the end")
	require.ErrorContains(t, err, fmt.Sprintf("fetching %s-0 at offset 2: the batch there is corrupt", topic))
	require.ErrorContains(t, err, "behind the batch, whose last offset is 2: kafka-consumer-groups.sh --reset-offsets")
	stays(t, waiting)
	repair()
}

func TestWhatIsCorruptIsToldFromWhatBrokersRefuse(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"nothing":                    {nil, false},
		"a checksum":                 {errors.New("encoded crc 1 does not match calculated crc 2"), true},
		"the broker has found it":    {kerr.CorruptMessage, true},
		"another answer":             {kerr.UnknownServerError, false},
		"no ACL":                     {kerr.TopicAuthorizationFailed, false},
		"a connection that broke":    {fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), false},
		"a log that was cut":         {&kgo.ErrDataLoss{}, false},
		"a batch that is too large":  {&kgo.ErrDecompressTooLarge{}, false},
		"a batch that is put off":    {errReadAhead, false},
		"a poll that was broken off": {kgo.ErrClientClosed, false},
	} {
		require.Equal(t, tc.want, isCorrupt(tc.err), name)
	}
}

// A batch whose compressed records end too early, with a checksum that fits, as a producer with a fault writes it: the
// decompressor says the same of it as a connection that broke, which is tried again for ever.
func TestCompressedRecordsThatEndTooEarlyAreCorrupt(t *testing.T) {
	whole := map[kgo.CompressionCodecType][]byte{}
	for codec, by := range map[kgo.CompressionCodecType]kgo.CompressionCodec{
		kgo.CodecGzip: kgo.GzipCompression(), kgo.CodecLz4: kgo.Lz4Compression(), kgo.CodecZstd: kgo.ZstdCompression(),
		kgo.CodecSnappy: kgo.SnappyCompression(),
	} {
		c, err := kgo.DefaultCompressor(by)
		require.NoError(t, err)
		var buf bytes.Buffer
		packed, got := c.Compress(&buf, bytes.Repeat([]byte("a record of many "), 100))
		require.Equal(t, codec, got)
		whole[codec] = bytes.Clone(packed)
	}
	unpack, err := newUnpacker(unpackLeast)
	require.NoError(t, err)
	for codec, packed := range whole {
		batch := kmsg.RecordBatch{Magic: 2, Attributes: int16(codec), NumRecords: 1, Records: packed[:len(packed)/2], PartitionLeaderEpoch: -1}
		batch.Length = int32(len(batch.AppendTo(nil)) - 12)
		p := &kmsg.FetchResponseTopicPartition{RecordBatches: batch.AppendTo(nil)}
		fp, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{DisableCRCValidation: true}, p, unpack, nil)
		require.Error(t, fp.Err)
		require.True(t, isCorrupt(fp.Err), "%d: %v", codec, fp.Err)
	}
}

// Five partitions stand before stops beyond the end of the log: none of them keeps another from being looked at.
func TestEachPartitionThatStandsStillHasItsTurn(t *testing.T) {
	a := &attempt{}
	for i := range int32(5) {
		a.splits = append(a.splits, &split{pos: checkpoint.Split{Topic: "a", Partition: i, Stop: 10}, stood: unknown})
	}
	require.Empty(t, a.stuck(), "whether they stand is not known yet")
	for _, want := range [][]int32{{0, 1, 2}, {3, 4, 0}, {1, 2, 0}} {
		var got []int32
		for _, s := range a.stuck() {
			got = append(got, s.pos.Partition)
		}
		require.Equal(t, want, got)
	}
	a.splits[4].pos.Offset = 1
	for _, s := range a.stuck() {
		require.NotEqual(t, int32(4), s.pos.Partition, "it has moved")
	}
	require.Equal(t, int32(4), a.stuck()[0].pos.Partition)
}

func TestLastOffsetOfABatchThatLooksLikeOne(t *testing.T) {
	batch := make([]byte, 61)
	binary.BigEndian.PutUint64(batch, 100)
	batch[16] = 2
	binary.BigEndian.PutUint32(batch[23:], 49)
	for name, tc := range map[string]struct {
		batch []byte
		at    int64
		want  int64
		ok    bool
	}{
		"its beginning":   {batch, 100, 149, true},
		"its middle":      {batch, 120, 149, true},
		"before it":       {batch, 99, 149, false},
		"behind it":       {batch, 150, 149, false},
		"too short":       {batch[:20], 100, 0, false},
		"another version": {make([]byte, 61), 0, 0, false},
	} {
		got, ok := lastOffset(tc.batch, tc.at)
		require.Equal(t, tc.ok, ok, name)
		require.Equal(t, tc.want, got, name)
	}
}

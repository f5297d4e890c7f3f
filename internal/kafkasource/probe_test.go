package kafkasource

import (
	"encoding/binary"
	"hash/crc32"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

func TestStepMovesTheSplitToItsTrueNextOffset(t *testing.T) {
	for name, tc := range map[string]struct {
		stop      int64
		answer    rawFetch
		committed bool
		want      int64
	}{
		"nothing new":                   {answer: rawFetch{next: 10, highWatermark: 10, lastStable: 10}, want: 10},
		"over a hole to the end":        {answer: rawFetch{next: 20, highWatermark: 20, lastStable: 20}, want: 20},
		"over a hole to a record":       {answer: rawFetch{next: 15, highWatermark: 20, lastStable: 20}, want: 15},
		"not over the stop":             {stop: 13, answer: rawFetch{next: 20, highWatermark: 20, lastStable: 20}, want: 13},
		"not over an open transaction":  {committed: true, answer: rawFetch{next: 20, highWatermark: 20, lastStable: 12}, want: 12},
		"never back":                    {answer: rawFetch{next: 4, highWatermark: 4, lastStable: 4}, want: 10},
		"an empty answer moves nothing": {stop: 20, answer: rawFetch{next: 10, highWatermark: 20, lastStable: 20, empty: true}, want: 10},
	} {
		t.Run(name, func(t *testing.T) {
			s := &split{pos: checkpoint.Split{Offset: 10, LeaderEpoch: 3, Stop: checkpoint.NoStop}}
			if tc.stop > 0 {
				s.pos.Stop = tc.stop
			}
			tc.answer.epoch = -1
			require.False(t, s.step(tc.answer, tc.committed))
			require.Equal(t, tc.want, s.pos.Offset)
			require.EqualValues(t, 3, s.pos.LeaderEpoch)
			tc.answer.epoch, tc.answer.next, tc.answer.highWatermark, tc.answer.lastStable = 7, 100, 100, 100
			s.pos.Stop = checkpoint.NoStop
			s.step(tc.answer, tc.committed)
			require.EqualValues(t, 7, s.pos.LeaderEpoch)
		})
	}
}

func TestProbesBecomeRareWhileTheyMoveNothing(t *testing.T) {
	a := &attempt{splits: []*split{{pos: checkpoint.Split{Stop: 10}}}}
	start := time.Unix(1000, 0)
	wait, due := a.probeDue(start, time.Second)
	require.False(t, due)
	require.Equal(t, time.Second, wait)
	// A pause, and another poll, do not begin the wait anew.
	wait, due = a.probeDue(start.Add(700*time.Millisecond), time.Second)
	require.False(t, due)
	require.Equal(t, 300*time.Millisecond, wait)
	_, due = a.probeDue(start.Add(time.Second), time.Second)
	require.True(t, due)
	for _, tc := range []struct {
		fruitless int
		want      time.Duration
	}{{1, 2 * time.Second}, {3, 8 * time.Second}, {5, 30 * time.Second}, {1000, 30 * time.Second}} {
		a.fruitless = tc.fruitless
		wait, _ = a.probeDue(start, time.Second)
		require.Equal(t, tc.want, wait)
	}
	a.splits[0].pos.Offset = 10
	wait, due = a.probeDue(start, time.Second)
	require.False(t, due, "nothing stands still any more")
	require.Zero(t, wait)
	require.Zero(t, a.fruitless)
}

func TestEmptyAnswersInFrontOfTheEndAreReportedOnce(t *testing.T) {
	s := &split{pos: checkpoint.Split{Offset: 10, Stop: 20}}
	reports := 0
	for range 3 * maxEmptyProbes {
		if s.step(rawFetch{next: 10, epoch: -1, highWatermark: 20, lastStable: 20, empty: true}, false) {
			reports++
		}
	}
	require.Equal(t, 1, reports)
}

// rawBatch is a record batch without records, as the cleaner leaves one, or with values.
func rawBatch(first, last int64, producer int64, attributes int16, values ...string) []byte {
	b := kmsg.RecordBatch{
		FirstOffset: first, PartitionLeaderEpoch: 5, Magic: 2, Attributes: attributes, LastOffsetDelta: int32(last - first),
		ProducerID: producer, NumRecords: int32(len(values)),
	}
	for i, v := range values {
		r := kmsg.Record{OffsetDelta: int32(i), Value: []byte(v)}
		if attributes&0x20 != 0 {
			r.Key = []byte{0, 0, 0, 0} // an abort marker
		}
		raw := r.AppendTo(nil)
		r.Length = int32(len(raw) - 1)
		b.Records = append(b.Records, r.AppendTo(nil)...)
	}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

func TestReadRawFindsTheNextRecordOrTheNextOffset(t *testing.T) {
	const transactional, control = 0x10, 0x20
	at := checkpoint.Split{Topic: "a", Offset: 10}
	aborted := []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 9, FirstOffset: 10}}
	for name, tc := range map[string]struct {
		batches [][]byte
		aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction
		level   kgo.IsolationLevel
		next    int64
		epoch   int32
		empty   bool
	}{
		"no bytes":            {next: 10, epoch: -1, empty: true},
		"a record":            {batches: [][]byte{rawBatch(10, 10, -1, 0, "x")}, next: 10, epoch: -1},
		"an emptied batch":    {batches: [][]byte{rawBatch(10, 14, -1, 0)}, next: 15, epoch: -1},
		"a hole and a record": {batches: [][]byte{rawBatch(10, 14, -1, 0), rawBatch(20, 20, -1, 0, "x")}, next: 20, epoch: -1},
		"a control record":    {batches: [][]byte{rawBatch(10, 10, 9, transactional|control, "")}, next: 11, epoch: 5},
		"an aborted transaction, its marker compacted away, read_committed": {
			batches: [][]byte{rawBatch(10, 11, 9, transactional, "x", "y")}, aborted: aborted, level: kgo.ReadCommitted(), next: 12, epoch: -1},
		"the same, read_uncommitted": {
			batches: [][]byte{rawBatch(10, 11, 9, transactional, "x", "y")}, aborted: aborted, next: 10, epoch: -1},
	} {
		t.Run(name, func(t *testing.T) {
			p := kmsg.NewFetchResponseTopicPartition()
			p.HighWatermark, p.LastStableOffset, p.AbortedTransactions = 100, 90, tc.aborted
			for _, b := range tc.batches {
				p.RecordBatches = append(p.RecordBatches, b...)
			}
			got, ok := readRaw(&p, at, tc.level, kgo.DefaultDecompressor())
			require.True(t, ok)
			require.Equal(t, rawFetch{next: tc.next, epoch: tc.epoch, highWatermark: 100, lastStable: 90, empty: tc.empty}, got)
		})
	}
	p := kmsg.NewFetchResponseTopicPartition()
	p.ErrorCode = 1
	_, ok := readRaw(&p, at, kgo.ReadUncommitted(), kgo.DefaultDecompressor())
	require.False(t, ok)
}

package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"google.golang.org/protobuf/encoding/protowire"
)

// A record is encoded as
//
//	"TGCR" | version, 2 bytes | payload length, 4 bytes | payload | CRC-32C of all before, 4 bytes
//
// with big-endian numbers. The payload is a message in the protobuf wire format, whose fields are the constants below;
// zero values are left out. A field number is never given another meaning. A reader refuses what it does not know: to
// skip a field could mean to forget a transaction.
const (
	recordMagic      = "TGCR"
	recordVersion    = 1
	recordHeaderSize = len(recordMagic) + 2 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Errors of DecodeRecord. VersionError is the third.
var (
	ErrNotARecord    = errors.New("not a checkpoint record")
	ErrRecordDamaged = errors.New("checkpoint record is damaged")
)

// VersionError says that a record was written in a format this build does not know.
type VersionError struct{ Version int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("checkpoint record has format version %d, this build reads version %d only: "+
		"start the release that wrote it, or one that names version %d in its docs", e.Version, recordVersion, e.Version)
}

// field numbers; each message has its own range.
const (
	fRecordNumber protowire.Number = iota + 1
	fRecordLastCheckpoint
	fRecordStreamID
	fRecordWritten
	fRecordPosition
	fRecordEntry
	fRecordSink
)

const (
	fSourceKey protowire.Number = iota + 1
	fSourceCluster
	fSourceSplit
	fSourceFinished
	fSourceParallelism
	fSourceIndex
)

const (
	fSplitTopic protowire.Number = iota + 1
	fSplitTopicID
	fSplitPartition
	fSplitOffset
	fSplitLeaderEpoch
	fSplitStop
)

const (
	fEntryCheckpoint protowire.Number = iota + 1
	fEntryBefore
	fEntryAfter
	fEntryCommittable
	fEntryDelta
)

const (
	fCommittableSink protowire.Number = iota + 1
	fCommittableCluster
	fCommittableID
	fCommittableProducer
	fCommittableEpoch
	fCommittableBegan
	fCommittableTimeout
	fCommittableRecords
	fCommittableTopic
)

const (
	fShareTopic protowire.Number = iota + 1
	fSharePartition
	fShareRecords
)

const (
	fDeltaCache protowire.Number = iota + 1
	fDeltaLog
)

const (
	fSinkKey protowire.Number = iota + 1
	fSinkPool
)

const (
	fPoolCluster protowire.Number = iota + 1
	fPoolPrefix
	fPoolIndex
	fPoolSize
)

// EncodeRecord returns the durable form of a record.
func EncodeRecord(r *Record) []byte {
	out := make([]byte, recordHeaderSize, 256)
	copy(out, recordMagic)
	binary.BigEndian.PutUint16(out[4:], recordVersion)
	out = appendRecord(out, r)
	binary.BigEndian.PutUint32(out[6:], uint32(len(out)-recordHeaderSize))
	return binary.BigEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
}

func appendRecord(b []byte, r *Record) []byte {
	b = appendUint(b, fRecordNumber, r.Number)
	b = appendUint(b, fRecordLastCheckpoint, r.LastCheckpoint)
	b = appendString(b, fRecordStreamID, r.StreamID)
	b = appendInt(b, fRecordWritten, r.WrittenUnixMs)
	b = appendEach(b, fRecordPosition, r.Positions, appendSource)
	b = appendEach(b, fRecordEntry, r.Entries, appendEntry)
	return appendEach(b, fRecordSink, r.Sinks, appendSink)
}

func appendSource(b []byte, s SourceState) []byte {
	b = appendString(b, fSourceKey, s.Source)
	b = appendString(b, fSourceCluster, s.ClusterID)
	b = appendEach(b, fSourceSplit, s.Splits, appendSplit)
	if s.Finished {
		b = appendUint(b, fSourceFinished, 1)
	}
	b = appendInt(b, fSourceParallelism, int64(s.Parallelism))
	return appendInt(b, fSourceIndex, int64(s.Index))
}

func appendSplit(b []byte, s Split) []byte {
	b = appendString(b, fSplitTopic, s.Topic)
	if s.TopicID != [16]byte{} {
		b = appendBytes(b, fSplitTopicID, s.TopicID[:])
	}
	b = appendInt(b, fSplitPartition, int64(s.Partition))
	b = appendInt(b, fSplitOffset, s.Offset)
	b = appendInt(b, fSplitLeaderEpoch, int64(s.LeaderEpoch))
	return appendInt(b, fSplitStop, s.Stop)
}

func appendEntry(b []byte, e Entry) []byte {
	b = appendUint(b, fEntryCheckpoint, e.Checkpoint)
	b = appendEach(b, fEntryBefore, e.Before, appendSource)
	b = appendEach(b, fEntryAfter, e.After, appendSource)
	b = appendEach(b, fEntryCommittable, e.Committables, appendCommittable)
	return appendEach(b, fEntryDelta, e.Deltas, func(b []byte, d CacheDelta) []byte {
		return appendBytes(appendString(b, fDeltaCache, d.Cache), fDeltaLog, d.Log)
	})
}

func appendCommittable(b []byte, c Committable) []byte {
	b = appendString(b, fCommittableSink, c.Sink)
	b = appendString(b, fCommittableCluster, c.ClusterID)
	b = appendString(b, fCommittableID, c.TransactionalID)
	b = appendInt(b, fCommittableProducer, c.ProducerID)
	b = appendInt(b, fCommittableEpoch, int64(c.Epoch))
	b = appendInt(b, fCommittableBegan, c.BeganUnixMs)
	b = appendInt(b, fCommittableTimeout, int64(c.TimeoutMs))
	b = appendInt(b, fCommittableRecords, c.Records)
	return appendEach(b, fCommittableTopic, c.Topics, func(b []byte, t TopicShare) []byte {
		b = appendString(b, fShareTopic, t.Topic)
		for _, p := range t.Partitions {
			// Not through appendInt: partition 0 is an element, it must not be left out.
			b = protowire.AppendTag(b, fSharePartition, protowire.VarintType)
			b = protowire.AppendVarint(b, protowire.EncodeZigZag(int64(p)))
		}
		return appendInt(b, fShareRecords, t.Records)
	})
}

func appendSink(b []byte, s SinkState) []byte {
	b = appendString(b, fSinkKey, s.Sink)
	return appendEach(b, fSinkPool, s.Pools, func(b []byte, p Pool) []byte {
		b = appendString(b, fPoolCluster, p.ClusterID)
		b = appendString(b, fPoolPrefix, p.Prefix)
		b = appendInt(b, fPoolIndex, int64(p.Index))
		return appendInt(b, fPoolSize, int64(p.Size))
	})
}

func appendUint(b []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}

func appendInt(b []byte, num protowire.Number, v int64) []byte {
	return appendUint(b, num, protowire.EncodeZigZag(v))
}

func appendString(b []byte, num protowire.Number, v string) []byte {
	if v == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), v)
}

func appendBytes(b []byte, num protowire.Number, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), v)
}

// appendEach appends every element as a message of its own under the same field number.
func appendEach[T any](b []byte, num protowire.Number, vs []T, one func([]byte, T) []byte) []byte {
	for _, v := range vs {
		b = protowire.AppendTag(b, num, protowire.BytesType)
		b = protowire.AppendBytes(b, one(nil, v))
	}
	return b
}

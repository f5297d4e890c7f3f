package checkpoint

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"google.golang.org/protobuf/encoding/protowire"
)

// DecodeRecord reads what EncodeRecord wrote. It returns ErrNotARecord, a *VersionError, or an error that wraps
// ErrRecordDamaged.
func DecodeRecord(data []byte) (*Record, error) {
	if len(data) < recordHeaderSize || string(data[:4]) != recordMagic {
		return nil, ErrNotARecord
	}
	// The version comes before the checksum: another version may be checked in another way.
	if v := int(binary.BigEndian.Uint16(data[4:])); v != recordVersion {
		return nil, &VersionError{Version: v}
	}
	n := uint64(binary.BigEndian.Uint32(data[6:]))
	if uint64(len(data)) != uint64(recordHeaderSize)+n+4 {
		return nil, fmt.Errorf("%w: %d bytes, its header says %d", ErrRecordDamaged, len(data), uint64(recordHeaderSize)+n+4)
	}
	body, sum := data[:len(data)-4], binary.BigEndian.Uint32(data[len(data)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, fmt.Errorf("%w: checksum does not match", ErrRecordDamaged)
	}
	r := new(Record)
	if err := decodeRecord(body[recordHeaderSize:], r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecordDamaged, err)
	}
	return r, nil
}

// value is one field as the wire has it: a number or bytes.
type value struct {
	num   protowire.Number
	typ   protowire.Type
	n     uint64
	bytes []byte
	err   *error
}

// eachField calls one for every field of a message; one returns false for a number it does not know.
func eachField(b []byte, what string, one func(value) bool) error {
	var bad error
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%s: %w", what, protowire.ParseError(n))
		}
		b = b[n:]
		v := value{num: num, typ: typ, err: &bad}
		switch typ {
		case protowire.VarintType:
			v.n, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(b)
		default:
			return fmt.Errorf("%s: field %d has wire type %d", what, num, typ)
		}
		if n < 0 {
			return fmt.Errorf("%s: field %d: %w", what, num, protowire.ParseError(n))
		}
		b = b[n:]
		if !one(v) {
			return fmt.Errorf("%s: field %d is unknown", what, num)
		}
		if bad != nil {
			return fmt.Errorf("%s: field %d: %w", what, num, bad)
		}
	}
	return nil
}

func (v value) fail(err error) {
	if err != nil && *v.err == nil {
		*v.err = err
	}
}

func (v value) want(t protowire.Type) bool {
	if v.typ != t {
		v.fail(fmt.Errorf("wire type %d", v.typ))
		return false
	}
	return true
}

func (v value) uint(to *uint64) bool {
	if v.want(protowire.VarintType) {
		*to = v.n
	}
	return true
}

func (v value) string(to *string) bool {
	if v.want(protowire.BytesType) {
		*to = string(v.bytes)
	}
	return true
}

func (v value) bool(to *bool) bool {
	if v.want(protowire.VarintType) {
		if v.n != 1 {
			v.fail(fmt.Errorf("%d is no flag", v.n))
		}
		*to = true
	}
	return true
}

// decodeInt reads a zigzag number and refuses one that the field's type cannot hold.
func decodeInt[T int16 | int32 | int64](v value, to *T) bool {
	if v.want(protowire.VarintType) {
		n := protowire.DecodeZigZag(v.n)
		if *to = T(n); int64(*to) != n {
			v.fail(fmt.Errorf("%d does not fit", n))
		}
	}
	return true
}

// decodeEach reads one element of a repeated message.
func decodeEach[T any](v value, to *[]T, one func([]byte, *T) error) bool {
	if v.want(protowire.BytesType) {
		var t T
		v.fail(one(v.bytes, &t))
		*to = append(*to, t)
	}
	return true
}

func decodeRecord(b []byte, r *Record) error {
	return eachField(b, "record", func(v value) bool {
		switch v.num {
		case fRecordNumber:
			return v.uint(&r.Number)
		case fRecordLastCheckpoint:
			return v.uint(&r.LastCheckpoint)
		case fRecordStreamID:
			return v.string(&r.StreamID)
		case fRecordWritten:
			return decodeInt(v, &r.WrittenUnixMs)
		case fRecordPosition:
			return decodeEach(v, &r.Positions, decodeSource)
		case fRecordEntry:
			return decodeEach(v, &r.Entries, decodeEntry)
		case fRecordSink:
			return decodeEach(v, &r.Sinks, decodeSink)
		}
		return false
	})
}

func decodeSource(b []byte, s *SourceState) error {
	return eachField(b, "source", func(v value) bool {
		switch v.num {
		case fSourceKey:
			return v.string(&s.Source)
		case fSourceCluster:
			return v.string(&s.ClusterID)
		case fSourceSplit:
			return decodeEach(v, &s.Splits, decodeSplit)
		case fSourceFinished:
			return v.bool(&s.Finished)
		case fSourceParallelism:
			return decodeInt(v, &s.Parallelism)
		case fSourceIndex:
			return decodeInt(v, &s.Index)
		}
		return false
	})
}

func decodeSplit(b []byte, s *Split) error {
	return eachField(b, "split", func(v value) bool {
		switch v.num {
		case fSplitTopic:
			return v.string(&s.Topic)
		case fSplitTopicID:
			if v.want(protowire.BytesType) {
				if copy(s.TopicID[:], v.bytes) != len(v.bytes) || len(v.bytes) != len(s.TopicID) {
					v.fail(fmt.Errorf("topic id has %d bytes", len(v.bytes)))
				}
			}
			return true
		case fSplitPartition:
			return decodeInt(v, &s.Partition)
		case fSplitOffset:
			return decodeInt(v, &s.Offset)
		case fSplitLeaderEpoch:
			return decodeInt(v, &s.LeaderEpoch)
		case fSplitStop:
			return decodeInt(v, &s.Stop)
		}
		return false
	})
}

func decodeEntry(b []byte, e *Entry) error {
	return eachField(b, "entry", func(v value) bool {
		switch v.num {
		case fEntryCheckpoint:
			return v.uint(&e.Checkpoint)
		case fEntryBefore:
			return decodeEach(v, &e.Before, decodeSource)
		case fEntryAfter:
			return decodeEach(v, &e.After, decodeSource)
		case fEntryCommittable:
			return decodeEach(v, &e.Committables, decodeCommittable)
		case fEntryDelta:
			return decodeEach(v, &e.Deltas, decodeDelta)
		}
		return false
	})
}

func decodeDelta(b []byte, d *CacheDelta) error {
	return eachField(b, "delta", func(v value) bool {
		switch v.num {
		case fDeltaCache:
			return v.string(&d.Cache)
		case fDeltaLog:
			if v.want(protowire.BytesType) {
				d.Log = append([]byte(nil), v.bytes...)
			}
			return true
		}
		return false
	})
}

func decodeCommittable(b []byte, c *Committable) error {
	return eachField(b, "committable", func(v value) bool {
		switch v.num {
		case fCommittableSink:
			return v.string(&c.Sink)
		case fCommittableCluster:
			return v.string(&c.ClusterID)
		case fCommittableID:
			return v.string(&c.TransactionalID)
		case fCommittableProducer:
			return decodeInt(v, &c.ProducerID)
		case fCommittableEpoch:
			return decodeInt(v, &c.Epoch)
		case fCommittableBegan:
			return decodeInt(v, &c.BeganUnixMs)
		case fCommittableTimeout:
			return decodeInt(v, &c.TimeoutMs)
		case fCommittableRecords:
			return decodeInt(v, &c.Records)
		case fCommittableTopic:
			return decodeEach(v, &c.Topics, decodeShare)
		}
		return false
	})
}

func decodeShare(b []byte, t *TopicShare) error {
	return eachField(b, "topic share", func(v value) bool {
		switch v.num {
		case fShareTopic:
			return v.string(&t.Topic)
		case fSharePartition:
			var p int32
			decodeInt(v, &p)
			t.Partitions = append(t.Partitions, p)
			return true
		case fShareRecords:
			return decodeInt(v, &t.Records)
		}
		return false
	})
}

func decodeSink(b []byte, s *SinkState) error {
	return eachField(b, "sink", func(v value) bool {
		switch v.num {
		case fSinkKey:
			return v.string(&s.Sink)
		case fSinkPool:
			return decodeEach(v, &s.Pools, decodePool)
		}
		return false
	})
}

func decodePool(b []byte, p *Pool) error {
	return eachField(b, "pool", func(v value) bool {
		switch v.num {
		case fPoolCluster:
			return v.string(&p.ClusterID)
		case fPoolPrefix:
			return v.string(&p.Prefix)
		case fPoolIndex:
			return decodeInt(v, &p.Index)
		case fPoolSize:
			return decodeInt(v, &p.Size)
		}
		return false
	})
}

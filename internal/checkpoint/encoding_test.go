package checkpoint

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// randomRecord fills every field, so that a forgotten one shows.
func randomRecord(r *rand.Rand) *Record {
	text := func() string { return string([]byte{byte('a' + r.IntN(26)), byte('a' + r.IntN(26))}) }
	source := func() SourceState {
		s := SourceState{Source: text(), ClusterID: text(), Finished: r.IntN(2) == 0, Parallelism: r.Int32(), Index: -r.Int32()}
		for range r.IntN(4) {
			p := Split{
				Topic: text(), Partition: int32(r.IntN(3)), Offset: r.Int64(), LeaderEpoch: int32(r.IntN(3)) - 1,
				Stop: r.Int64N(3) - 1,
			}
			if r.IntN(2) == 0 {
				p.TopicID[r.IntN(16)] = 7
			}
			s.Splits = append(s.Splits, p)
		}
		return s
	}
	sources := func() (out []SourceState) {
		for range r.IntN(3) {
			out = append(out, source())
		}
		return out
	}
	rec := &Record{
		Number: r.Uint64(), LastCheckpoint: r.Uint64(), StreamID: text(), WrittenUnixMs: r.Int64(), Positions: sources(),
	}
	for range r.IntN(3) {
		e := Entry{Checkpoint: r.Uint64(), Before: sources(), After: sources()}
		for range r.IntN(3) {
			e.Committables = append(e.Committables, Committable{
				Sink: text(), ClusterID: text(), TransactionalID: text(), ProducerID: r.Int64(), Epoch: int16(r.IntN(1 << 15)),
				BeganUnixMs: r.Int64(), TimeoutMs: r.Int32(), Records: r.Int64(),
				Topics: []TopicShare{{Topic: text(), Partitions: []int32{0, 3, 1}, Records: r.Int64()}},
			})
			e.Deltas = append(e.Deltas, CacheDelta{Cache: text(), Log: []byte{0, 1, 2}})
		}
		rec.Entries = append(rec.Entries, e)
	}
	for range r.IntN(3) {
		rec.Sinks = append(rec.Sinks, SinkState{Sink: text(), Pools: []Pool{{text(), text(), r.Int32(), r.Int32()}, {}}})
	}
	return rec
}

func TestRecordSurvivesItsEncoding(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		want := randomRecord(r)
		data := EncodeRecord(want)
		got, err := DecodeRecord(data)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(want, got))
		require.Equal(t, data, EncodeRecord(got), "encoding is deterministic")
	}
}

func TestEveryDamagedByteIsNoticed(t *testing.T) {
	data := EncodeRecord(randomRecord(rand.New(rand.NewPCG(3, 4))))
	for i := range data {
		for _, bit := range []byte{1, 0x80} {
			bad := bytes.Clone(data)
			bad[i] ^= bit
			_, err := DecodeRecord(bad)
			require.Error(t, err, "byte %d", i)
		}
	}
	for n := range data {
		_, err := DecodeRecord(data[:n])
		require.Error(t, err, "first %d bytes", n)
	}
}

func TestUnknownVersionIsRefusedByName(t *testing.T) {
	data := EncodeRecord(&Record{Number: 1})
	binary.BigEndian.PutUint16(data[4:], 7)
	_, err := DecodeRecord(data)
	var version *VersionError
	require.ErrorAs(t, err, &version)
	require.Equal(t, 7, version.Version)
	require.ErrorContains(t, err, "format version 7")
}

// seal puts header and checksum around a payload, so that the decoder sees it.
func sealPayload(payload []byte) []byte {
	data := append([]byte(recordMagic), 0, recordVersion)
	data = binary.BigEndian.AppendUint32(data, uint32(len(payload)))
	data = append(data, payload...)
	return binary.BigEndian.AppendUint32(data, crc32.Checksum(data, castagnoli))
}

func TestDecoderRefusesWhatItDoesNotKnow(t *testing.T) {
	tests := map[string]struct {
		payload []byte
		want    string
	}{
		"a field of a later release":     {[]byte{15 << 3, 1}, "field 15 is unknown"},
		"a number where bytes belong":    {[]byte{3 << 3, 1}, "wire type 0"},
		"bytes where a number belongs":   {[]byte{1<<3 | 2, 1, 'x'}, "wire type 2"},
		"a fixed32":                      {[]byte{1<<3 | 5, 1, 2, 3, 4}, "wire type 5"},
		"a truncated message":            {[]byte{5<<3 | 2, 9, 1}, "unexpected EOF"},
		"a partition that does not fit":  {[]byte{5<<3 | 2, 8, 3<<3 | 2, 6, 3 << 3, 0xfe, 0xff, 0xff, 0xff, 0x7f}, "does not fit"},
		"a topic id of the wrong length": {[]byte{5<<3 | 2, 5, 3<<3 | 2, 3, 2<<3 | 2, 1, 9}, "topic id has 1 bytes"},
		"a flag that is neither":         {[]byte{5<<3 | 2, 2, 4 << 3, 2}, "no flag"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeRecord(sealPayload(tc.payload))
			require.ErrorIs(t, err, ErrRecordDamaged)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func FuzzDecodeRecord(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		data := EncodeRecord(randomRecord(r))
		f.Add(data[recordHeaderSize : len(data)-4])
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, payload []byte) {
		if _, err := DecodeRecord(payload); err == nil {
			t.Fatal("a payload without its header was taken for a record")
		}
		rec, err := DecodeRecord(sealPayload(payload))
		if err != nil {
			return
		}
		again, err := DecodeRecord(EncodeRecord(rec))
		if err != nil {
			t.Fatalf("decoded once, and not again: %v", err)
		}
		if diff := cmp.Diff(rec, again); diff != "" {
			t.Fatal(diff)
		}
	})
}

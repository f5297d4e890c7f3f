package kafkaflinksource

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// seal fills in size and checksum of a message of the old formats.
func seal(raw []byte) []byte {
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[12:], crc32.ChecksumIEEE(raw[16:]))
	return raw
}

// unpack returns the record that a fetch makes of the bytes.
func unpack(t *testing.T, raw []byte) *kgo.Record {
	t.Helper()
	p := kmsg.NewFetchResponseTopicPartition()
	p.RecordBatches = raw
	fp, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: "a"}, &p, kgo.DefaultDecompressor(), nil)
	require.NoError(t, fp.Err)
	require.Len(t, fp.Records, 1)
	return fp.Records[0]
}

func fetched(t *testing.T, m kmsg.MessageV1) *kgo.Record {
	m.Value = []byte("v")
	return unpack(t, seal(m.AppendTo(nil)))
}

// fetchedV0 is a record of the oldest format, which has no timestamp.
func fetchedV0(t *testing.T) *kgo.Record {
	m := kmsg.MessageV0{Value: []byte("v")}
	return unpack(t, seal(m.AppendTo(nil)))
}

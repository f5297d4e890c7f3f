package realkafka

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Places within a batch of format 2, in bytes from its beginning.
const (
	// BatchLength is where its length stands, in four bytes: that of all that follows them.
	BatchLength = 8
	// BatchMagic is the version of its format.
	BatchMagic = 16
	// BatchRecords is where its records begin. The value of a first record without a key begins six bytes later, if it is
	// shorter than 64 bytes.
	BatchRecords = 61
)

// Damage changes a byte in the log of a partition, as broker i has it, by exclusive or, and returns what changes it back. The
// byte is at a place within a batch; batches are counted from 0, and the log must still be in its first segment. A broker
// that runs serves the changed byte at once: it looks at nothing but lengths.
func (c *Cluster) Damage(t testing.TB, i int, topic string, partition int32, batch int, place int64, mask byte) (repair func()) {
	t.Helper()
	if c.external != nil {
		t.Skipf("damaging a log: %s names a cluster that is not ours", brokerEnv)
	}
	path := filepath.Join(c.brokerDir(i), "data", fmt.Sprintf("%s-%d", topic, partition), "00000000000000000000.log")
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("damaging a log: %v", err)
	}
	var begin int64
	for range batch {
		begin += BatchLength + 4 + int64(binary.BigEndian.Uint32(log[begin+BatchLength:]))
	}
	write := func(b byte) {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatalf("damaging a log: %v", err)
		}
		defer func() { _ = file.Close() }()
		if _, err := file.WriteAt([]byte{b}, begin+place); err != nil {
			t.Fatalf("damaging a log: %v", err)
		}
	}
	was := log[begin+place]
	write(was ^ mask)
	return func() { write(was) }
}

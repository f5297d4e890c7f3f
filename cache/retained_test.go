package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// recordOf is a record of a source with so many partitions, as many checkpoints of which are not committed.
func recordOf(number uint64, partitions, uncommitted int) *checkpoint.Record {
	positions := func(at int64) []checkpoint.SourceState {
		st := checkpoint.SourceState{Source: "orders", ClusterID: "5L6g3nShT-eMCtK--X86sw", Parallelism: 1}
		for p := range partitions {
			split := checkpoint.Split{Topic: "orders", Partition: int32(p), Offset: at + int64(p)*7919, LeaderEpoch: 3, Stop: checkpoint.NoStop}
			binary.BigEndian.PutUint64(split.TopicID[:], 0x9e3779b97f4a7c15)
			st.Splits = append(st.Splits, split)
		}
		return []checkpoint.SourceState{st}
	}
	at := int64(number) * 1_000_003
	r := &checkpoint.Record{Number: number, LastCheckpoint: number, WrittenUnixMs: at, Positions: positions(at)}
	for i := range uncommitted {
		r.Entries = append(r.Entries, checkpoint.Entry{
			Checkpoint: number - uint64(uncommitted-i), Before: positions(at - 2000), After: positions(at - 1000),
			Committables: []checkpoint.Committable{{
				Sink: "clean", TransactionalID: fmt.Sprintf("orders-clean-0-%d", i), ProducerID: at, Records: 1000, BeganUnixMs: at, TimeoutMs: 60000,
			}},
		})
	}
	return r
}

// A job writes a record every few seconds for years. What it leaves on the disk must not grow with their number, nor may
// the descriptors it holds.
func TestTenThousandRecordsKeepTheDirectorySmall(t *testing.T) {
	// A log is full once it has filled a memtable; with a small one that happens often enough to be seen.
	const small = "\nmemtable_size: 1MiB"
	for _, tc := range []struct {
		name                    string
		settings                string
		partitions, uncommitted int
		puts                    uint64
	}{
		{"4 partitions", small, 4, 0, 10_000},
		{"4 partitions, 3 checkpoints uncommitted", small, 4, 3, 10_000},
		{"1000 partitions, 1 checkpoint uncommitted", "", 1000, 1, 600},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, kind := range []string{"pebble", "checkpoint_file"} {
				t.Run(kind, func(t *testing.T) {
					t.Parallel()
					dir := filepath.Join(t.TempDir(), "state")
					r := diskRegistry(t)
					lossy := newLossyFS(vfs.Default) // nothing is lost here, and no sync waited for
					lossy.lossy.Store(true)
					r.fs = lossy
					settings := tc.settings
					if kind != "pebble" {
						settings = ""
					}
					s, err := openForChild(r, kind, dir+settings)
					require.NoError(t, err)
					retained := uint64(s.(*recordStore).retained)
					template := recordOf(1000, tc.partitions, tc.uncommitted)
					var early, late usage
					for n := uint64(1); n <= tc.puts; n++ {
						template.Number, template.WrittenUnixMs = n, int64(n)
						require.NoError(t, s.Put(t.Context(), n, checkpoint.EncodeRecord(template)))
						if n%100 == 0 {
							u := usageOf(t, dir)
							if n <= tc.puts/2 {
								early.grow(u)
							} else {
								late.grow(u)
							}
							if n == tc.puts/10 || n == tc.puts/2 || n == tc.puts {
								t.Logf("after %5d records of %d bytes: %v; the most so far %v", n, len(checkpoint.EncodeRecord(template)), u, max(early.bytes, late.bytes))
							}
						}
					}
					require.LessOrEqual(t, late.bytes, early.bytes*5/4+1<<20, "bytes")
					require.LessOrEqual(t, late.files, early.files+3, "files")
					require.LessOrEqual(t, late.descriptors, early.descriptors+3, "descriptors")
					require.Less(t, late.bytes, int64(64<<20))
					numbers, err := s.Numbers(t.Context())
					require.NoError(t, err)
					require.Len(t, numbers, int(retained))
					require.NoError(t, s.Close(t.Context()))
				})
			}
		})
	}
}

// usage is what a store takes of the machine.
type usage struct {
	bytes              int64
	files, descriptors int
}

func (u usage) String() string {
	return fmt.Sprintf("%d KiB in %d files, %d descriptors", u.bytes>>10, u.files, u.descriptors)
}

func (u *usage) grow(o usage) {
	*u = usage{max(u.bytes, o.bytes), max(u.files, o.files), max(u.descriptors, o.descriptors)}
}

func usageOf(t *testing.T, dir string) (u usage) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var info os.FileInfo
			if info, err = d.Info(); err == nil {
				u.bytes += info.Size()
				u.files++
			}
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil // Pebble has removed it meanwhile
		}
		return err
	})
	require.NoError(t, err)
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return u // there is no such list on this system
	}
	for _, f := range open {
		if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && filepath.Dir(to) == dir {
			u.descriptors++
		}
	}
	return u
}

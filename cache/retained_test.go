package cache

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
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

// storeRecords is how many records TestDirectoryStaysSmallHoweverManyRecords writes where one asks for more than a few:
// `make bench-store`.
var storeRecords = flag.Int("cache.records", 0, "how many records to write to see what a directory grows to; 0 is a few")

// A job writes a record every few seconds for years. What it leaves on the disk must not grow with their number, nor may
// the descriptors it holds: twice as many records take what half of them did.
func TestDirectoryStaysSmallHoweverManyRecords(t *testing.T) {
	for _, tc := range []struct {
		name                    string
		partitions, uncommitted int
		few, share              uint64 // how many records by default, and of those that are asked for one in so many
	}{
		{"4 partitions", 4, 0, 20000, 1},
		{"4 partitions, 3 checkpoints uncommitted", 4, 3, 3000, 1},
		{"1000 partitions, 1 checkpoint uncommitted", 1000, 1, 300, 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, kind := range []string{"pebble", "checkpoint_file"} {
				t.Run(kind, func(t *testing.T) {
					puts := tc.few
					if *storeRecords > 0 {
						puts = uint64(*storeRecords) / tc.share
					} else if kind == "checkpoint_file" {
						puts /= 10
					}
					staysSmall(t, kind, puts, recordOf(1000, tc.partitions, tc.uncommitted))
				})
			}
		})
	}
}

func staysSmall(t *testing.T, kind string, puts uint64, template *checkpoint.Record) {
	dir := filepath.Join(t.TempDir(), "state")
	r := diskRegistry(t)
	lossy := newLossyFS(vfs.Default) // nothing is lost here, and no sync waited for
	lossy.lossy.Store(true)
	r.fs = locked{lossy}
	const retained = 1
	var c storeCache = fileOn(t, r, dir)
	if kind == "pebble" {
		c = pebbleOn(t, r, "path: "+dir)
	}
	s := mustOpenStore(t, c, "", retained)
	var early, late usage
	for n := uint64(1); n <= puts; n++ {
		template.Number, template.WrittenUnixMs = n, int64(n)
		data := checkpoint.EncodeRecord(template)
		require.NoError(t, s.Put(t.Context(), n, data))
		if n%max(1, puts/200) != 0 {
			continue
		}
		u := usageOf(t, dir)
		if n <= puts/2 {
			early.grow(u)
		} else {
			late.grow(u)
		}
		if n == puts/20 || n == puts/4 || n == puts/2 || n == puts {
			t.Logf("after %5d records of %d bytes: %v; the most so far: %v", n, len(data), u, usage{
				max(early.bytes, late.bytes), max(early.blocks, late.blocks), max(early.files, late.files), max(early.descriptors, late.descriptors),
			})
		}
	}
	require.LessOrEqual(t, late.bytes, early.bytes*21/20+16<<10, "bytes")
	require.LessOrEqual(t, late.blocks, early.blocks*21/20+16<<10, "bytes of blocks")
	// While tables are merged there are some more of these.
	require.LessOrEqual(t, late.files, 20, "files")
	require.LessOrEqual(t, late.descriptors, 24, "descriptors")
	require.Less(t, late.blocks, int64(16<<20))
	numbers, err := s.Numbers(t.Context())
	require.NoError(t, err)
	require.Len(t, numbers, retained)
	mustClose(t, s)
	mustClose(t, c)
}

// locked is a lossy disk whose lock is held, and so a descriptor of it.
type locked struct{ lossyFS }

func (f locked) Lock(name string) (io.Closer, error) { return f.FS.Lock(name) }

// flush writes a little and has it flushed, so often.
func flush(t *testing.T, s Store, times, size int) {
	t.Helper()
	o, err := s.(*recordStore).claim.enter(t.Context())
	require.NoError(t, err)
	defer s.(*recordStore).claim.leave()
	d := o.(*database)
	for i := range times {
		require.NoError(t, d.db.Set(entryKey(entrySpace(""), fmt.Sprint(i%200)), make([]byte, size), pebble.Sync))
		if size == 0 {
			require.NoError(t, d.db.Flush())
		}
	}
}

// Pebble would begin a new manifest after 128 MiB, and each flush adds to it.
func TestManifestStaysSmallHoweverManyFlushes(t *testing.T) {
	fsys := vfs.NewMem()
	c := pebbleOn(t, testRegistry(t, fsys), "path: /state")
	s := mustOpenStore(t, c, "", 1)
	most := int64(0)
	for range 15 {
		flush(t, s, 100, 0)
		for _, name := range files(t, fsys, "/state") {
			if info, err := fsys.Stat(name); err == nil && strings.Contains(name, "MANIFEST") {
				most = max(most, info.Size())
			}
		}
	}
	t.Logf("the largest manifest in 1500 flushes: %d bytes", most)
	require.Greater(t, most, int64(maxManifest*3/4), "it has to fill up for that to be seen")
	require.Less(t, most, int64(maxManifest+16<<10))
	mustClose(t, s)
	mustClose(t, c)
}

// Where a cache in the same directory writes much, the logs grow to what memtable_size asks for, and no further.
func TestLogsBesideABusyCacheStayWithinMemtables(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	r := diskRegistry(t)
	lossy := newLossyFS(vfs.Default)
	lossy.lossy.Store(true)
	r.fs = lossy
	c := pebbleOn(t, r, "path: "+dir+"\nmemtable_size: 1MiB")
	s := mustOpenStore(t, c, "", 1)
	most := int64(0)
	for range 20 {
		flush(t, s, 100, 10_000)
		logs, err := filepath.Glob(filepath.Join(dir, "*"+logSuffix))
		require.NoError(t, err)
		sum := int64(0)
		for _, name := range logs {
			if info, err := os.Stat(name); err == nil {
				sum += max(info.Size(), blocksOf(info))
			}
		}
		most = max(most, sum)
	}
	t.Logf("the most that the logs took beside 20 MB of items: %d KiB", most>>10)
	require.Greater(t, most, int64(1<<20))
	require.Less(t, most, int64(6<<20), "four logs, and the one that is being written")
	mustClose(t, s)
	mustClose(t, c)
}

// usage is what a store takes of the machine.
type usage struct {
	bytes              int64 // that its files have
	blocks             int64 // bytes that the disk has set aside for them
	files, descriptors int
}

func (u usage) String() string {
	return fmt.Sprintf("%d KiB in %d files, %d KiB of the disk, %d descriptors", u.bytes>>10, u.files, u.blocks>>10, u.descriptors)
}

func (u *usage) grow(o usage) {
	*u = usage{max(u.bytes, o.bytes), max(u.blocks, o.blocks), max(u.files, o.files), max(u.descriptors, o.descriptors)}
}

func usageOf(t *testing.T, dir string) (u usage) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var info os.FileInfo
			if info, err = d.Info(); err == nil {
				u.bytes += info.Size()
				u.blocks += blocksOf(info)
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
		if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && (to == dir || filepath.Dir(to) == dir) {
			u.descriptors++
		}
	}
	return u
}

// blocksOf is how many bytes of the disk a file takes, which may be more than it has: a log is set aside in advance.
func blocksOf(info os.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}

package cache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// rotten is a store on a disk, as a process has left it, and its newest record.
type rotten struct {
	disk   *vfs.MemFS
	newest uint64
}

// leftBy makes a store of three records and a cache entry, which its process leaves in a certain way.
func leftBy(t *testing.T, how string, open func(*testing.T, *registry) storeCache) rotten {
	t.Helper()
	disk := vfs.NewCrashableMem()
	put := func(from, to uint64) storeCache {
		c := open(t, testRegistry(t, noLock{disk}))
		s := mustOpenStore(t, c, "", 2)
		for n := from; n <= to; n++ {
			require.NoError(t, s.Put(t.Context(), n, checkpoint.EncodeRecord(&checkpoint.Record{Number: n, LastCheckpoint: n})))
		}
		return c
	}
	c := put(1, 3)
	switch how {
	case "killed":
		killed := copyOf(disk)
		mustClose(t, c)
		return rotten{killed, 3}
	case "stopped":
		mustClose(t, c)
		return rotten{copyOf(disk), 3}
	}
	mustClose(t, c)
	c = put(4, 3) // started again, and killed before its first record
	restarted := copyOf(disk)
	mustClose(t, c)
	return rotten{restarted, 3}
}

// copyOf is all that a disk holds, synced or not.
func copyOf(disk *vfs.MemFS) *vfs.MemFS {
	return disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
}

// files lists all files below a directory.
func files(t *testing.T, fsys vfs.FS, dir string) (all []string) {
	t.Helper()
	names, err := fsys.List(dir)
	require.NoError(t, err)
	for _, name := range names {
		path := fsys.PathJoin(dir, name)
		info, err := fsys.Stat(path)
		require.NoError(t, err)
		if info.IsDir() {
			all = append(all, files(t, fsys, path)...)
		} else {
			all = append(all, path)
		}
	}
	return all
}

var errDied = errors.New("the process has ended")

// newestOf is what a start finds: the number of the newest record, or why there is none.
func newestOf(t *testing.T, fsys vfs.FS, open func(*testing.T, *registry) storeCache) (uint64, error) {
	t.Helper()
	r := testRegistry(t, fsys)
	died := dying(r)
	type found struct {
		number uint64
		err    error
	}
	result := make(chan found, 1)
	ctx := t.Context()
	go func() {
		c := open(t, r)
		defer func() { _ = c.Close(ctx) }()
		s, err := c.OpenStore(ctx, "", 2)
		if err != nil {
			result <- found{0, err}
			return
		}
		n, data, err := s.Latest(ctx)
		if err == nil {
			var rec *checkpoint.Record
			if rec, err = checkpoint.DecodeRecord(data); err == nil && rec.Number != n {
				err = fmt.Errorf("record %d says it is %d", n, rec.Number)
			}
		}
		result <- found{n, err}
	}()
	select {
	case f := <-result:
		return f.number, f.err
	case cause := <-died:
		return 0, fmt.Errorf("%w: %w", errDied, cause)
	}
}

// wayOut is what every refusal of a damaged store says in some form.
var wayOut = regexp.MustCompile("(?i)restore|remove|point path at|checkpoint record|change path")

// Whatever the disk does to any file of a store that is not in use: the next start finds the newest record, or it says
// that there is damage. It never takes an older record, nor an empty store, for the newest.
func TestDamageNeverMakesTheNewestRecordVanishSilently(t *testing.T) {
	durableBackends(t, func(t *testing.T, open func(*testing.T, *registry) storeCache) {
		if filepath.Base(t.Name()) == "pebble" {
			// Databases that end their process stay open in this one.
			open = func(t *testing.T, r *registry) storeCache {
				return pebbleOn(t, r, "path: /state\ncache_size: 1MiB\nmemtable_size: 1MiB")
			}
		}
		for _, how := range []string{"killed", "stopped", "started again and killed"} {
			t.Run(how, func(t *testing.T) {
				t.Parallel()
				left := leftBy(t, how, open)
				harmless, refused := 0, 0
				for _, name := range files(t, left.disk, "/state") {
					for _, d := range damages(t, left.disk, name) {
						n, err := newestOf(t, d.disk, open)
						switch {
						case err == nil && n == left.newest:
							harmless++
						case err == nil || errors.Is(err, checkpoint.ErrNoRecord):
							t.Errorf("%s %s: record %d is the newest, a start finds %d: %v", name, d.what, left.newest, n, err)
						default:
							refused++
							require.Regexp(t, wayOut, err.Error())
						}
					}
				}
				t.Logf("harmless %d, refused %d", harmless, refused)
				require.NotZero(t, refused)
			})
		}
	})
}

// damage is a disk with one file that is not as it was.
type damage struct {
	what string
	disk *vfs.MemFS
}

func damages(t *testing.T, disk *vfs.MemFS, name string) (all []damage) {
	t.Helper()
	data, err := disk.UnsafeGetFileDataBuffer(name)
	require.NoError(t, err)
	for i := 0; i < len(data); i += max(1, len(data)/13) {
		bit := byte(1) << (i % 8)
		data[i] ^= bit
		all = append(all, damage{fmt.Sprintf("bit %d of byte %d flipped", i%8, i), copyOf(disk)})
		data[i] ^= bit
	}
	for i := range 4 {
		shorter := copyOf(disk)
		writeText(t, shorter, name, string(data[:len(data)*i/4]))
		all = append(all, damage{fmt.Sprintf("cut to %d of 4 quarters", i), shorter})
	}
	without := copyOf(disk)
	require.NoError(t, without.Remove(name))
	return append(all, damage{"removed", without})
}

// The chunks of a log that is longer than a block, and the end that a kill may leave it with.
func TestTornEndOfALogIsNoDamage(t *testing.T) {
	disk := vfs.NewCrashableMem()
	c := pebbleOn(t, testRegistry(t, noLock{disk}), "path: /state\nsync: false")
	s := mustOpenStore(t, c, "", 1)
	require.NoError(t, s.Put(t.Context(), 1, make([]byte, 50_000)))
	for i := range 300 {
		require.NoError(t, c.Set(t.Context(), fmt.Sprint(i), make([]byte, i*7), nil))
	}
	open := func(t *testing.T, r *registry) storeCache { return pebbleOn(t, r, "path: /state") }
	for seed := range uint64(8) {
		torn := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 60, RNG: rand.New(rand.NewPCG(seed, 3))})
		require.Equal(t, "1:"+string(make([]byte, 50_000)), latestOn(t, torn, open), "seed %d", seed)
	}
	mustClose(t, c)
}

func TestLostRecordSaysWhatIsMissingAndHowToGoOn(t *testing.T) {
	fsys := vfs.NewMem()
	c := fileOn(t, testRegistry(t, noLock{fsys}), "/state")
	s := mustOpenStore(t, c, "", 2)
	require.NoError(t, s.Put(t.Context(), 41, []byte("old")))
	require.NoError(t, s.Put(t.Context(), 42, []byte("new")))
	mustClose(t, c)
	require.NoError(t, fsys.Remove("/state/stream-/00000000000000000042.record"))
	open := func(t *testing.T, r *registry) storeCache { return fileOn(t, r, "/state") }
	for range 2 {
		_, err := tryLatestOn(t, noLock{fsys}, open)
		var lost *LostRecordError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, &LostRecordError{Place: "/state/stream-", Found: 41, Witnessed: 42, File: "/state/stream-.newest"}, lost)
		require.ErrorContains(t, err, "checkpoint record 42 was written to /state/stream-, and the newest that is found is 41: ")
		require.ErrorContains(t, err, "remove the file /state/stream-.newest")
	}
	require.NoError(t, fsys.Remove("/state/stream-.newest"))
	require.Equal(t, "41:old", latestOn(t, noLock{fsys}, open), "a person has decided")
}

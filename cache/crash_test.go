package cache

import (
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
)

// Each durable write is followed by a power cut: what was reported must be there, whatever else the disk had written.

func TestPutSurvivesPowerCut(t *testing.T) {
	durableBackends(t, func(t *testing.T, open func(*testing.T, *registry) storeCache) {
		fsys := vfs.NewCrashableMem()
		c := open(t, testRegistry(t, fsys))
		defer mustClose(t, c)
		s := mustOpenStore(t, c, "", 2)
		for i, want := range []string{"1:one", "2:two", "5:five", "9:nine"} {
			n := []uint64{1, 2, 5, 9}[i]
			require.NoError(t, s.Put(t.Context(), n, []byte(want[2:])))
			for _, disk := range powerCuts(fsys) {
				require.Equal(t, want, latestOn(t, disk, open))
			}
		}
	})
}

// A process that is killed between a write and its sync leaves a record that the next one sees and a power cut takes
// back. Once Latest has returned it, it must not vanish any more: its transactions may be committed by then.
func TestLatestMakesDurableWhatAKilledProcessLeft(t *testing.T) {
	durableBackends(t, func(t *testing.T, open func(*testing.T, *registry) storeCache) {
		fsys := vfs.NewCrashableMem()
		lossy := newLossyFS(fsys)
		killed := open(t, testRegistry(t, lossy))
		s := mustOpenStore(t, killed, "", 2)
		require.NoError(t, s.Put(t.Context(), 1, []byte("one")))
		lossy.lossy.Store(true)
		require.NoError(t, s.Put(t.Context(), 2, []byte("two")))
		lossy.lossy.Store(false)
		require.Equal(t, "1:one", latestOn(t, powerCut(fsys), open), "the record must not be durable yet")

		next := open(t, testRegistry(t, fsys))
		defer mustClose(t, next)
		require.Equal(t, "2:two", latest(t, mustOpenStore(t, next, "", 2)))
		for _, disk := range powerCuts(fsys) {
			require.Equal(t, "2:two", latestOn(t, disk, open))
		}
	})
}

// The same for a deletion: a record that comes back after the store was found empty is one that was given up.
func TestLatestMakesDurableThatThereIsNoRecord(t *testing.T) {
	durableBackends(t, func(t *testing.T, open func(*testing.T, *registry) storeCache) {
		fsys := vfs.NewCrashableMem()
		lossy := newLossyFS(fsys)
		killed := open(t, testRegistry(t, lossy))
		s := mustOpenStore(t, killed, "", 2)
		require.NoError(t, s.Put(t.Context(), 7, []byte("seven")))
		lossy.lossy.Store(true)
		require.NoError(t, s.DeleteAll(t.Context()))
		lossy.lossy.Store(false)
		require.Equal(t, "7:seven", latestOn(t, powerCut(fsys), open), "the deletion must not be durable yet")

		next := open(t, testRegistry(t, fsys))
		defer mustClose(t, next)
		require.Equal(t, "none:7", latest(t, mustOpenStore(t, next, "", 2)))
		for _, disk := range powerCuts(fsys) {
			require.Equal(t, "none:7", latestOn(t, disk, open))
		}
	})
}

func TestRemovingOldRecordsNeverTakesTheNewest(t *testing.T) {
	durableBackends(t, func(t *testing.T, open func(*testing.T, *registry) storeCache) {
		fsys := vfs.NewCrashableMem()
		c := open(t, testRegistry(t, fsys))
		defer mustClose(t, c)
		s := mustOpenStore(t, c, "", 1)
		for n := uint64(1); n <= 5; n++ {
			require.NoError(t, s.Put(t.Context(), n, []byte{'0' + byte(n)}))
		}
		for _, disk := range powerCuts(fsys) {
			require.Equal(t, "5:5", latestOn(t, disk, open))
		}
		numbers, err := s.Numbers(t.Context())
		require.NoError(t, err)
		require.Equal(t, []uint64{5}, numbers)
	})
}

func TestDeleteAllSurvivesPowerCutAndKeepsTheHighestNumber(t *testing.T) {
	durableBackends(t, func(t *testing.T, open func(*testing.T, *registry) storeCache) {
		fsys := vfs.NewCrashableMem()
		c := open(t, testRegistry(t, fsys))
		defer mustClose(t, c)
		s := mustOpenStore(t, c, "", 3)
		for n := uint64(1); n <= 5; n++ {
			require.NoError(t, s.Put(t.Context(), n, []byte("x")))
		}
		require.NoError(t, s.DeleteAll(t.Context()))
		for _, disk := range powerCuts(fsys) {
			require.Equal(t, "none:5", latestOn(t, disk, open))
		}
		require.NoError(t, s.Put(t.Context(), 6, []byte("six")))
		require.NoError(t, s.DeleteAll(t.Context()))
		require.NoError(t, s.Put(t.Context(), 8, []byte("eight")))
		for _, disk := range powerCuts(fsys) {
			require.Equal(t, "8:eight", latestOn(t, disk, open))
		}
	})
}

// A kill in the middle of a deletion leaves its mark and some of the records.
func TestHalfDoneDeletionIsFinishedAndKeepsTheHighestNumber(t *testing.T) {
	fsys := vfs.NewCrashableMem()
	lossy := newLossyFS(fsys)
	killed := fileOn(t, testRegistry(t, lossy), "/state")
	s := mustOpenStore(t, killed, "", 3)
	for n := uint64(1); n <= 3; n++ {
		require.NoError(t, s.Put(t.Context(), n, []byte("x")))
	}
	lossy.lossy.Store(true)
	require.NoError(t, writeFile(lossy, "/state/stream-/00000000000000000003.deleted", nil))
	require.NoError(t, fsys.Remove("/state/stream-/00000000000000000001.record"))

	next := fileOn(t, testRegistry(t, fsys), "/state")
	defer mustClose(t, next)
	open := func(t *testing.T, r *registry) storeCache { return fileOn(t, r, "/state") }
	require.Equal(t, "none:3", latest(t, mustOpenStore(t, next, "", 3)))
	names, err := fsys.List("/state/stream-")
	require.NoError(t, err)
	require.Equal(t, []string{"00000000000000000003.deleted"}, names)
	for _, disk := range powerCuts(fsys) {
		require.Equal(t, "none:3", latestOn(t, disk, open))
	}
}

// recorder notes what is done to the disk.
type recorder struct{ ops []string }

func (r *recorder) String() string { return "recorder" }

func (r *recorder) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpRemove:
		r.ops = append(r.ops, "remove "+op.Path)
	case errorfs.OpFileSync:
		r.ops = append(r.ops, "sync "+op.Path)
	}
	return nil
}

// The removals of a deletion that is finished later may reach the disk before the mark it was found by, which is then
// all that tells the highest number. The mark goes first. (A crash clone cannot show it: it undoes removals that were
// not synced.)
func TestMarkOfADeletionIsSyncedBeforeRecordsAreRemoved(t *testing.T) {
	fsys := vfs.NewCrashableMem()
	writeText(t, fsys, "/state/FORMAT", formatTitle+"\nformat: 1\nstore_id: x\n")
	for _, name := range []string{"00000000000000000003.record", "00000000000000000003.deleted", "00000000000000000001.deleted"} {
		writeText(t, fsys, "/state/stream-/"+name, "")
	}
	rec := &recorder{}
	c := fileOn(t, testRegistry(t, errorfs.Wrap(fsys, rec)), "/state")
	defer mustClose(t, c)
	require.Equal(t, "none:3", latest(t, mustOpenStore(t, c, "", 1)))
	first := slices.Index(rec.ops, "remove /state/stream-/00000000000000000003.record")
	require.Positive(t, first, "%q", rec.ops)
	require.Equal(t, "sync /state/stream-", rec.ops[first-1], "%q", rec.ops)
	require.Contains(t, rec.ops, "remove /state/stream-/00000000000000000001.deleted")
}

func TestStoreIDAndFormatSurvivePowerCut(t *testing.T) {
	durableBackends(t, func(t *testing.T, open func(*testing.T, *registry) storeCache) {
		fsys := vfs.NewCrashableMem()
		c := open(t, testRegistry(t, fsys))
		defer mustClose(t, c)
		id := mustOpenStore(t, c, "", 1).StoreID()
		require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, id)
		for _, disk := range powerCuts(fsys) {
			again := open(t, testRegistry(t, disk))
			require.Equal(t, id, mustOpenStore(t, again, "", 1).StoreID())
			mustClose(t, again)
		}
	})
}

func TestSyncedCacheWritesSurvivePowerCut(t *testing.T) {
	fsys := vfs.NewCrashableMem()
	c := pebbleOn(t, testRegistry(t, fsys), "path: /state")
	defer mustClose(t, c)
	ctx := t.Context()
	got := func() map[string]string {
		disk := pebbleOn(t, testRegistry(t, powerCut(fsys)), "path: /state")
		defer mustClose(t, disk)
		items := map[string]string{}
		for _, k := range []string{"set", "add", "m1", "m2"} {
			if v, err := disk.Get(ctx, k); err == nil {
				items[k] = string(v)
			}
		}
		return items
	}
	require.NoError(t, c.Set(ctx, "set", []byte("1"), nil))
	require.Equal(t, map[string]string{"set": "1"}, got())
	require.NoError(t, c.Add(ctx, "add", []byte("2"), nil))
	require.Equal(t, map[string]string{"set": "1", "add": "2"}, got())
	require.NoError(t, c.SetMulti(ctx, items("m1", "3", "m2", "4")...))
	require.Equal(t, map[string]string{"set": "1", "add": "2", "m1": "3", "m2": "4"}, got())
	require.NoError(t, c.Delete(ctx, "set"))
	require.Equal(t, map[string]string{"add": "2", "m1": "3", "m2": "4"}, got())
}

// `sync: false` is faster since it does not wait for the disk; a record behind it waits for both.
func TestRecordMakesEarlierUnsyncedCacheWritesDurable(t *testing.T) {
	fsys := vfs.NewCrashableMem()
	c := pebbleOn(t, testRegistry(t, fsys), "path: /state\nsync: false")
	defer mustClose(t, c)
	s := mustOpenStore(t, c, "", 1)
	found := func() error {
		disk := pebbleOn(t, testRegistry(t, powerCut(fsys)), "path: /state")
		defer mustClose(t, disk)
		_, err := disk.Get(t.Context(), "k")
		return err
	}
	require.NoError(t, c.Set(t.Context(), "k", []byte("v"), nil))
	require.Error(t, found(), "the write must not have waited for the disk")
	require.NoError(t, s.Put(t.Context(), 1, []byte("one")))
	require.NoError(t, found())
}

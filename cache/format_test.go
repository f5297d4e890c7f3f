package cache

import (
	"context"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

func writeText(t *testing.T, fsys vfs.FS, name, text string) {
	t.Helper()
	require.NoError(t, fsys.MkdirAll(fsys.PathDir(name), 0o755))
	f, err := fsys.Create(name, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// setKey changes a key of the database in /state behind the cache's back; an empty value deletes it.
func setKey(t *testing.T, fsys vfs.FS, key, value string) {
	t.Helper()
	db, err := pebble.Open("/state", &pebble.Options{FS: fsys, FormatMajorVersion: pebbleFormat, Logger: pebbleLogger{quiet, nil}})
	require.NoError(t, err)
	if value == "" {
		require.NoError(t, db.Delete([]byte(key), pebble.Sync))
	} else {
		require.NoError(t, db.Set([]byte(key), []byte(value), pebble.Sync))
	}
	require.NoError(t, db.Close())
}

func TestDirectoriesThatAreNotReadableAreRefusedByName(t *testing.T) {
	const wayOut = "start the Tidegate version that wrote it or a newer one, or point path at an empty directory"
	used := func(t *testing.T, fsys vfs.FS) {
		c := pebbleOn(t, testRegistry(t, fsys), "path: /state")
		require.NoError(t, c.Set(t.Context(), "k", nil, nil))
		mustClose(t, c)
	}
	for _, tc := range []struct {
		name, kind string
		prepare    func(*testing.T, vfs.FS)
		says       []string
	}{
		{"newer pebble store", "pebble",
			func(t *testing.T, fsys vfs.FS) { used(t, fsys); setKey(t, fsys, keyFormat, "2") },
			[]string{`/state holds store format "2", this build reads format 1`, wayOut}},
		{"pebble store with a strange format", "pebble",
			func(t *testing.T, fsys vfs.FS) { used(t, fsys); setKey(t, fsys, keyFormat, "-1") },
			[]string{`/state holds store format "-1"`}},
		{"database of another program", "pebble",
			func(t *testing.T, fsys vfs.FS) { setKey(t, fsys, "theirs", "x") },
			[]string{"/state holds store format none, though the database is not empty"}},
		{"pebble store that lost its id", "pebble",
			func(t *testing.T, fsys vfs.FS) { used(t, fsys); setKey(t, fsys, keyStoreID, "") },
			[]string{"reading the store id"}},
		{"checkpoint_file directory for a pebble", "pebble",
			func(t *testing.T, fsys vfs.FS) { writeText(t, fsys, "/state/FORMAT", formatTitle) },
			[]string{"the directory holds a checkpoint_file store (it has a file FORMAT): change path, or the kind"}},
		{"file in the way", "pebble",
			func(t *testing.T, fsys vfs.FS) { writeText(t, fsys, "/state", "") },
			[]string{`opening pebble cache "" at /state: `}},
		{"newer checkpoint_file store", "checkpoint_file",
			func(t *testing.T, fsys vfs.FS) {
				writeText(t, fsys, "/state/FORMAT", formatTitle+"\nformat: 2\nstore_id: x\nshards: 4\n")
			},
			[]string{`/state holds store format "2", this build reads format 1`, wayOut}},
		{"strange FORMAT file", "checkpoint_file",
			func(t *testing.T, fsys vfs.FS) { writeText(t, fsys, "/state/FORMAT", "PNG\n") },
			[]string{`store format unknown, its file FORMAT begins with "PNG\n"`}},
		{"empty FORMAT file", "checkpoint_file",
			func(t *testing.T, fsys vfs.FS) { writeText(t, fsys, "/state/FORMAT", "") },
			[]string{`store format unknown, its file FORMAT begins with ""`}},
		{"FORMAT file without an id", "checkpoint_file",
			func(t *testing.T, fsys vfs.FS) { writeText(t, fsys, "/state/FORMAT", formatTitle+"\nformat: 1\n") },
			[]string{"names no store_id"}},
		{"lost FORMAT file", "checkpoint_file",
			func(t *testing.T, fsys vfs.FS) { writeText(t, fsys, "/state/stream-/x", "") },
			[]string{"store format none, though it has stream-: its file FORMAT was lost"}},
		{"pebble directory for a checkpoint_file", "checkpoint_file", used,
			[]string{"the directory holds a pebble store (it has a file marker."}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fsys := vfs.NewMem()
			tc.prepare(t, fsys)
			open := func() error {
				var c storeCache = pebbleOn(t, testRegistry(t, fsys), "path: /state")
				if tc.kind == "checkpoint_file" {
					c = fileOn(t, testRegistry(t, fsys), "/state")
				}
				_, err := c.OpenStore(t.Context(), "", 1)
				return err
			}
			for range 2 { // the first try neither heals it nor leaves the lock behind
				err := open()
				for _, says := range tc.says {
					require.ErrorContains(t, err, says)
				}
			}
		})
	}
}

// A damaged database ends the start, or the process; it is never taken for an empty one.
func TestDamagedDatabaseIsRefused(t *testing.T) {
	fsys := vfs.NewMem()
	c := pebbleOn(t, testRegistry(t, fsys), "path: /state")
	require.NoError(t, c.Set(t.Context(), "k", nil, nil))
	mustClose(t, c)
	names, err := fsys.List("/state")
	require.NoError(t, err)
	for _, n := range names {
		if len(n) > 8 && n[:8] == "MANIFEST" {
			writeText(t, fsys, "/state/"+n, "not a manifest, but long enough to have a chunk header")
		}
	}
	err = pebbleOn(t, testRegistry(t, fsys), "path: /state").Set(t.Context(), "k", nil, nil)
	require.ErrorContains(t, err, "Keep a copy of the directory, and restore it from a backup")
}

// A table that is damaged behind the database's back shows when it is read.
func TestDamagedTableEndsTheProcess(t *testing.T) {
	fsys := vfs.NewMem()
	for range 2 { // the second open writes what is in the log to a table
		c := pebbleOn(t, testRegistry(t, fsys), "path: /state")
		require.NoError(t, c.Set(t.Context(), "k", []byte("value"), nil))
		mustClose(t, c)
	}
	names, err := fsys.List("/state")
	require.NoError(t, err)
	damaged := 0
	for _, n := range names {
		if strings.HasSuffix(n, ".sst") {
			buf, err := fsys.UnsafeGetFileDataBuffer("/state/" + n)
			require.NoError(t, err)
			for i := range min(40, len(buf)) {
				buf[i] ^= 0xff
			}
			damaged++
		}
	}
	require.NotZero(t, damaged)
	r := testRegistry(t, fsys)
	died := dying(r)
	c := pebbleOn(t, r, "path: /state")
	go func() { _, _ = c.Get(context.Background(), "k") }() // never returns
	cause := waitForDeath(t, died)
	require.ErrorContains(t, cause, "state directory /state has failed: ")
	require.ErrorContains(t, cause, "the database is damaged. Keep a copy of the directory")
}

// A volume may have things of its own at its root.
func TestUnrelatedFilesDoNotMatter(t *testing.T) {
	durableBackends(t, func(t *testing.T, open func(*testing.T, *registry) storeCache) {
		fsys := vfs.NewMem()
		require.NoError(t, fsys.MkdirAll("/state/lost+found", 0o755))
		c := open(t, testRegistry(t, fsys))
		defer mustClose(t, c)
		require.NoError(t, mustOpenStore(t, c, "", 1).Put(t.Context(), 1, nil))
	})
}

func TestLeftoverTemporaryFilesAreRemoved(t *testing.T) {
	fsys := vfs.NewMem()
	c := fileOn(t, testRegistry(t, fsys), "/state")
	require.NoError(t, mustOpenStore(t, c, "", 1).Put(t.Context(), 1, []byte("one")))
	mustClose(t, c)
	writeText(t, fsys, "/state/stream-/00000000000000000002.record.tmp", "tw")
	writeText(t, fsys, "/state/stream-/notes.txt", "a person's")
	again := fileOn(t, testRegistry(t, noLock{fsys}), "/state")
	defer mustClose(t, again)
	require.Equal(t, "1:one", latest(t, mustOpenStore(t, again, "", 1)))
	names, err := fsys.List("/state/stream-")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"00000000000000000001.record", "notes.txt"}, names)
}

package cache

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// diskRegistry is a registry on the real file system.
func diskRegistry(t testing.TB) *registry {
	r := testRegistry(t, vfs.Default)
	r.canonical, r.identify = canonicalPath, os.Stat
	return r
}

// Benthos builds caches that it never closes, to lint, to test connections: building has no effect.
func TestBuildingACacheTouchesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	r := diskRegistry(t)
	for range 3 {
		pebbleOn(t, r, "path: "+path)
		fileOn(t, r, path)
	}
	require.NoDirExists(t, path)
	require.Empty(t, r.places)
}

func TestCachesOnOnePathShareOneDatabase(t *testing.T) {
	r := testRegistry(t, vfs.NewMem())
	a := pebbleOn(t, r, "path: /state\nprefix: a")
	b := pebbleOn(t, r, "path: state/\nprefix: b\nsync: false\ndefault_ttl: 1h")
	same := pebbleOn(t, r, "path: /state\nprefix: a")
	ctx := t.Context()
	require.NoError(t, a.Set(ctx, "k", []byte("a"), nil))
	require.NoError(t, b.Set(ctx, "k", []byte("b"), nil))
	for c, want := range map[*pebbleCache]string{a: "a", b: "b", same: "a"} {
		v, err := c.Get(ctx, "k")
		require.NoError(t, err)
		require.Equal(t, want, string(v))
	}
	require.Len(t, r.places, 1)
	require.Equal(t, 3, r.places["/state"].refs)

	mustClose(t, a)
	mustClose(t, same)
	v, err := b.Get(ctx, "k")
	require.NoError(t, err, "the database stays open for the last cache")
	require.Equal(t, "b", string(v))
	mustClose(t, b)
	require.Nil(t, r.places["/state"].opened)
	require.Nil(t, r.places["/state"].lock)

	again := pebbleOn(t, r, "path: /state\nprefix: a\ncache_size: 1MiB")
	defer mustClose(t, again)
	v, err = again.Get(ctx, "k")
	require.NoError(t, err, "a closed database can be opened again, with other settings")
	require.Equal(t, "a", string(v))
}

func TestOneOpensAndAllJoin(t *testing.T) {
	r := testRegistry(t, vfs.NewMem())
	var caches []*pebbleCache
	var wg sync.WaitGroup
	for i := range 4 {
		c := pebbleOn(t, r, fmt.Sprintf("path: /state\nprefix: p%d", i))
		caches = append(caches, c)
		for range 4 {
			wg.Go(func() {
				if err := c.Set(context.Background(), "k", nil, nil); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	require.Equal(t, 4, r.places["/state"].refs)
	for _, c := range caches {
		wg.Go(func() {
			if err := c.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Zero(t, r.places["/state"].refs)
	require.Nil(t, r.places["/state"].opened)
}

func TestCachesThatDoNotFitTogetherOnOnePathAreRefused(t *testing.T) {
	for _, tc := range []struct {
		name, first, second string
		err                 string
	}{
		{"other cache_size", "path: /state", "path: /state\ncache_size: 64MiB",
			`path "/state" is already open by pebble cache "" with cache_size 32 MiB and memtable_size 8.0 MiB, here it is cache_size 64 MiB`},
		{"other memtable_size", "path: /state\nmemtable_size: 1MiB", "path: /state", "share one database"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := testRegistry(t, vfs.NewMem())
			first, second := pebbleOn(t, r, tc.first), pebbleOn(t, r, tc.second)
			defer mustClose(t, first)
			require.NoError(t, first.Set(t.Context(), "k", nil, nil))
			require.ErrorContains(t, second.Set(t.Context(), "k", nil, nil), tc.err)
			mustClose(t, second)
			require.NoError(t, first.Set(t.Context(), "k", nil, nil), "the first goes on")
		})
	}
	t.Run("other kind", func(t *testing.T) {
		r := testRegistry(t, vfs.NewMem())
		first, second := pebbleOn(t, r, "path: /state"), fileOn(t, r, "/state")
		defer mustClose(t, first)
		require.NoError(t, first.Set(t.Context(), "k", nil, nil))
		_, err := second.OpenStore(t.Context(), "", 1)
		require.ErrorContains(t, err, `checkpoint_file cache "": path "/state" is already open as pebble cache ""`)
	})
}

func TestSpellingsOfOnePathAreOneDatabase(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink(dir, filepath.Join(dir, "link")))
	t.Chdir(dir)
	for _, spelling := range []string{"x/state", "./x/../x/state", dir + "/x/state", "link/x/state", "link/link/x//state/"} {
		p, err := canonicalPath(spelling)
		require.NoError(t, err)
		want, err := filepath.EvalSymlinks(dir)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(want, "x/state"), p)
	}
	r := diskRegistry(t)
	a, b := pebbleOn(t, r, "path: x/state"), pebbleOn(t, r, "path: link/x/state")
	defer mustClose(t, a)
	defer mustClose(t, b)
	require.NoError(t, a.Set(t.Context(), "k", []byte("v"), nil))
	v, err := b.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "v", string(v))
}

// Two canonical names for one directory, as bind mounts give: this process's lock would not keep it from itself.
func TestDirectoryUnderTwoNamesIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink(dir, dir+"-mount"))
	t.Cleanup(func() { _ = os.Remove(dir + "-mount") })
	r := diskRegistry(t)
	r.canonical = filepath.Abs
	a, b := pebbleOn(t, r, "path: "+dir), pebbleOn(t, r, "path: "+dir+"-mount")
	require.NoError(t, a.Set(t.Context(), "k", nil, nil))
	require.ErrorContains(t, b.Set(t.Context(), "k", nil, nil), "the directory is the same as "+dir)
	mustClose(t, a)
	require.NoError(t, b.Set(t.Context(), "k", nil, nil))
	mustClose(t, b)
}

// A cache in use is not closed under its users; one that is stuck does not hold up the stop for ever.
func TestCloseWaitsForUsersAndForTheContext(t *testing.T) {
	c, d, _ := openPebble(t, "")
	_, err := c.enter(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.Close(ctx), context.Canceled)
	require.NoError(t, d.setEntries(true, entry{key: []byte("\x01\x00k")}), "the user still works")
	closed := make(chan error)
	go func() { closed <- c.Close(context.Background()) }()
	c.lease.leave()
	select {
	case err := <-closed:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("close did not end")
	}
}

// The lock of a plain cache goes with it; that of a state store stays, and this process can open it again.
func TestLockOfAStateStoreIsKeptUntilTheProcessEnds(t *testing.T) {
	durableBackends(t, func(t *testing.T, open func(*testing.T, *registry) storeCache) {
		fsys := vfs.NewMem()
		ours, other := testRegistry(t, fsys), testRegistry(t, fsys)
		c := open(t, ours)
		require.NoError(t, mustOpenStore(t, c, "", 1).Put(t.Context(), 1, []byte("one")))
		mustClose(t, c)

		var locked *LockedError
		_, err := open(t, other).OpenStore(t.Context(), "", 1)
		require.ErrorAs(t, err, &locked)
		require.Equal(t, "/state", locked.Path)

		again := open(t, ours)
		defer mustClose(t, again)
		require.Equal(t, "1:one", latest(t, mustOpenStore(t, again, "", 1)))
	})
}

func TestLockOfAPlainCacheGoesWithIt(t *testing.T) {
	fsys := vfs.NewMem()
	ours, other := testRegistry(t, fsys), testRegistry(t, fsys)
	c, theirs := pebbleOn(t, ours, "path: /state"), pebbleOn(t, other, "path: /state")
	require.NoError(t, c.Set(t.Context(), "k", nil, nil))
	require.ErrorContains(t, theirs.Set(t.Context(), "k", nil, nil), "in use by another process")
	mustClose(t, c)
	require.NoError(t, theirs.Set(t.Context(), "k", nil, nil), "a cache tries again at each use")
	mustClose(t, theirs)
}

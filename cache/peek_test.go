package cache

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// snapshot is everything in a directory, with the times at which it was written.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		content := ""
		if !d.IsDir() {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			content = string(text)
		}
		all[path] = info.ModTime().String() + content
		return nil
	}))
	return all
}

func TestALookFindsTheNewestRecordAndChangesNothing(t *testing.T) {
	durableBackends(t, func(t *testing.T, _ func(*testing.T, *registry) storeCache) {
		kind := filepath.Base(t.Name())
		dir, err := canonicalPath(t.TempDir())
		require.NoError(t, err)
		config := map[string]any{"path": dir}
		holder := startChild(t, kind, dir)
		require.Equal(t, "ready\n", holder.first)

		_, err = Peek(kind, "state", config, "")
		var locked *LockedError
		require.ErrorAs(t, err, &locked, "while a process has it")
		require.Equal(t, holder.cmd.Process.Pid, locked.PID)
		require.Contains(t, startChild(t, kind, dir).first, "is in use by another process", "the holder still has the lock")

		holder.kill(t)
		before := snapshot(t, dir)
		p, err := Peek(kind, "state", config, "")
		require.NoError(t, err)
		require.Equal(t, before, snapshot(t, dir))
		require.EqualValues(t, 1, p.Number)
		require.Equal(t, "one", string(p.Data))
		require.Len(t, p.StoreID, 36)
		require.True(t, p.Durable)
		require.Contains(t, p.Place, kind+` cache "state" (`+dir)

		other, err := Peek(kind, "state", config, "another stream")
		require.NoError(t, err)
		require.Nil(t, other.Data)
		require.Zero(t, other.Number)
		require.Equal(t, p.StoreID, other.StoreID)
		require.Equal(t, before, snapshot(t, dir))
	})
}

func TestALookAtDeletedRecordsKnowsTheirNumber(t *testing.T) {
	durableBackends(t, func(t *testing.T, _ func(*testing.T, *registry) storeCache) {
		kind, dir := filepath.Base(t.Name()), t.TempDir()
		holder := startChild(t, kind+"/deletes", dir)
		require.Equal(t, "ready\n", holder.first)
		holder.kill(t)
		p, err := Peek(kind, "state", map[string]any{"path": dir}, "")
		require.NoError(t, err)
		require.Nil(t, p.Data)
		require.EqualValues(t, 1, p.Number)
	})
}

func TestALookMakesNoDirectoryAndNoStore(t *testing.T) {
	durableBackends(t, func(t *testing.T, _ func(*testing.T, *registry) storeCache) {
		kind, dir := filepath.Base(t.Name()), t.TempDir()
		for _, path := range []string{dir, filepath.Join(dir, "none", "yet")} {
			p, err := Peek(kind, "state", map[string]any{"path": path}, "")
			require.NoError(t, err)
			require.Nil(t, p.Data)
			require.Zero(t, p.Number)
			require.Empty(t, p.StoreID)
		}
		require.Len(t, snapshot(t, dir), 1)
	})
}

func TestALookFailsAsAStartDoes(t *testing.T) {
	durableBackends(t, func(t *testing.T, _ func(*testing.T, *registry) storeCache) {
		kind := filepath.Base(t.Name())
		for name, spoil := range map[string]func(t *testing.T, dir string){
			"newest record lost": func(t *testing.T, dir string) {
				file := filepath.Join(dir, streamDir+escape("")+witnessSuffix)
				both := append(make([]byte, 0, 2*witnessPage), witnessed(7)...)
				require.NoError(t, os.WriteFile(file, append(both[:witnessPage], witnessed(7)...), 0o600))
			},
			"of another kind": func(t *testing.T, dir string) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, formatFile), []byte("nothing of ours\n"), 0o600))
			},
		} {
			t.Run(name, func(t *testing.T) {
				dir, err := canonicalPath(t.TempDir())
				require.NoError(t, err)
				holder := startChild(t, kind, dir)
				holder.kill(t)
				spoil(t, dir)
				_, looked := Peek(kind, "", map[string]any{"path": dir}, "")
				start := startChild(t, kind, dir)
				var of *StoreError
				require.ErrorAs(t, looked, &of)
				require.Equal(t, "error: "+of.Err.Error()+"\n", start.first)
			})
		}
	})
}

package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// canonicalPath returns one name for a directory, however it is spelled: absolute, without symbolic links. The
// directory need not exist. Two names for one directory would open one database twice in this process, which the lock
// cannot prevent: a process does not exclude itself.
func canonicalPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for dir := abs; ; dir = filepath.Dir(dir) {
		resolved, err := filepath.EvalSymlinks(dir)
		if err == nil {
			return filepath.Join(resolved, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if dir == filepath.Dir(dir) {
			return abs, nil
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// makeDir makes a directory with its parents, so that they survive a power cut. Parents that were there already are
// synced too, as far as they let us: a kill between the making and the sync leaves a directory that only looks durable.
func makeDir(fsys vfs.FS, path string) error {
	made := map[string]bool{}
	for dir := path; ; dir = fsys.PathDir(dir) {
		if _, err := fsys.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) || dir == fsys.PathDir(dir) {
			break
		}
		made[dir] = true
	}
	if err := fsys.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("making directory: %w", err)
	}
	for dir := path; dir != fsys.PathDir(dir); dir = fsys.PathDir(dir) {
		if err := syncDir(fsys, fsys.PathDir(dir)); err != nil && made[dir] {
			return err
		}
	}
	return nil
}

// syncDir makes the names in a directory durable.
func syncDir(fsys vfs.FS, path string) error {
	d, err := fsys.OpenDir(path)
	if err != nil {
		return fmt.Errorf("opening directory %s to sync it: %w", path, err)
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("syncing directory %s: %w", path, err)
	}
	return nil
}

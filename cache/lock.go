package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const lockFile = "LOCK"

// LockedError says that another process uses a directory of ours.
type LockedError struct {
	Path string
	// PID is the process that holds the lock, 0 where the system does not tell: in another container as a rule.
	PID int
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("another process (pid %d)", e.PID)
	}
	return fmt.Sprintf("directory %s is in use by %s, most likely another connect with the same path in its config or "+
		"one that is still shutting down: stop that one, or give each its own path. Two jobs never share a state directory",
		e.Path, who)
}

// lockDir locks a directory for this process.
func lockDir(fsys vfs.FS, path string) (*pebble.Lock, error) {
	l, err := pebble.LockDirectory(path, fsys)
	if err == nil {
		return l, nil
	}
	// A bare errno comes from the lock itself; a PathError, from making its file.
	var pathErr *fs.PathError
	if !errors.As(err, &pathErr) && (errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES)) {
		pid, _ := lockHolder(fsys.PathJoin(path, lockFile))
		return nil, &LockedError{Path: path, PID: pid}
	}
	if errors.As(err, &pathErr) {
		return nil, fmt.Errorf("making the lock file: %w", err)
	}
	return nil, fmt.Errorf("locking: %w: the file system does not lock files, as network file systems without a lock "+
		"service do not. State needs a directory that can be locked: put it on a local disk or a block volume", err)
}

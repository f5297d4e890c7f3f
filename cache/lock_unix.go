//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package cache

import (
	"io"
	"os"
	"syscall"
)

// lockHolder asks who holds the lock on a file, 0 where nobody knows, and whether somebody does. It must only be called for a file that this
// process has not locked: closing any descriptor of a file drops the process's own locks on it.
func lockHolder(file string) (pid int, held bool) {
	f, err := os.Open(file)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	q := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &q); err != nil || q.Type == syscall.F_UNLCK {
		return 0, false
	}
	return int(q.Pid), true
}

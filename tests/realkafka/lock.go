package realkafka

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// fileLock is an advisory lock that ends with the process that holds it.
type fileLock struct{ file *os.File }

// lockFile takes the lock of a file, creating it. Without wait it returns nil where another process holds it.
func lockFile(path string, wait bool) (*fileLock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening lock file: %w", err)
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		err = syscall.Flock(int(file.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return &fileLock{file}, nil
}

func (l *fileLock) unlock() { _ = l.file.Close() }

package cache

import (
	"errors"
	"io/fs"
	"syscall"
)

// remedies are what a person can do about errors of the file system.
var remedies = []struct {
	of   []error
	text string
}{
	{
		[]error{syscall.ENOSPC, syscall.EDQUOT},
		"the disk or its quota is full, of bytes (df) or of files (df -i). Free space and start again: nothing that was recorded is lost",
	},
	{
		[]error{syscall.EROFS},
		"the file system is mounted read-only, as it also is after errors of the disk. Mount it writable, and start again",
	},
	{
		[]error{syscall.EACCES, syscall.EPERM},
		"this process's user may not write there. Change the owner of the directory, and start again",
	},
	{[]error{syscall.EIO}, "the disk reports errors. Check it before you start again"},
	{
		[]error{syscall.EMFILE, syscall.ENFILE},
		"there are no file descriptors left. Raise the limit (ulimit -n, or LimitNOFILE of the unit), and start again",
	},
	{
		[]error{syscall.ESTALE, syscall.ENODEV, syscall.ENXIO, syscall.ENOTCONN, syscall.ETIMEDOUT},
		"the disk is no longer connected. Bring it back, and start again",
	},
	{
		[]error{fs.ErrNotExist},
		"it was there when the job was started: the directory was removed, or its volume unmounted, while the job ran. Bring it " +
			"back as it is, and start again",
	},
}

// remedied is an error that says what a person can do.
type remedied struct {
	error
	text string
}

func (r remedied) Error() string { return r.error.Error() + ": " + r.text }
func (r remedied) Unwrap() error { return r.error }

// withRemedy adds what a person can do about an error of the file system, once.
func withRemedy(err error) error {
	var has remedied
	if errors.As(err, &has) {
		return err
	}
	for _, r := range remedies {
		for _, of := range r.of {
			if errors.Is(err, of) {
				return remedied{err, r.text}
			}
		}
	}
	return err
}

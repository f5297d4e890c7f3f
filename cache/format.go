package cache

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// FormatError says that a directory does not hold a store format that this build reads.
type FormatError struct {
	Path  string
	Found string // what is there instead
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s holds store format %s, this build reads format %d: start the Tidegate version that wrote it or a "+
		"newer one, or point path at an empty directory (the sources then begin by their startup.mode, and transactions that "+
		"were not yet committed are aborted)", e.Path, e.Found, storeFormat)
}

// errNoStore says that a directory does not hold a store yet.
var errNoStore = errors.New("there is no store in it yet")

// checkFormat refuses a store format that this build does not read, by name.
func checkFormat(path, found string) error {
	if n, err := strconv.Atoi(found); err == nil && n >= 1 && n <= storeFormat {
		return nil
	}
	return &FormatError{Path: path, Found: strconv.Quote(found)}
}

// newStoreID makes a random UUID (version 4).
func newStoreID() string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // never fails
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// refuseForeign refuses a directory that a cache of another kind has written, which a file of that name gives away.
func refuseForeign(fsys vfs.FS, path, filePrefix, kind string) error {
	names, err := fsys.List(path)
	if err != nil {
		return fmt.Errorf("listing directory: %w", err)
	}
	for _, n := range names {
		if strings.HasPrefix(n, filePrefix) {
			return fmt.Errorf("the directory holds a %s store (it has a file %s): change path, or the kind of the cache", kind, n)
		}
	}
	return nil
}

// errUnreadable says that Pebble does not take what it has read, and not that it could not read it.
var errUnreadable = errors.New("the database cannot be read")

// unreadable marks an error of opening a database, unless the file system is its cause.
func unreadable(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, pebble.ErrDBNotPristine) || pebble.IsCorruptionError(err) {
		return err
	}
	return fmt.Errorf("%w: %w", errUnreadable, err)
}

// explain adds the likely cause and the way out to an error of opening a directory.
func explain(path string, err error) error {
	var made *fs.PathError
	switch {
	case errors.As(err, &made) && made.Op == "mkdir" && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, syscall.EEXIST):
		return withRemedy(err) // There is no directory yet, so nothing is missing from it.
	case pebble.IsCorruptionError(err):
		return fmt.Errorf("%w: the database is damaged. Keep a copy of the directory, and restore it from a backup; or point "+
			"path at an empty directory: the sources then begin by their startup.mode, and transactions that were not yet "+
			"committed are aborted, so what they hold is read again or lost as that mode has it", err)
	case errors.Is(err, errUnreadable):
		return fmt.Errorf("%w: it is damaged, or a newer version has written it. Start that version, or restore the directory from a "+
			"backup", err)
	case errors.Is(err, pebble.ErrDBNotPristine), errors.Is(err, fs.ErrNotExist), errors.Is(err, errPartial):
		return fmt.Errorf("%w: the directory holds only part of a database. If files were copied or deleted by hand, restore them "+
			"all; if the machine lost power while the very first start was making it, there is nothing in it yet: remove it", err)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EEXIST):
		return fmt.Errorf("%w: %s, or something on the way to it, is a file: path must name a directory", err, path)
	}
	return withRemedy(err)
}

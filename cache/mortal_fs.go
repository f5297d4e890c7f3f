package cache

import (
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// mortalFS ends the process when the write-ahead log or the directory of an open database cannot be written. Pebble
// would end it too, but only at a later write that is waited for, and some of its ways to that are panics with a mutex
// in the wrong state, which nobody can recover from.
type mortalFS struct {
	vfs.FS
	death *death
}

const logSuffix = ".log"

// fatal passes on an error, if the database is not open yet: opening it returns the error then.
func (m mortalFS) fatal(doing, name string, err error) error {
	if err != nil && m.death.open.Load() {
		m.death.die(fmt.Errorf("%s %s: %w", doing, m.PathBase(name), err))
	}
	return err
}

func (m mortalFS) wrap(name string, f vfs.File, err error) (vfs.File, error) {
	if !strings.HasSuffix(name, logSuffix) {
		return f, err
	}
	if m.fatal("making", name, err) != nil {
		return nil, err
	}
	return mortalFile{f, name, m}, nil
}

func (m mortalFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := m.FS.Create(name, c)
	return m.wrap(name, f, err)
}

func (m mortalFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := m.FS.ReuseForWrite(oldname, newname, c)
	return m.wrap(newname, f, err)
}

func (m mortalFS) OpenDir(name string) (vfs.File, error) {
	f, err := m.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return mortalFile{f, name, m}, nil
}

type mortalFile struct {
	vfs.File
	name string
	fs   mortalFS
}

func (f mortalFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.fs.fatal("writing", f.name, err)
}

func (f mortalFile) Sync() error { return f.fs.fatal("syncing", f.name, f.File.Sync()) }

func (f mortalFile) SyncData() error { return f.fs.fatal("syncing", f.name, f.File.SyncData()) }

// logAside is how much of the disk is set aside for a log in advance. Pebble would take a memtable's size for each of the
// four logs that it keeps, and those of records alone are flushed when they have reached flushAfter.
const logAside = flushAfter * 5 / 4

func (f mortalFile) Preallocate(offset, length int64) error {
	return f.File.Preallocate(offset, min(length, logAside))
}

package cache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/benthosx"
)

// A look at a stream's records by a process that runs no stream. It changes nothing in the directory and takes no lock,
// not even for a moment: a job that starts just then would find the lock taken, and end.

// Peeked is the newest record of a stream, as a start would find it.
type Peeked struct {
	// Place names the cache and its directory.
	Place string
	// Number is the highest that was ever put, 0 for none. Data is the record of that number, nil where it is deleted.
	Number uint64
	Data   []byte
	// StoreID is empty where there is no store yet.
	StoreID string
	// Durable tells whether records survive the process: where they do not there is nothing to be seen.
	Durable bool
}

// Peek reads the newest record of a stream from the cache of that kind and config. It must not be called in a process
// that uses the directory, whose lock it would drop. Its errors are *StoreError, as OpenStore's are; it wraps *LockedError where a job is running.
func Peek(kind, label string, config map[string]any, streamID string) (Peeked, error) {
	p, err := peek(kind, label, config, streamID)
	if err != nil {
		return p, &StoreError{Field: "checkpoint.store", Label: label, Err: err}
	}
	return p, nil
}

func peek(kind, label string, config map[string]any, streamID string) (Peeked, error) {
	var spec *service.ConfigSpec
	var look func(fsys vfs.FS, path, streamID string) (Peeked, error)
	switch kind {
	case "checkpoint_memory":
		return Peeked{Place: fmt.Sprintf("%s cache %q", kind, label)}, nil
	case "pebble":
		spec, look = pebbleSpec(), peekDatabase
	case "checkpoint_file":
		spec, look = checkpointFileSpec(), peekRecordDir
	default:
		return Peeked{}, ErrNotAStore
	}
	conf, err := benthosx.ParseMap(spec, config)
	if err != nil {
		return Peeked{}, fmt.Errorf("building the cache: %w", err)
	}
	configured, err := pathFromConfig(conf)
	if err != nil {
		return Peeked{}, fmt.Errorf("building the cache: %w", err)
	}
	path, err := canonicalPath(configured)
	if err != nil {
		return Peeked{}, fmt.Errorf("%s cache %q: path %q: %w", kind, label, configured, explain(configured, err))
	}
	fsys := onlooker{vfs.Default}
	p, err := peekUnlocked(fsys, path, func() (Peeked, error) { return look(fsys, path, streamID) })
	p.Place, p.Durable = fmt.Sprintf("%s cache %q (%s)", kind, label, path), true
	if _, opened := errors.AsType[*recordsError](err); err != nil && !opened {
		return p, fmt.Errorf("opening %s cache %q at %s: %w", kind, label, path, explain(path, err))
	}
	return p, err
}

// listingRecords is what a start that finds out is doing.
const listingRecords = "listing records"

// recordsError is an error of the records in a directory that could be opened.
type recordsError struct {
	doing string
	err   error
}

func (e *recordsError) Error() string { return fmt.Sprintf("%s: %v", e.doing, e.err) }
func (e *recordsError) Unwrap() error { return e.err }

// peekUnlocked looks into a directory that nobody uses before and after the look: what it has seen of one that a job was
// just opening means nothing.
func peekUnlocked(fsys vfs.FS, path string, look func() (Peeked, error)) (Peeked, error) {
	if _, err := fsys.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return Peeked{}, nil
	}
	locked := func() error {
		if pid, held := lockHolder(fsys.PathJoin(path, lockFile)); held {
			return &LockedError{Path: path, PID: pid}
		}
		return nil
	}
	if err := locked(); err != nil {
		return Peeked{}, err
	}
	p, err := look()
	if err := locked(); err != nil {
		return Peeked{}, err
	}
	if errors.Is(err, errNoStore) {
		return Peeked{}, nil
	}
	return p, err
}

func peekDatabase(fsys vfs.FS, path, streamID string) (p Peeked, err error) {
	if err := refuseForeign(fsys, path, formatFile, "checkpoint_file"); err != nil {
		return p, err
	}
	if err := refuseDamaged(fsys, path); err != nil {
		return p, err
	}
	if desc, err := pebble.Peek(path, fsys); err != nil || !desc.Exists {
		return p, err
	}
	defer func() {
		if cause := recover(); cause != nil { // Pebble panics where it reads what it does not expect
			err = fmt.Errorf("%w: %v", errUnreadable, cause)
		}
	}()
	db, err := pebble.Open(path, &pebble.Options{FS: fsys, ReadOnly: true, Logger: mute{}})
	if err != nil {
		return p, unreadable(err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	d := &database{db: db, fs: fsys, path: path}
	if err := d.identify(); err != nil {
		return p, err
	}
	r := newPebbleRecords(d, streamID)
	numbers, highest, err := r.list()
	if err != nil {
		return p, &recordsError{listingRecords, err}
	}
	p.StoreID = d.id
	return p, p.read(numbers, highest, r.newest, r)
}

func peekRecordDir(fsys vfs.FS, path, streamID string) (p Peeked, err error) {
	if err := refuseForeign(fsys, path, "marker.", "pebble"); err != nil {
		return p, err
	}
	d := &recordDir{fs: fsys, path: path, log: slog.New(slog.DiscardHandler)}
	if err := d.identify(); err != nil {
		return p, err
	}
	p.StoreID = d.id
	r := d.records(streamID, nil)
	numbers, marks, _, err := r.list()
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // the store is that of other streams so far, unless the witness knows better
	}
	if err != nil {
		return p, &recordsError{listingRecords, withRemedy(err)}
	}
	highest := highestOf(numbers, marks)
	if len(marks) > 0 {
		live, _ := slices.BinarySearch(numbers, marks[len(marks)-1]+1)
		numbers = numbers[live:]
	}
	return p, p.read(numbers, highest, r.newest, r)
}

// read fills in the newest record.
func (p *Peeked) read(numbers []uint64, highest uint64, newest *witness, from recordKeeper) (err error) {
	if err := newest.compare(from.describe(), highest); err != nil && !errors.Is(err, errNoWitness) {
		return &recordsError{listingRecords, withRemedy(err)}
	}
	p.Number = highest
	if len(numbers) == 0 {
		return nil
	}
	p.Number = numbers[len(numbers)-1]
	if p.Data, err = from.read(p.Number); err != nil {
		return &recordsError{fmt.Sprintf("reading record %d", p.Number), withRemedy(err)}
	}
	return nil
}

// errOnlooker is what a look gets that would change something.
var errOnlooker = errors.New("the directory is only looked at")

// onlooker is a file system in which nothing can be changed, and in which a lock is none.
type onlooker struct{ vfs.FS }

func (onlooker) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return nil, errOnlooker }
func (onlooker) Link(string, string) error                              { return errOnlooker }
func (onlooker) Remove(string) error                                    { return errOnlooker }
func (onlooker) RemoveAll(string) error                                 { return errOnlooker }
func (onlooker) Rename(string, string) error                            { return errOnlooker }
func (onlooker) MkdirAll(string, fs.FileMode) error                     { return errOnlooker }
func (onlooker) Lock(string) (io.Closer, error)                         { return io.NopCloser(nil), nil }
func (onlooker) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, errOnlooker
}

func (onlooker) ReuseForWrite(string, string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errOnlooker
}

// mute says nothing. What Pebble calls fatal it also returns, but for failed writes, which a look does not have.
type mute struct{}

func (mute) Infof(string, ...any)           {}
func (mute) Errorf(string, ...any)          {}
func (mute) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

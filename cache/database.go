package cache

import (
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// storeFormat is the store format this build writes and the newest it reads; doc.go describes it.
	storeFormat = 1
	// pebbleFormat is Pebble's own format. It is pinned, so that an upgrade of Pebble alone never makes a directory
	// unreadable for the version before.
	pebbleFormat = pebble.FormatTableFormatV6
	// flushAfter is how many bytes, and flushAfterRecords how many records of the size of the last, are written to the log
	// until it is flushed, whatever the memtable may hold: small records would take tens of thousands of checkpoints to fill
	// one, and as long would logs and tables grow.
	flushAfter        = 512 << 10
	flushAfterRecords = 16
	// maxManifest is when Pebble begins a new manifest; by its own measure of 128 MiB it would grow for years.
	maxManifest = 64 << 10
	// maxValue bounds one value; Pebble panics on a batch of 4 GiB.
	maxValue = 1 << 30
)

// sizes are the settings that all caches on one database share, in bytes.
type sizes struct{ cache, memtable uint64 }

// database is an open Pebble database. Its users hold leases, so none of its methods is called after Close.
type database struct {
	db   *pebble.DB
	fs   vfs.FS
	path string
	// anchored tells whether path is still the directory that was opened.
	anchored func() error
	id       string
	log      *slog.Logger
	now      func() time.Time
	death    *death
	seats    *seats
	health   *health

	// stripes make read-then-write atomic for each entry.
	stripes [256]sync.Mutex
	seed    maphash.Seed
	// expiring is set once an entry that expires was ever written: until then no write has to look for one.
	expiring atomic.Bool

	recordedBytes atomic.Int64 // by records, since the last flush for their sake

	// stalled ends the watch over a stall of writes; Pebble has one at a time.
	stalled atomic.Pointer[func()]

	stop    chan struct{} // closed to end the sweeper
	stopped chan struct{} // closed by the sweeper when it has ended
}

// openDatabase returns the openFunc of a Pebble database.
func openDatabase(size sizes, log *slog.Logger, h *health) openFunc {
	return func(r *registry, path string, lock *pebble.Lock) (opened, error) {
		if err := refuseForeign(r.fs, path, formatFile, "checkpoint_file"); err != nil {
			return nil, err
		}
		if err := refuseDamaged(r.fs, path); err != nil {
			return nil, err
		}
		anchored, err := r.anchor(path)
		if err != nil {
			return nil, err
		}
		d := &database{
			anchored: anchored,
			fs:       r.fs, path: path, log: log, now: r.now, seed: maphash.MakeSeed(),
			death: &death{path: path, log: log, now: r.now, fatal: r.fatal, health: h}, health: h,
			stop: make(chan struct{}), stopped: make(chan struct{}),
		}
		d.seats = newSeats(func(streamID string) recordKeeper { return newPebbleRecords(d, streamID) })
		defer d.death.dieOfPanic("opening")
		db, err := pebble.Open(path, d.pebbleOptions(r.fs, lock, size))
		if err != nil {
			return nil, unreadable(err)
		}
		d.db = db
		d.death.open.Store(true)
		if err := d.begin(); err != nil {
			return nil, errors.Join(err, db.Close())
		}
		log.Info("opened the database", "path", path, "store_id", d.id)
		go d.sweepEvery(r.sweepEvery)
		return d, nil
	}
}

func (d *database) pebbleOptions(fsys vfs.FS, lock *pebble.Lock, size sizes) *pebble.Options {
	opts := &pebble.Options{
		FS:     mortalFS{fsys, d.death},
		Lock:   lock,
		Logger: pebbleLogger{d.log, d.death},
		EventListener: &pebble.EventListener{
			BackgroundError: d.death.backgroundError,
			DataCorruption:  d.death.corrupted,
			WriteStallBegin: d.stallBegins,
			WriteStallEnd:   d.stallEnds,
		},
		FormatMajorVersion:  pebbleFormat,
		CacheSize:           int64(size.cache),
		MemTableSize:        size.memtable,
		MaxManifestFileSize: maxManifest,
		// The write-ahead log is what makes a record durable: it is on, and in one place.
		DisableWAL:    false,
		WALFailover:   nil,
		NoSyncOnClose: false,
	}
	// Most reads of a deduplicating pipeline are for keys that are not there.
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return opts
}

// begin checks the store format, or makes an empty database a store.
func (d *database) begin() error {
	err := d.identify()
	if errors.Is(err, errNoStore) {
		return d.create()
	}
	if err != nil {
		return err
	}
	return d.iterate([]byte(spaceExpiry), spaceEnd([]byte(spaceExpiry)), func([]byte) (bool, error) {
		d.expiring.Store(true)
		return false, nil
	})
}

// identify checks the store format and reads the store's id. It returns errNoStore where there is none yet.
func (d *database) identify() error {
	format, err := d.get([]byte(keyFormat))
	if errors.Is(err, pebble.ErrNotFound) {
		return errNoStore
	}
	if err != nil {
		return fmt.Errorf("reading the store format: %w", err)
	}
	if err := checkFormat(d.path, string(format)); err != nil {
		return err
	}
	id, err := d.get([]byte(keyStoreID))
	if err != nil {
		return fmt.Errorf("reading the store id: %w", err)
	}
	d.id = string(id)
	return nil
}

func (d *database) create() error {
	empty := true
	if err := d.iterate(nil, nil, func([]byte) (bool, error) { empty = false; return false, nil }); err != nil {
		return err
	}
	if !empty {
		return &FormatError{Path: d.path, Found: "none, though the database is not empty"}
	}
	d.id = newStoreID()
	b := d.db.NewBatch()
	defer b.Close()
	if err := errors.Join(
		b.Set([]byte(keyFormat), []byte(strconv.Itoa(storeFormat)), nil),
		b.Set([]byte(keyStoreID), []byte(d.id), nil)); err != nil {
		return fmt.Errorf("making the store: %w", err)
	}
	return d.commit(b, true)
}

// get returns a copy of a value, or pebble.ErrNotFound.
func (d *database) get(key []byte) ([]byte, error) {
	v, closer, err := d.db.Get(key)
	if err != nil {
		return nil, err
	}
	c := append(make([]byte, 0, len(v)), v...)
	return c, closer.Close()
}

// iterate calls each with the keys from start up to end, until it returns false or an error. The key is only valid
// during the call.
func (d *database) iterate(start, end []byte, each func(key []byte) (bool, error)) error {
	it, err := d.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		goOn, err := each(it.Key())
		if err != nil {
			return errors.Join(err, it.Close())
		}
		if !goOn {
			break
		}
	}
	return errors.Join(it.Error(), it.Close())
}

// commit applies a batch, and with sync returns only when it would survive a power cut. A log that cannot be written
// ends the process (see mortalFS); so do Pebble's Fatalf and its panics. An error that is returned nevertheless has an
// unknown outcome.
func (d *database) commit(b *pebble.Batch, sync bool) error {
	defer d.death.dieOfPanic("writing")
	opts := pebble.NoSync
	if sync {
		opts = pebble.Sync
	}
	return b.Commit(opts)
}

// sync makes everything that was committed before durable.
func (d *database) sync() error {
	b := d.db.NewBatch()
	defer b.Close()
	// A batch without an entry would not reach the log at all.
	if err := b.LogData([]byte{0}, nil); err != nil {
		return err
	}
	return d.commit(b, true)
}

// recorded is told how much a record has added to the log. Now and then it has the log flushed, so that a directory that
// holds little else stays as small as it was on its first day: what is removed goes with the tables.
func (d *database) recorded(bytes int) {
	if d.recordedBytes.Add(int64(bytes)) < max(flushAfter, flushAfterRecords*int64(bytes)) {
		return
	}
	d.recordedBytes.Store(0)
	defer d.death.dieOfPanic("flushing")
	if _, err := d.db.AsyncFlush(); err != nil {
		// It begins a new log. Where that fails, nothing can be written any more.
		d.death.die(fmt.Errorf("beginning a new log: %w", err))
	}
}

// stallBegins is told when writes wait until tables are written. It is called with Pebble's mutex held.
func (d *database) stallBegins(pebble.WriteStallBeginInfo) {
	done := d.health.watch("writing tables, for which all writes wait,")
	d.stalled.Store(&done)
}

func (d *database) stallEnds() {
	if done := d.stalled.Swap(nil); done != nil {
		(*done)()
	}
}

func (d *database) seatOf(streamID string) *seat { return d.seats.of(streamID) }

func (d *database) storeID() string { return d.id }

// Close ends the sweeper and closes the database. What was committed without sync is synced by it.
func (d *database) Close() error {
	close(d.stop)
	<-d.stopped
	d.log.Debug("closing the database", "path", d.path)
	return d.db.Close()
}

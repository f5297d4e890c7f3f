package cache

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/killpoint"
)

const (
	formatFile    = "FORMAT"
	formatTitle   = "tidegate checkpoint_file"
	streamDir     = "stream-"
	recordSuffix  = ".record"
	deletedSuffix = ".deleted"
	tempSuffix    = ".tmp"
)

// recordDir is an open directory of a checkpoint_file cache.
type recordDir struct {
	fs    vfs.FS
	path  string
	id    string
	log   *slog.Logger
	seats *seats
}

// openRecordDir returns the openFunc of a checkpoint_file directory.
func openRecordDir(log *slog.Logger) openFunc {
	return func(r *registry, path string, _ *pebble.Lock) (opened, error) {
		if err := refuseForeign(r.fs, path, "marker.", "pebble"); err != nil {
			return nil, err
		}
		d := &recordDir{fs: r.fs, path: path, log: log}
		anchored, err := r.anchor(path)
		if err != nil {
			return nil, err
		}
		d.seats = newSeats(func(streamID string) recordKeeper {
			return d.records(streamID, anchored)
		})
		if err := d.begin(); err != nil {
			return nil, err
		}
		log.Info("opened the checkpoint directory", "path", path, "store_id", d.id)
		return d, nil
	}
}

// records are those of one stream.
func (d *recordDir) records(streamID string, anchored func() error) *fileRecords {
	return &fileRecords{
		dir: d, path: d.fs.PathJoin(d.path, streamDir+escape(streamID)), newest: newWitness(d.fs, d.path, streamID, anchored),
	}
}

func (d *recordDir) seatOf(streamID string) *seat { return d.seats.of(streamID) }
func (d *recordDir) storeID() string              { return d.id }
func (d *recordDir) Close() error                 { return nil }

// begin checks the store format, or makes a directory without records a store.
func (d *recordDir) begin() error {
	err := d.identify()
	if errors.Is(err, errNoStore) {
		return d.create()
	}
	return err
}

// identify checks the store format and reads the store's id. It returns errNoStore where there is none yet.
func (d *recordDir) identify() error {
	text, err := readFile(d.fs, d.fs.PathJoin(d.path, formatFile))
	if errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(d.refuseStray(), errNoStore)
	}
	if err != nil {
		return fmt.Errorf("reading the store format: %w", err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if lines[0] != formatTitle || len(lines) < 2 {
		return &FormatError{Path: d.path, Found: fmt.Sprintf("unknown, its file %s begins with %.40q", formatFile, text)}
	}
	if err := checkFormat(d.path, strings.TrimPrefix(lines[1], "format: ")); err != nil {
		return err
	}
	if len(lines) != 3 || !strings.HasPrefix(lines[2], "store_id: ") {
		return &FormatError{Path: d.path, Found: fmt.Sprintf("unknown, its file %s names no store_id", formatFile)}
	}
	d.id = strings.TrimPrefix(lines[2], "store_id: ")
	return nil
}

// refuseStray refuses a directory that has records and lacks what says whose.
func (d *recordDir) refuseStray() error {
	names, err := d.fs.List(d.path)
	if err != nil {
		return fmt.Errorf("listing directory: %w", err)
	}
	for _, n := range names {
		if strings.HasPrefix(n, streamDir) {
			return &FormatError{Path: d.path, Found: fmt.Sprintf("none, though it has %s: its file %s was lost", n, formatFile)}
		}
	}
	return nil
}

func (d *recordDir) create() error {
	d.id = newStoreID()
	text := fmt.Sprintf("%s\nformat: %d\nstore_id: %s\n", formatTitle, storeFormat, d.id)
	if err := writeFile(d.fs, d.fs.PathJoin(d.path, formatFile), []byte(text)); err != nil {
		return fmt.Errorf("making the store: %w", err)
	}
	return nil
}

// fileRecords keeps the records of one stream, one file each. load makes its directory.
type fileRecords struct {
	dir    *recordDir
	path   string
	newest *witness
}

// load also removes what a write that was not finished has left.
func (r *fileRecords) load() (numbers []uint64, highest uint64, err error) {
	fsys := r.dir.fs
	// After a failed write it is called again. Where the directory is gone by then, none must be made in its place.
	if err := r.newest.anchored(); err != nil {
		return nil, 0, err
	}
	if err := makeDir(fsys, r.path); err != nil {
		return nil, 0, err
	}
	numbers, marks, temps, err := r.list()
	if err != nil {
		return nil, 0, err
	}
	for _, name := range temps {
		r.discard(name)
	}
	highest = highestOf(numbers, marks)
	if err := r.newest.confirm(r.path, highest); err != nil || len(marks) == 0 {
		return numbers, highest, err
	}
	numbers, err = r.finishClear(numbers, marks)
	return numbers, highest, err
}

// list returns the numbers of records and of marks that records up to them are deleted, in ascending order, and the
// files that a write which was not finished has left.
func (r *fileRecords) list() (numbers, marks []uint64, temps []string, err error) {
	names, err := r.dir.fs.List(r.path)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("listing directory: %w", err)
	}
	for _, name := range names {
		if n, ok := numberOf(name, deletedSuffix); ok {
			marks = append(marks, n)
		} else if n, ok := numberOf(name, recordSuffix); ok {
			numbers = append(numbers, n)
		} else if strings.HasSuffix(name, tempSuffix) {
			temps = append(temps, name)
		}
	}
	slices.Sort(numbers)
	slices.Sort(marks)
	return numbers, marks, temps, nil
}

// highestOf returns the highest number that was ever put.
func highestOf(numbers, marks []uint64) (highest uint64) {
	for _, all := range [][]uint64{numbers, marks} {
		if len(all) > 0 {
			highest = max(highest, all[len(all)-1])
		}
	}
	return highest
}

// finishClear goes on with a deletion that was cut short, and returns the records that are not deleted.
func (r *fileRecords) finishClear(numbers, marks []uint64) ([]uint64, error) {
	deleted := slices.Max(marks)
	live, _ := slices.BinarySearch(numbers, deleted+1)
	if live == 0 && len(marks) == 1 {
		return numbers, nil
	}
	// The newest mark may only be visible. If a power cut took it, but not the removals that follow, nothing would tell
	// the highest number any more.
	if err := syncDir(r.dir.fs, r.path); err != nil {
		return nil, err
	}
	for _, n := range numbers[:live] {
		r.discard(fileName(n, recordSuffix))
	}
	for _, n := range marks {
		if n != deleted {
			r.discard(fileName(n, deletedSuffix))
		}
	}
	return numbers[live:], nil
}

func (r *fileRecords) read(number uint64) ([]byte, error) {
	return readFile(r.dir.fs, r.file(number, recordSuffix))
}

// secure syncs the record, its name, and the names on the way to it that load may only have found to be there.
func (r *fileRecords) secure(number uint64) error {
	if number != 0 {
		f, err := r.dir.fs.Open(r.file(number, recordSuffix))
		if err != nil {
			return fmt.Errorf("opening record to sync it: %w", err)
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return fmt.Errorf("syncing record: %w", err)
		}
	}
	if err := syncDir(r.dir.fs, r.path); err != nil {
		return err
	}
	if err := syncDir(r.dir.fs, r.dir.path); err != nil {
		return err
	}
	return r.newest.note(number)
}

func (r *fileRecords) write(number uint64, data []byte, drop []uint64) error {
	if err := writeFile(r.dir.fs, r.file(number, recordSuffix), data); err != nil {
		return err
	}
	if err := r.newest.note(number); err != nil {
		return err
	}
	for _, n := range drop {
		r.discard(fileName(n, recordSuffix))
	}
	killpoint.Hit("store", "file", "older removed")
	return nil
}

// clear first makes a durable mark that the records are deleted, so that a crash in between leaves all or none.
func (r *fileRecords) clear(numbers []uint64, highest uint64) error {
	if err := writeFile(r.dir.fs, r.file(highest, deletedSuffix), nil); err != nil {
		return err
	}
	for _, n := range numbers {
		r.discard(fileName(n, recordSuffix))
	}
	return nil
}

func (r *fileRecords) describe() string { return r.path }

// discard removes a file that nothing depends on any more. Where that fails, the next load tries again.
func (r *fileRecords) discard(name string) {
	if err := r.dir.fs.Remove(r.dir.fs.PathJoin(r.path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.dir.log.Warn("removing a file that is no longer needed failed", "path", r.path, "file", name, "err", err)
	}
}

func (r *fileRecords) file(number uint64, suffix string) string {
	return r.dir.fs.PathJoin(r.path, fileName(number, suffix))
}

func fileName(number uint64, suffix string) string { return fmt.Sprintf("%020d%s", number, suffix) }

func numberOf(name, suffix string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}

// writeFile makes a file that is there in full and durably, or not at all. Only errors before the rename, which wrap
// checkpoint.ErrNotWritten, say that it is not there. That nil means durable is what rule 6 stands on.
func writeFile(fsys vfs.FS, name string, data []byte) error {
	temp := name + tempSuffix
	if err := writeTemp(fsys, temp, data); err != nil {
		// What is left is not a record; if it cannot be removed now, the next load does.
		_ = fsys.Remove(temp)
		return fmt.Errorf("%w: %w", checkpoint.ErrNotWritten, withRemedy(err))
	}
	killpoint.Hit("store", "file", "before rename")
	if err := fsys.Rename(temp, name); err != nil {
		return fmt.Errorf("renaming %s: %w", temp, withRemedy(err))
	}
	killpoint.Hit("store", "file", "after rename")
	err := syncDir(fsys, fsys.PathDir(name))
	killpoint.Hit("store", "file", "synced")
	return err
}

func writeTemp(fsys vfs.FS, temp string, data []byte) error {
	f, err := fsys.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("making temporary file: %w", err)
	}
	// A vfs.File may change the buffer it is given, and the caller keeps the data.
	_, err = f.Write(slices.Clone(data))
	killpoint.Hit("store", "file", "before sync")
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("writing temporary file: %w", err)
	}
	return nil
}

func readFile(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

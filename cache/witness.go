package cache

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	witnessSuffix = ".newest"
	// witnessPage keeps the two lines of a witness apart: a write that is cut short spoils one of them at most.
	witnessPage = 4096
	witnessLine = "%020d %08x\n"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// LostRecordError says that a stream's newest record was there once and is not any more.
type LostRecordError struct {
	Place string // of the records
	// Found is the highest number the records tell of, Witnessed the one that was durable.
	Found, Witnessed uint64
	File             string // the witness
}

func (e *LostRecordError) Error() string {
	found := "there is none at all"
	if e.Found != 0 {
		found = fmt.Sprintf("the newest that is found is %d", e.Found)
	}
	return fmt.Sprintf("checkpoint record %d was written to %s, and %s: the disk has lost or damaged it, or files were deleted, or "+
		"restored from an older copy. To go on from an older record could lose or double messages, so it is not done. Restore "+
		"the whole directory from where it is complete; or, to start from what is there all the same, remove the file %s",
		e.Witnessed, e.Place, found, e.File)
}

// witness is a small file beside the records of a stream that holds the highest number that was ever durable. Neither a
// write-ahead log nor a directory can tell a newest record that was damaged or deleted from one that was never written
// in full, and would go on with the one before. It is written after the record, so a crash in between accuses nobody,
// and in place, so it needs no space.
type witness struct {
	fs   vfs.FS
	file string
	// anchored tells whether the directory is still the one that was opened.
	anchored func() error
	turn     int64 // which of the two lines is written next
}

func newWitness(fsys vfs.FS, dir, streamID string, anchored func() error) *witness {
	return &witness{fs: fsys, file: fsys.PathJoin(dir, streamDir+escape(streamID)+witnessSuffix), anchored: anchored}
}

// confirm compares what was found with what was witnessed, and makes the file where there is none.
func (w *witness) confirm(place string, found uint64) error {
	data, err := readFile(w.fs, w.file)
	if errors.Is(err, fs.ErrNotExist) {
		both := make([]byte, witnessPage, 2*witnessPage)
		copy(both, witnessed(found))
		if err := writeFile(w.fs, w.file, append(both, witnessed(found)...)); err != nil {
			return fmt.Errorf("making the witness of the newest record: %w", err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the witness of the newest record: %w", err)
	}
	number, ok := uint64(0), false
	for i := range int64(2) {
		if n, valid := parseWitness(data, i*witnessPage); valid && (!ok || n >= number) {
			number, ok, w.turn = n, true, 1-i
		}
	}
	if !ok {
		return fmt.Errorf("the file %s, which names the newest record, is damaged: the disk may have spoilt other files as well, so "+
			"check it and restore the whole directory from a copy; or, to start from record %d, remove the file", w.file, found)
	}
	if found < number {
		return &LostRecordError{Place: place, Found: found, Witnessed: number, File: w.file}
	}
	return nil
}

// note is called when a record is durable. An error says that it may be gone nevertheless, with its directory.
func (w *witness) note(number uint64) error {
	if err := w.anchored(); err != nil {
		return err
	}
	// Opening it would make it where it is not.
	if _, err := w.fs.Stat(w.file); err != nil {
		return fmt.Errorf("looking for the witness of the newest record: %w", withRemedy(err))
	}
	f, err := w.fs.OpenReadWrite(w.file, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("opening the witness of the newest record: %w", withRemedy(err))
	}
	_, err = f.WriteAt(witnessed(number), w.turn*witnessPage)
	if err == nil {
		err = f.SyncData()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("writing the witness of the newest record: %w", withRemedy(err))
	}
	w.turn = 1 - w.turn
	return nil
}

func witnessed(number uint64) []byte {
	digits := fmt.Appendf(nil, "%020d", number)
	return fmt.Appendf(nil, witnessLine, number, crc32.Checksum(digits, castagnoli))
}

func parseWitness(data []byte, at int64) (number uint64, ok bool) {
	line := witnessed(0)
	if int64(len(data)) < at+int64(len(line)) {
		return 0, false
	}
	data = data[at:][:len(line)]
	if _, err := fmt.Sscanf(string(data[:20]), "%d", &number); err != nil {
		return 0, false
	}
	return number, bytes.Equal(data, witnessed(number))
}

// anchor returns a function that tells whether a directory is still the one it was: what is written to files of a
// directory that was removed, replaced or unmounted, nobody finds again.
func (r *registry) anchor(path string) (func() error, error) {
	if r.identify == nil {
		return func() error { return nil }, nil
	}
	opened, err := r.identify(path)
	if err != nil {
		return nil, err
	}
	return func() error {
		now, err := r.identify(path)
		switch {
		case err != nil:
			return withRemedy(err)
		case !os.SameFile(opened, now):
			return fmt.Errorf("%s is another directory than the one that was opened: %w", path, errMoved)
		}
		return nil
	}, nil
}

// errMoved says that a directory was exchanged under the process.
var errMoved = errors.New("it was replaced, or a volume was mounted over it or unmounted, while the job ran. Bring back the one " +
	"that the job was started with, then start it again")

package cache

import (
	"bytes"
	"crypto/sha256"
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
// in full, and would go on with the one before.
//
// It never says more than is true: a number is written after its record is durable, so a crash in between leaves it
// behind, and whoever next makes that record durable brings it up. It is written in place, so it needs no space, to the
// one of its two lines that holds the lower number: a write that a power cut tears or wipes out leaves the other, and
// that is enough, since the record whose number was being written had not been reported yet.
type witness struct {
	fs   vfs.FS
	file string
	// anchored tells whether the directory is still the one that was opened.
	anchored func() error
	known    uint64 // what the file says
	turn     int64  // which of the two lines is written next
}

// maxWitnessName is how much of a stream's name its file has: a file system takes 255 bytes, and a suffix comes on top.
const maxWitnessName = 200

func newWitness(fsys vfs.FS, dir, streamID string, anchored func() error) *witness {
	name := escape(streamID)
	if len(name) > maxWitnessName {
		// A sum stands for the rest. What escape returns holds no '.', so no other stream has that name.
		sum := sha256.Sum256([]byte(name))
		name = fmt.Sprintf("%s.%x", name[:maxWitnessName-33], sum[:16])
	}
	return &witness{fs: fsys, file: fsys.PathJoin(dir, streamDir+name+witnessSuffix), anchored: anchored}
}

// confirm compares what was found with what was witnessed, and makes the file where there is none, as in a directory that
// an older version has written. It says 0 then: what was found may only be visible, and a power cut take it.
func (w *witness) confirm(place string, found uint64) error {
	err := w.compare(place, found)
	if !errors.Is(err, errNoWitness) {
		return err
	}
	both := make([]byte, witnessPage, 2*witnessPage)
	copy(both, witnessed(0))
	if err := writeFile(w.fs, w.file, append(both, witnessed(0)...)); err != nil {
		return fmt.Errorf("making the witness of the newest record: %w", err)
	}
	w.known = 0
	return nil
}

// errNoWitness says that nothing was witnessed yet.
var errNoWitness = errors.New("there is no witness of the newest record")

// compare compares what was found with what was witnessed.
func (w *witness) compare(place string, found uint64) error {
	data, err := readFile(w.fs, w.file)
	if errors.Is(err, fs.ErrNotExist) {
		return errNoWitness
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
	w.known = number
	if found < number {
		return &LostRecordError{Place: place, Found: found, Witnessed: number, File: w.file}
	}
	return nil
}

// note is called when a record is durable. An error says that it may be gone nevertheless, with its directory.
//
// The page is handed to the disk and not waited for, which would take longer than all the rest of a checkpoint: what a
// disk does wrong it does when it next writes near the record, a checkpoint later, and by then the page is there.
func (w *witness) note(number uint64) error {
	if err := w.anchored(); err != nil {
		return err
	}
	if number <= w.known {
		return nil
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
		_, err = f.SyncTo(2 * witnessPage)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("writing the witness of the newest record: %w", withRemedy(err))
	}
	w.known, w.turn = number, 1-w.turn
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

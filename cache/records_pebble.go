package cache

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/killpoint"
)

// pebbleRecords keeps the records of one stream in a database. Its writes are always synced.
type pebbleRecords struct {
	db     *database
	space  []byte // what the keys of its records begin with
	high   []byte // the key of the highest number
	newest *witness
}

func newPebbleRecords(d *database, streamID string) *pebbleRecords {
	return &pebbleRecords{
		db: d, space: recordSpace(streamID), high: issuedKey(streamID),
		newest: newWitness(d.fs, d.path, streamID, d.anchored),
	}
}

func (r *pebbleRecords) load() (numbers []uint64, highest uint64, err error) {
	if numbers, highest, err = r.list(); err != nil {
		return nil, 0, err
	}
	return numbers, highest, r.newest.confirm(r.describe(), highest)
}

// list is load without a look at the witness.
func (r *pebbleRecords) list() (numbers []uint64, highest uint64, err error) {
	err = r.db.iterate(r.space, spaceEnd(r.space), func(k []byte) (bool, error) {
		if len(k) != len(r.space)+8 {
			return false, fmt.Errorf("the database holds a key %q that is not a record's", k)
		}
		numbers = append(numbers, binary.BigEndian.Uint64(k[len(r.space):]))
		return true, nil
	})
	if err != nil {
		return nil, 0, err
	}
	high, err := r.db.get(r.high)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
	case err != nil:
		return nil, 0, err
	case len(high) != 8:
		return nil, 0, fmt.Errorf("the highest number has %d bytes instead of 8", len(high))
	default:
		highest = binary.BigEndian.Uint64(high)
	}
	return numbers, highest, nil
}

func (r *pebbleRecords) read(number uint64) ([]byte, error) {
	return r.db.get(recordKey(r.space, number))
}

// secure writes to the log and syncs it. What an earlier process left in the log without a sync, Pebble has already
// flushed to a table and synced when it opened the database; what this process has written lies in the same log before
// this write, or in an earlier log, which Pebble syncs before it begins the next.
func (r *pebbleRecords) secure(number uint64) error {
	if err := r.db.sync(); err != nil {
		return err
	}
	return r.newest.note(number)
}

// write puts the record and removes the others in one synced batch. Nothing of it is in the database before the commit,
// and in the commit Pebble tells of no failure. That nil means durable is what rule 6 stands on.
func (r *pebbleRecords) write(number uint64, data []byte, drop []uint64) error {
	b := r.db.db.NewBatch()
	defer b.Close()
	errs := []error{
		b.Set(recordKey(r.space, number), data, nil),
		b.Set(r.high, binary.BigEndian.AppendUint64(nil, number), nil),
	}
	for _, n := range drop {
		errs = append(errs, b.Delete(recordKey(r.space, n), nil))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", checkpoint.ErrNotWritten, err)
	}
	size := b.Len()
	killpoint.Hit("store", "pebble", "before commit")
	err := r.db.commit(b, true)
	killpoint.Hit("store", "pebble", "after commit")
	if err != nil {
		return err
	}
	if err := r.newest.note(number); err != nil {
		// The log may be that of a directory which nobody will find again.
		r.db.death.die(err)
	}
	r.db.recorded(size)
	return nil
}

func (r *pebbleRecords) clear(_ []uint64, highest uint64) error {
	b := r.db.db.NewBatch()
	defer b.Close()
	if err := errors.Join(
		b.DeleteRange(r.space, spaceEnd(r.space), nil),
		b.Set(r.high, binary.BigEndian.AppendUint64(nil, highest), nil)); err != nil {
		return err
	}
	return r.db.commit(b, true)
}

func (r *pebbleRecords) describe() string { return r.db.path }

package cache

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/redpanda-data/benthos/v4/public/service"
)

// entry is one write of a cache: the key in the database, the value, and when it expires (0: never).
type entry struct {
	key     []byte
	value   []byte
	expires int64
}

// getEntry returns a copy of the value.
func (d *database) getEntry(key []byte) ([]byte, error) {
	v, closer, err := d.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, service.ErrKeyNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading: %w", err)
	}
	defer closer.Close()
	value, expires, err := decodeEntry(v)
	if err != nil {
		return nil, err
	}
	if d.expired(expires) {
		return nil, service.ErrKeyNotFound
	}
	// Pebble's slice is valid only until the closer is closed, and callers keep what they get.
	return append(make([]byte, 0, len(value)), value...), nil
}

// setEntries writes entries in one atomic batch.
func (d *database) setEntries(sync bool, entries ...entry) error {
	defer d.lock(entries...)()
	return d.writeEntries(sync, entries...)
}

// addEntry writes an entry unless one is there that has not expired.
func (d *database) addEntry(sync bool, e entry) error {
	defer d.lock(e)()
	expires, found, err := d.expiryOf(e.key)
	if err != nil {
		return err
	}
	if found && !d.expired(expires) {
		return service.ErrKeyAlreadyExists
	}
	return d.writeEntries(sync, e)
}

func (d *database) deleteEntry(sync bool, key []byte) error {
	defer d.lock(entry{key: key})()
	if sync {
		defer d.health.watch("writing an item")()
	}
	b := d.db.NewBatch()
	defer b.Close()
	if err := errors.Join(d.dropExpiry(b, key), b.Delete(key, nil)); err != nil {
		return err
	}
	return d.commit(b, sync)
}

// writeEntries writes with the entries' stripes locked. An entry that expires has exactly one key in the expiry index,
// however often it is overwritten, so the index never grows beyond the entries.
func (d *database) writeEntries(sync bool, entries ...entry) error {
	if sync {
		defer d.health.watch("writing an item")()
	}
	b := d.db.NewBatch()
	defer b.Close()
	for _, e := range entries {
		if len(e.key)+len(e.value) > maxValue {
			return fmt.Errorf("writing: key and value have %d bytes, at most %d can be stored", len(e.key)+len(e.value), maxValue)
		}
		if b.Len()+len(e.key)+len(e.value) > 2*maxValue {
			return errors.New("writing: the values of one batch have more than 2 GiB together: write smaller batches")
		}
		if e.expires != 0 {
			d.expiring.Store(true)
		}
		if err := d.dropExpiry(b, e.key); err != nil {
			return err
		}
		if err := b.Set(e.key, encodeEntry(e.value, e.expires), nil); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
		if e.expires != 0 {
			if err := b.Set(expiryKey(e.expires, e.key), nil, nil); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
		}
	}
	return d.commit(b, sync)
}

// dropExpiry removes what the expiry index holds for an entry that is about to be written or deleted.
func (d *database) dropExpiry(b *pebble.Batch, key []byte) error {
	if !d.expiring.Load() {
		return nil
	}
	expires, found, err := d.expiryOf(key)
	if err != nil || !found || expires == 0 {
		return err
	}
	return b.Delete(expiryKey(expires, key), nil)
}

func (d *database) expiryOf(key []byte) (expires int64, found bool, err error) {
	v, closer, err := d.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("reading: %w", err)
	}
	defer closer.Close()
	_, expires, err = decodeEntry(v)
	return expires, true, err
}

func (d *database) expired(expires int64) bool {
	return expires != 0 && expires <= d.now().UnixMilli()
}

// lock locks the stripes of the entries, in ascending order so that two batches never wait for each other.
func (d *database) lock(entries ...entry) (unlock func()) {
	if len(entries) == 1 {
		mu := &d.stripes[d.stripeOf(entries[0].key)]
		mu.Lock()
		return mu.Unlock
	}
	numbers := make([]int, 0, len(entries))
	for _, e := range entries {
		numbers = append(numbers, d.stripeOf(e.key))
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	locked := make([]*sync.Mutex, 0, len(numbers))
	for _, n := range numbers {
		d.stripes[n].Lock()
		locked = append(locked, &d.stripes[n])
	}
	return func() {
		for _, mu := range locked {
			mu.Unlock()
		}
	}
}

func (d *database) stripeOf(key []byte) int {
	return int(maphash.Bytes(d.seed, key) % uint64(len(d.stripes)))
}

// sweepEvery removes expired entries until the database is closed.
func (d *database) sweepEvery(period time.Duration) {
	defer close(d.stopped)
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-d.stop:
			return
		case <-ticker.C:
			if n, err := d.sweep(); err != nil {
				d.log.Error("removing expired entries failed, trying again later", "path", d.path, "err", err)
			} else if n > 0 {
				d.log.Debug("removed expired entries", "path", d.path, "entries", n)
			}
		}
	}
}

// sweep removes every entry that has expired by now. Its deletes are not synced: one that a power cut undoes is found
// again by the next sweep, since the index's key goes in the same batch.
func (d *database) sweep() (removed int, err error) {
	start := []byte(spaceExpiry)
	end := expiryKey(d.now().UnixMilli()+1, nil)
	err = d.iterate(start, end, func(k []byte) (bool, error) {
		select {
		case <-d.stop:
			return false, nil
		default:
		}
		if err := d.removeExpired(k); err != nil {
			return false, err
		}
		removed++
		return true, nil
	})
	return removed, err
}

// removeExpired removes an index key, and its entry if that still expires when the index says: it may have been written
// anew since the iterator was made.
func (d *database) removeExpired(indexKey []byte) error {
	indexed, key, err := splitExpiryKey(indexKey)
	if err != nil {
		return err
	}
	defer d.lock(entry{key: key})()
	expires, found, err := d.expiryOf(key)
	if err != nil {
		return err
	}
	b := d.db.NewBatch()
	defer b.Close()
	if found && expires == indexed {
		if err := b.Delete(key, nil); err != nil {
			return err
		}
	}
	if err := b.Delete(indexKey, nil); err != nil {
		return err
	}
	return d.commit(b, false)
}

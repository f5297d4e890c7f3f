package kafkasink

import (
	"context"
	"sync"
	"sync/atomic"
)

// window bounds the records that are sent and not acknowledged. A batch gets its place as a whole, so that a write that
// is given up while it waits has sent nothing.
type window struct {
	maxRecords, maxBytes int64

	mu             sync.Mutex // taken by those who reserve, so that two do not take the same place
	records, bytes atomic.Int64
	waiting        atomic.Int32
	room           chan struct{} // capacity 1: somebody who waits should look again
}

func newWindow(records int, bytes int64) *window {
	return &window{maxRecords: int64(records), maxBytes: bytes, room: make(chan struct{}, 1)}
}

// reserve takes the place of a batch, waiting for it until ctx ends or stop is closed. A batch larger than the window
// gets in when it is empty.
func (w *window) reserve(ctx context.Context, stop <-chan struct{}, records int, bytes int64) (ok bool, err error) {
	if w.try(int64(records), bytes) {
		return true, nil
	}
	w.waiting.Add(1)
	defer w.waiting.Add(-1)
	for {
		// Race: a stop closes the client, which releases what it holds: there is room then, but no use for it.
		select {
		case <-stop:
			w.wake()
			return false, nil
		default:
		}
		// Race: a release between try and the select is not missed. It either sees waiting > 0 and fills room, or came
		// before waiting was raised, and then the first try below sees it.
		if w.try(int64(records), bytes) {
			w.wake() // there may be room for another one who waits
			return true, nil
		}
		select {
		case <-w.room:
		case <-stop:
			w.wake()
			return false, nil
		case <-ctx.Done():
			w.wake()
			return false, ctx.Err()
		}
	}
}

func (w *window) try(records, bytes int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	used := w.records.Load()
	if used > 0 && (used+records > w.maxRecords || w.bytes.Load()+bytes > w.maxBytes) {
		return false
	}
	w.records.Add(records)
	w.bytes.Add(bytes)
	return true
}

// release gives one record's place back. It does not block.
func (w *window) release(bytes int64) {
	size := w.bytes.Add(-bytes)
	records := w.records.Add(-1)
	// Not for each record while the window is nearly full: who waits needs room for a batch.
	if w.waiting.Load() > 0 && (records == 0 || records <= w.maxRecords-w.maxRecords/4 && size <= w.maxBytes-w.maxBytes/4) {
		w.wake()
	}
}

func (w *window) wake() {
	select {
	case w.room <- struct{}{}:
	default:
	}
}

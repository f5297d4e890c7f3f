package kafkasink

import (
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Batch is the records of one write, in memory that is used again when every one of them has been acknowledged or has
// failed. A thousand of them take a quarter of a megabyte, which else would be new for each batch.
//
// Who holds a record: the caller until Write, then the sink, then the client until it has called the record's promise,
// which is the last thing it does with it. The promises of a batch count down, and the last one gives the memory back.
// A batch that is not produced as a whole (its write failed, its attempt is over, it waits for an acknowledgement or for
// a transaction that no checkpoint decides about) is left to the garbage collector: nobody need think about who holds it.
// What records point to, their keys, values and headers, is never used again, since messages share it.
type Batch struct {
	Records []Record

	kept   []*kgo.Record
	left   atomic.Int64 // records that are not handled
	reused bool
}

var batches = sync.Pool{New: func() any { return &Batch{reused: true} }}

// NewBatch returns a batch of n records, each of which is the zero Record.
func NewBatch(n int) *Batch {
	b := batches.Get().(*Batch)
	if cap(b.Records) < n {
		b.Records = make([]Record, n)
	}
	b.Records = b.Records[:n]
	return b
}

// room returns an empty list that holds all records of the batch without growing.
func (b *Batch) room() []*kgo.Record {
	if cap(b.kept) < len(b.Records) {
		b.kept = make([]*kgo.Record, 0, len(b.Records))
	}
	return b.kept[:0]
}

// handledBy returns what is to be called for each of the records that are about to be produced, once; nil where the batch
// is not used again.
func (b *Batch) handledBy(records []*kgo.Record) func() {
	if !b.reused {
		return nil
	}
	b.left.Store(int64(len(records)))
	return func() {
		if b.left.Add(-1) == 0 {
			b.free()
		}
	}
}

// free gives the batch back, without what its records point to.
func (b *Batch) free() {
	clear(b.Records)
	clear(b.kept[:cap(b.kept)])
	batches.Put(b)
}

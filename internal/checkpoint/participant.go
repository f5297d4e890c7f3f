package checkpoint

import (
	"context"
	"errors"
)

// Source is what the coordinator needs of a source; internal/kafkasource fulfils it. Every method with a context may
// block and is called in a goroutine of its own; the others return at once. An error that is returned is final: what
// can be tried again (a broker that is away, a coordinator that moves) is tried again inside, until the context ends.
type Source interface {
	// Verify checks a restored state against the cluster before anything is committed: cluster id, topic ids,
	// parallelism. Its error ends the start-up.
	Verify(ctx context.Context, restored SourceState) error
	// Traces tells, in words, what the cluster still knows of an earlier run whose records are not in this store, or
	// nothing. It is asked where the store has never held a record.
	Traces(ctx context.Context) (string, error)
	// Overtaken tells, in words, how the cluster shows that the store has held a newer record than this, or nothing.
	Overtaken(ctx context.Context, newest *Record) (string, error)
	// Resolve returns the concrete positions to begin with: those of restored, checked against the log's range and
	// with partitions it does not hold added at their earliest offset (rule 3), or, where restored is nil, those of
	// the start-up mode. Stop offsets are resolved here too, once (rule 2).
	Resolve(ctx context.Context, restored *SourceState) (SourceState, error)
	// Start begins an attempt at the positions. What the source emits carries the attempt's Tag.
	Start(tag Tag, from SourceState)
	// Pause stops emitting, waits until every emitted batch is acknowledged and returns the positions. When the
	// context ends first it returns the context's error and goes on emitting only after Resume.
	Pause(ctx context.Context) (SourceState, error)
	// Resume goes on emitting after Pause.
	Resume()
	// Halt ends the attempt: it stops emitting, and returns once nothing the attempt emitted is in flight.
	Halt(ctx context.Context) error
	// CommitOffsets commits positions to the consumer group, for monitoring only. It does nothing without a group.
	CommitOffsets(ctx context.Context, positions SourceState) error
	// Finish tells a source that has reached its end that everything is committed: ReadBatch may return its end.
	Finish()
}

// Sink is what the coordinator needs of a sink; internal/kafkasink fulfils it. The rules of Source about contexts and
// errors hold here too.
type Sink interface {
	// NoteIDs remembers who owns the ids of the sink's pool. It is called before the newest record is read, so that
	// InitIDs can tell whether another process, on a copy of the store, has taken them since.
	NoteIDs(ctx context.Context) error
	// ForgetIDs follows NoteIDs where InitIDs is to take the ids from whoever has them.
	ForgetIDs()
	// Verify checks committables and pools of the newest record against the cluster before anything is committed.
	Verify(ctx context.Context, restored SinkState, committables []Committable) error
	// Traces is Source's.
	Traces(ctx context.Context) (string, error)
	// Describe tells what became of a sealed transaction without changing it: Committed, Aborted or Unknown as in
	// Commit, or 0 while it is still open.
	Describe(ctx context.Context, c Committable) (Verdict, error)
	// Commit commits a sealed transaction. It returns only a definite verdict.
	Commit(ctx context.Context, c Committable) (Verdict, error)
	// InitIDs initialises every id of the pools, which aborts what was open and fences a process that is still alive. It
	// fails where an id has got another owner since NoteIDs.
	InitIDs(ctx context.Context, pools []Pool) error
	// Start begins an attempt: what carries the attempt's Tag goes into a transaction of id, which is free, and is -1
	// for a sink without transactions.
	Start(tag Tag, id int32)
	// Open gives a sink that sealed without a next id one that has become free.
	Open(id int32)
	// Flush waits until the broker has acknowledged every record, and fails if any send failed.
	Flush(ctx context.Context) error
	// Seal closes the open transaction and makes next (-1: none free yet) the one that further records go to. It
	// returns nil, and keeps the id that is open, where the transaction is empty (rule 4). It sends nothing.
	Seal(next int32) (*Committable, error)
	// Halt ends the attempt: what carries an older Tag is dropped from now on, and a blocked write returns. It sends
	// nothing: what is open stays open until Abort.
	Halt(ctx context.Context) error
	// Abort closes the id's client and initialises the id, which aborts what was open in it.
	Abort(ctx context.Context, id int32) error
}

// Tag tells which coordinator, incarnation and attempt emitted a message. Messages carry it in their context, since
// contexts are the one thing of a message that every processor keeps for a value that is the same for a whole batch.
type Tag struct {
	// Stream is the coordinator; two streams never share one, so it tells foreign messages apart.
	Stream  *Stream
	Attempt uint64
}

type tagKey struct{}

// WithTag returns a context that carries the tag.
func WithTag(ctx context.Context, tag Tag) context.Context {
	return context.WithValue(ctx, tagKey{}, tag)
}

// TagFrom returns the tag a message's context carries, if any.
func TagFrom(ctx context.Context) (Tag, bool) {
	tag, ok := ctx.Value(tagKey{}).(Tag)
	return tag, ok
}

// Store keeps the records of one stream, newest last. A cache of package cache fulfils it.
type Store interface {
	// Latest returns the newest record by number, after making it durable once more: what is visible after a kill may
	// not survive a power cut. It returns ErrNoRecord where there is none, and with it the highest number that was ever
	// used. It never falls back to an older one.
	Latest(ctx context.Context) (number uint64, data []byte, err error)
	// Put writes a record under a number higher than any before and returns nil only when it would survive a power
	// cut. An error that wraps ErrNotWritten says that nothing was left behind; after any other the outcome is unknown.
	Put(ctx context.Context, number uint64, data []byte) error
	// Numbers lists the records that are kept, in ascending order.
	Numbers(ctx context.Context) ([]uint64, error)
	// Get returns one record. It returns ErrNoRecord where there is none of that number.
	Get(ctx context.Context, number uint64) ([]byte, error)
	// DeleteAll removes every record of the stream, durably.
	DeleteAll(ctx context.Context) error
	// Describe names the store for logs and errors: kind and place.
	Describe() string
}

// Errors of a Store.
var (
	ErrNoRecord   = errors.New("no checkpoint record")
	ErrNotWritten = errors.New("record certainly not written")
)

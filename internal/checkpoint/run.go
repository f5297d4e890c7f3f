package checkpoint

import (
	"context"
	"log/slog"
	"time"
)

// Policy says what happens when a transaction of a durable checkpoint turns out to be lost.
type Policy uint8

// The policies of on_lost_transaction.
const (
	// Replay rewinds to the positions before the checkpoint, where none of its transactions is committed.
	Replay Policy = iota
	// Fail ends the process.
	Fail
	// Continue counts the transaction as lost and goes on.
	Continue
)

// Config are the settings of the coordinator, equal in every source of the stream.
type Config struct {
	Interval          time.Duration
	MinPause          time.Duration
	Timeout           time.Duration
	MaxConcurrent     int
	TolerableFailures int
	// MaxRestarts is how many failovers in a row, without a committed checkpoint in between, are allowed; -1: any.
	MaxRestarts int
	// AllowNonRestored drops what the newest record holds of components that the config no longer has.
	AllowNonRestored bool
	// DeleteOnStop removes the records after a stop at which everything was committed.
	DeleteOnStop bool
	OnLost       Policy
}

// SourceDeclaration is what a source's constructor tells. A declaration has no side effect outside memory.
type SourceDeclaration struct {
	// Key is the label, else the config path.
	Key string
	// Checkpoint is nil where checkpointing is off.
	Checkpoint *Config
	// OpenStore opens the state store; it is called once, when every component has joined.
	OpenStore func(ctx context.Context) (Store, error)
}

// SinkDeclaration is what a sink's constructor tells.
type SinkDeclaration struct {
	Key string
	// Pool is the sink's id pool; Size 0 for a sink without transactions. ClusterID is filled in when it joins.
	Pool   Pool
	OnLost Policy
}

// StreamOptions are what a Stream needs of its host.
type StreamOptions struct {
	// ID is the Benthos stream id, empty outside streams mode.
	ID     string
	Logger *slog.Logger
	// Fatal ends the process, or in streams mode the stream, with a cause. It must not block.
	Fatal func(cause error)
}

// Stream is the coordinator of one Benthos stream together with its goroutine, its clock and its state store.
type Stream struct{}

// NewStream returns a coordinator that does nothing until components are declared and join.
func NewStream(StreamOptions) *Stream { panic("not yet") }

// DeclareSource reserves a seat for a source. See Stream for the order of declarations and joins.
func (s *Stream) DeclareSource(SourceDeclaration) (*Seat, error) { panic("not yet") }

// DeclareSink reserves a seat for a sink.
func (s *Stream) DeclareSink(SinkDeclaration) (*Seat, error) { panic("not yet") }

// Seat is one declared component's end of the coordinator.
type Seat struct{}

// Checkpointed tells whether the stream's sources are checkpointed. It is settled when the first component joins.
func (s *Seat) Checkpointed() bool { panic("not yet") }

// JoinSource connects the source and blocks until it was told to start, the context ends, or the start-up failed for
// good. clusterID is that of the cluster it is connected to.
func (s *Seat) JoinSource(ctx context.Context, src Source) error { panic("not yet") }

// JoinSink connects the sink and blocks until it may be written to.
func (s *Seat) JoinSink(ctx context.Context, clusterID string, sink Sink) error { panic("not yet") }

// Failed reports a failure of an attempt: a batch that was not delivered, a record that could not be sent, a
// transaction the broker has aborted. It leads to a failover, once per attempt.
func (s *Seat) Failed(tag Tag, cause error) { panic("not yet") }

// Fatal reports what no new attempt can heal: another owner of the transactional ids, a refused setting. The process
// ends with the cause.
func (s *Seat) Fatal(cause error) { panic("not yet") }

// AtEnd reports that a bounded source has nothing more to emit in this attempt.
func (s *Seat) AtEnd(tag Tag) { panic("not yet") }

// Close ends a source's part. Soft: it joins a last checkpoint and returns once that is committed, durable, and in the
// consumer group. Hard: it returns at once, and no transaction is ended.
func (s *Seat) Close(ctx context.Context, hard bool) error { panic("not yet") }

// Leave ends a sink's part.
func (s *Seat) Leave() { panic("not yet") }

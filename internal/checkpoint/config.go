package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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
	// AtLeastOnce is checkpoint.mode: at-least-once, which an exactly-once sink contradicts.
	AtLeastOnce       bool
	Interval          time.Duration
	MinPause          time.Duration
	Timeout           time.Duration
	MaxConcurrent     int
	TolerableFailures int
	// MaxRestarts is how many failovers in a row, without a committed checkpoint in between, are allowed; -1: any.
	MaxRestarts int
	// AllowNonRestored drops transactions of sinks that the config no longer has, and lets a source begin anew that may
	// be another one renamed.
	AllowNonRestored bool
	// IgnoreMissingState starts anew although the clusters know of an earlier run that the store does not.
	IgnoreMissingState bool
	// DeleteOnStop removes the records after a stop at which everything was committed.
	DeleteOnStop bool
}

// SourceDeclaration is what a source's constructor tells. A declaration has no side effect outside memory.
type SourceDeclaration struct {
	// Key is the label, else the config path.
	Key string
	// Successive is set where the key may stand for several sources, one after the other.
	Successive bool
	// Index is the number of this process among those that share the partitions, from 0.
	Index int32
	// Checkpoint is nil where checkpointing is off.
	Checkpoint *Config
	// OpenStore opens the state store; it is called once, when every component has joined.
	OpenStore func(ctx context.Context) (Store, error)
	// About says in words, once it has begun, what the source reads and from where; Totals what it has read. nil for none.
	About  func() string
	Totals func() Totals
}

// SourcesIndex is the Index of a declared Pool that stands for the index of the stream's sources: processes that share the
// partitions then have transactional ids of their own without being told so twice.
const SourcesIndex int32 = -1

// SinkDeclaration is what a sink's constructor tells.
type SinkDeclaration struct {
	Key string
	// Pool is the sink's id pool; Size 0 for a sink without transactions. ClusterID is filled in when it joins, and Index
	// at once where it is SourcesIndex.
	Pool   Pool
	OnLost Policy
	// Guarantee is delivery_guarantee, for words.
	Guarantee string
	// About and Totals are a source's, for what the sink writes.
	About  func() string
	Totals func() Totals
	// IDs is told now and then how many ids of the pool are free, and how many are not; nil for nobody.
	IDs func(free, inUse int)
}

// StreamOptions are what a Stream needs of its host.
type StreamOptions struct {
	// ID is the Benthos stream id, empty outside streams mode.
	ID string
	// Version is that of the build, for the log.
	Version string
	Logger  *slog.Logger
	// Metrics is nil for none.
	Metrics Metrics
	// Fatal ends the process, or in streams mode the stream, with a cause. It must not block.
	Fatal func(cause error)
}

// Errors of a Seat.
var (
	// ErrLeft says that the stream was stopped or built anew while a component was joining.
	ErrLeft = errors.New("the stream was stopped")
)

// checkBuild refuses a stream whose components do not fit together.
func checkBuild(seats []*Seat) (*Config, error) {
	var cfg *Config
	var first string
	sources := 0
	for _, s := range seats {
		if s.source == nil {
			continue
		}
		sources++
		switch c := s.source.Checkpoint; {
		case cfg == nil && sources == 1:
			cfg, first = c, s.key
		case (cfg == nil) != (c == nil) || cfg != nil && *cfg != *c:
			return nil, fmt.Errorf("the inputs %q and %q have different checkpoint blocks (%s); one stream has one "+
				"coordinator: make them equal, or use a stream for each", first, s.key, strings.Join(differences(cfg, c), ", "))
		}
	}
	if err := checkIndexes(seats, cfg != nil); err != nil {
		return nil, err
	}
	for i, s := range seats {
		if s.sink == nil || s.sink.Pool.Size == 0 {
			continue
		}
		if cfg != nil && cfg.AtLeastOnce {
			return nil, fmt.Errorf("output %q has delivery_guarantee: exactly-once, and input %q checkpoint.mode: "+
				"at-least-once, whose checkpoints commit no transactions: make the two equal", s.key, first)
		}
		if err := checkPool(s.key, s.sink.Pool, cfg); err != nil {
			return nil, err
		}
		for _, o := range seats[:i] {
			if err := samePrefix(o, s); err != nil {
				return nil, err
			}
		}
	}
	return cfg, nil
}

// checkIndexes refuses sources that are different processes of those that share the work, and an exactly-once sink that is
// another one than the checkpointed sources it commits with: the ids of one process would be those of another.
func checkIndexes(seats []*Seat, checkpointed bool) error {
	var first *Seat
	for _, s := range seats {
		switch {
		case s.source == nil:
		case first == nil:
			first = s
		case s.source.Index != first.source.Index:
			return fmt.Errorf("the inputs %q and %q have index %d and %d; a process has one number among those that share the "+
				"partitions: make them equal", first.key, s.key, first.source.Index, s.source.Index)
		}
	}
	for _, s := range seats {
		if checkpointed && s.sink != nil && s.sink.Pool.Size > 0 && s.sink.Pool.Index != first.source.Index {
			return fmt.Errorf("output %q has index %d, and input %q index %d; remove the output's: its transactional ids carry "+
				"the index of the stream's inputs", s.key, s.sink.Pool.Index, first.key, first.source.Index)
		}
	}
	return nil
}

// samePrefix refuses two sinks of one stream that have the same transactional ids on one cluster.
func samePrefix(a, b *Seat) error {
	if a == b || a.sink == nil || b.sink == nil || a.left || b.left {
		return nil
	}
	p, q := a.sink.Pool, b.sink.Pool
	if p.Size == 0 || q.Size == 0 || p.Prefix != q.Prefix || p.Index != q.Index || p.ClusterID != q.ClusterID {
		return nil
	}
	return fmt.Errorf("the outputs %q and %q have the same transactional_id_prefix: %q, and would fence each other; give "+
		"each its own", min(a.key, b.key), max(a.key, b.key), p.Prefix)
}

// differences names the settings in which two checkpoint blocks differ, with both values; one may be absent.
func differences(a, b *Config) []string {
	if a == nil || b == nil {
		interval := func(c *Config) string {
			if c == nil {
				return "unset"
			}
			return c.Interval.String()
		}
		return []string{fmt.Sprintf("checkpoint.interval: %s and %s", interval(a), interval(b))}
	}
	var names []string
	for _, field := range [...]struct {
		name        string
		left, right any
	}{
		{"checkpoint.interval", a.Interval, b.Interval},
		{"checkpoint.mode", mode(a), mode(b)},
		{"checkpoint.min_pause", a.MinPause, b.MinPause},
		{"checkpoint.timeout", a.Timeout, b.Timeout},
		{"checkpoint.max_concurrent", a.MaxConcurrent, b.MaxConcurrent},
		{"checkpoint.tolerable_failures", a.TolerableFailures, b.TolerableFailures},
		{"checkpoint.max_restarts", a.MaxRestarts, b.MaxRestarts},
		{"checkpoint.allow_non_restored_state", a.AllowNonRestored, b.AllowNonRestored},
		{"startup.ignore_missing_state", a.IgnoreMissingState, b.IgnoreMissingState},
		{"checkpoint.on_stop", onStop(a), onStop(b)},
	} {
		if field.left != field.right {
			names = append(names, fmt.Sprintf("%s: %v and %v", field.name, field.left, field.right))
		}
	}
	return names
}

func mode(c *Config) string {
	if c.AtLeastOnce {
		return "at-least-once"
	}
	return "exactly-once"
}

func onStop(c *Config) string {
	if c.DeleteOnStop {
		return "delete"
	}
	return "retain"
}

// StartAnew is the way out that errors name where a checkpoint cannot be used and the user may want to begin as on the
// first day. An empty store alone would be refused where the cluster still knows of the earlier run.
const StartAnew = "start with an empty state store and startup.ignore_missing_state: true"

// checkPool refuses a pool that has too few ids for its checkpoints; without checkpoints the sink has needs of its own.
func checkPool(key string, p Pool, cfg *Config) error {
	if cfg == nil {
		return nil
	}
	concurrent := max(1, cfg.MaxConcurrent)
	if need := int32(concurrent) + 2; p.Size < need {
		return fmt.Errorf("output %q: transactions.pool_size is %d, checkpoint.max_concurrent %d needs at least %d "+
			"(one open, one for each checkpoint under way, one that waits to be forgotten): raise transactions.pool_size, or "+
			"lower checkpoint.max_concurrent", key, p.Size, concurrent, need)
	}
	return nil
}

package cache

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// giveUpAfter is how long background writes may fail without a pause before the process ends: Pebble would try
	// again for ever, at full speed, while every writer waits.
	giveUpAfter = 10 * time.Second
	// pause is how long nothing has to fail for the next failure to count as a first one.
	pause = 5 * time.Second
)

// death ends the process when its database can no longer be written, or turns out to be damaged.
type death struct {
	path   string
	log    *slog.Logger
	now    func() time.Time
	fatal  func(error)
	health *health
	open   atomic.Bool // set once the database is open

	mu          sync.Mutex
	first, last time.Time // of the background errors that followed each other without a pause
}

// die ends the process, and never returns: Pebble goes on after a Fatalf that returns as if the write had succeeded.
func (d *death) die(cause error) {
	if pebble.IsCorruptionError(cause) {
		cause = explain(d.path, cause)
	}
	d.fatal(fmt.Errorf("state directory %s has failed: %w", d.path, withRemedy(cause)))
	select {}
}

// dieOfPanic is deferred around calls in which Pebble panics after a failed write or sync. What is on the disk is not
// known then, so trying again in this process is not safe: the kernel may have dropped what it could not write.
func (d *death) dieOfPanic(doing string) {
	switch r := recover().(type) {
	case nil:
	case error:
		d.die(fmt.Errorf("%s: %w", doing, r))
	default:
		d.die(fmt.Errorf("%s: %v", doing, r))
	}
}

// backgroundError is told of flushes and compactions that failed. It may be called with Pebble's mutex held.
func (d *death) backgroundError(err error) {
	d.health.failed()
	d.mu.Lock()
	now := d.now()
	isFirst := d.first.IsZero() || now.Sub(d.last) > pause
	if isFirst {
		d.first = now
	}
	d.last = now
	failing := now.Sub(d.first)
	d.mu.Unlock()
	switch {
	case isFirst:
		d.log.Error("writing in the background failed, trying again", "path", d.path, "err", err)
	case failing >= giveUpAfter:
		d.die(fmt.Errorf("background writes have failed for %v: %w", failing, err))
	}
}

// corrupted is told of damaged files. No reader may take what is lost there for what was never there.
func (d *death) corrupted(info pebble.DataCorruptionInfo) {
	d.die(fmt.Errorf("reading %s: %w", info.Path, info.Details))
}

// pebbleLogger passes on what Pebble logs.
type pebbleLogger struct {
	log   *slog.Logger
	death *death
}

func (l pebbleLogger) Infof(format string, args ...any) { l.log.Debug(fmt.Sprintf(format, args...)) }

func (l pebbleLogger) Errorf(format string, args ...any) { l.log.Error(fmt.Sprintf(format, args...)) }

// Fatalf ends the process. The cause keeps its type where there is one among the arguments.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	cause := loggedError{text: fmt.Sprintf(format, args...)}
	for _, a := range args {
		if err, ok := a.(error); ok {
			cause.err = err
		}
	}
	l.death.die(cause)
}

type loggedError struct {
	text string
	err  error
}

func (e loggedError) Error() string { return e.text }
func (e loggedError) Unwrap() error { return e.err }

package demo

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/devbroker"
)

// watch reads the output while the pipeline works and takes the time between newly committed records. Its methods are
// for one goroutine, but for committed.
type watch struct {
	observer *devbroker.Observer
	audit    *devbroker.Audit
	seen     atomic.Int64
	grown    chan struct{} // holds a token when seen has changed
	last     time.Time     // of the newest record
	longest  time.Duration
}

func newWatch(bootstrap []string, want devbroker.Expectation) (*watch, error) {
	o, err := devbroker.Observe(bootstrap, topicOut)
	if err != nil {
		return nil, err
	}
	return &watch{observer: o, audit: devbroker.NewAudit(want), grown: make(chan struct{}, 1)}, nil
}

// run polls until that fails, with the context's error at the latest.
func (w *watch) run(ctx context.Context) error {
	for {
		if err := w.observer.Poll(ctx, w.see); err != nil {
			return err
		}
		w.seen.Store(w.audit.Seen())
		select {
		case w.grown <- struct{}{}:
		default: // a token is waiting already
		}
	}
}

// toEnd polls until everything before the fence has been seen. It takes the place of run when the pipeline has ended.
func (w *watch) toEnd(ctx context.Context, fence devbroker.Fence) error {
	defer func() { w.seen.Store(w.audit.Seen()) }()
	return w.observer.PollTo(ctx, fence, w.see)
}

// committed is how many records have come so far.
func (w *watch) committed() int64 { return w.seen.Load() }

func (w *watch) see(r *kgo.Record) {
	now := time.Now()
	if !w.last.IsZero() {
		w.longest = max(w.longest, now.Sub(w.last))
	}
	w.last = now
	w.audit.See(r)
}

package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/internal/splits"
)

// watch compares, again and again, the partitions of the cluster with those that are read. Partitions that appear are
// not taken up while the source runs, and must not be passed over in silence; those that are gone will not come back
// under the positions we have.
func (r *Reader) watch() {
	tick := time.NewTicker(r.cfg.MetadataInterval)
	defer tick.Stop()
	for {
		select {
		case <-r.stopped.Done():
			return
		case <-tick.C:
		}
		r.mu.Lock()
		a := r.att
		r.mu.Unlock()
		if a != nil && r.checkPartitions(r.stopped, a) {
			return
		}
	}
}

// checkPartitions compares once. It returns true after it has ended the stream.
func (r *Reader) checkPartitions(ctx context.Context, a *attempt) bool {
	topics, err := r.subscribedTopics(ctx)
	var missing *splits.MissingTopicsError
	if err != nil && !errors.As(err, &missing) {
		if ctx.Err() == nil {
			r.log.Warn("the cluster's partitions could not be compared with those that are read", "err", err)
		}
		return false
	}
	r.mu.Lock()
	known := a.state().Splits
	ended := a.halted || r.closing
	r.mu.Unlock()
	if ended {
		return false
	}
	if err = r.unfollowed(splits.Diff(known, r.cfg.Subscription, r.cfg.Share, topics)); err == nil {
		return false
	}
	err = fmt.Errorf("source %s: %w", r.cfg.Key, err)
	r.log.Error("the partitions of the subscription have changed", "err", err)
	r.mu.Lock()
	a.broken = true
	r.mu.Unlock()
	r.seat.Fatal(err)
	return true
}

// unfollowed says why the partitions can no longer be read as they are, and what a restart does with them, or nothing.
func (r *Reader) unfollowed(c splits.Changes) error {
	switch {
	case len(c.Recreated) > 0 && r.solo:
		return fmt.Errorf("topic %q was deleted and created again, and positions in the old one mean nothing in the new one; "+
			"start again to read the new one as startup.mode says", c.Recreated[0].Topic)
	case c.Lost() != nil:
		return c.Lost()
	case len(c.New) > 0 && r.solo:
		return fmt.Errorf("partitions %s were added while the source is running, and it does not take up partitions as it runs; "+
			"start again: they begin as startup.mode says, with group-offsets as startup.offset_reset says (earliest skips "+
			"nothing)", splits.Format(c.New))
	case len(c.New) > 0:
		// Rule 3 in a first form: as a new partition they are read from their first record at the next start.
		return &splits.NewPartitionsError{Partitions: c.New}
	}
	return nil
}

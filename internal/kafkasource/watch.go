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
	changes := splits.Diff(known, r.cfg.Subscription, r.cfg.Share, topics)
	err = changes.Lost()
	if err == nil && len(changes.New) > 0 {
		// Rule 3 in a first form: as a new partition they are read from their first record at the next start.
		err = &splits.NewPartitionsError{Partitions: changes.New}
	}
	if err == nil {
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

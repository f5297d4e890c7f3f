package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/splits"
)

// lookLimit bounds one look at the cluster's partitions; what it could not find out the next one does.
const lookLimit = 30 * time.Second

// watch looks at the cluster's partitions for as long as the source runs: every MetadataInterval for those that are gone, and for good,
// and, where discovery is on, every DiscoveryInterval for new ones too.
func (r *Reader) watch() {
	check := time.NewTicker(r.cfg.MetadataInterval)
	defer check.Stop()
	var discovery <-chan time.Time
	if r.cfg.DiscoveryInterval > 0 {
		tick := time.NewTicker(r.cfg.DiscoveryInterval)
		defer tick.Stop()
		discovery = tick.C
	}
	due := false // new partitions are to be looked for, at the latest with the next check where it did not work out
	for {
		sweep := false
		select {
		case <-r.stopped.Done():
			return
		case <-check.C:
			sweep = true
		case <-discovery:
			due = true
		case <-r.began:
			if due = r.cfg.DiscoveryInterval > 0; !due {
				continue
			}
		}
		r.mu.Lock()
		a := r.att
		r.mu.Unlock()
		if a == nil {
			continue // the next attempt's beginning wakes us
		}
		ended, err := r.look(a, due)
		if ended {
			return
		}
		due = due && err != nil
		r.noteLook(err)
		if sweep {
			r.forget(a)
		}
	}
}

// look compares once, and takes up what is new where that is due. It returns true after it has ended the stream.
func (r *Reader) look(a *attempt, discover bool) (ended bool, err error) {
	ctx, cancel := context.WithTimeout(r.stopped, lookLimit)
	defer cancel()
	topics, changes, err := r.compare(ctx, r.cluster().quiet(), a)
	if err == nil {
		changes = r.follow(a, topics, changes)
	}
	switch {
	case err != nil:
		return false, err
	case r.endWhereLost(a, changes):
		return true, nil
	case len(changes.New) == 0:
		return false, nil
	case discover:
		return false, r.takeUp(ctx, a, topics, changes.New)
	case r.cfg.DiscoveryInterval <= 0:
		r.warnIgnored(changes.New)
	}
	return false, nil
}

// noteLook logs the first of looks in a row that fail; one that fails has no effect but that things take longer.
func (r *Reader) noteLook(err error) {
	failed := err != nil && r.stopped.Err() == nil
	if failed && !r.lookFailed {
		r.log.Warn("the cluster's partitions could not be compared with those that are read; this is tried again at each "+
			"interval until it works", "err", err)
	}
	r.lookFailed = failed
}

// checkPartitions looks for partitions that are gone. It returns true after it has ended the stream.
func (r *Reader) checkPartitions(ctx context.Context, a *attempt) bool {
	topics, changes, err := r.compare(ctx, r.cluster(), a)
	if err == nil {
		changes = r.follow(a, topics, changes)
	}
	if err != nil && ctx.Err() == nil {
		r.log.Warn("the cluster's partitions could not be compared with those that are read", "err", err)
	}
	return err == nil && r.endWhereLost(a, changes)
}

// compare describes the subscribed topics and says how they differ from what the attempt reads; not at all where the
// attempt has ended meanwhile.
func (r *Reader) compare(ctx context.Context, c cluster, a *attempt) ([]splits.Topic, splits.Changes, error) {
	topics, err := r.subscribedTopics(ctx, c, r.known(a))
	var missing *splits.MissingError
	if err != nil && !errors.As(err, &missing) {
		return nil, splits.Changes{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.halted || r.closing {
		return nil, splits.Changes{}, nil
	}
	return topics, splits.Diff(a.state().Splits, r.cfg.Subscription, r.cfg.Share, topics), nil
}

// known are the attempt's partitions but for those that are known to be gone.
func (r *Reader) known(a *attempt) []checkpoint.Split {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(a.state().Splits, r.isGone)
}

// endWhereLost ends the stream where positions can no longer be followed, and tells whether it did.
func (r *Reader) endWhereLost(a *attempt, changes splits.Changes) bool {
	err := r.lost(changes)
	if err == nil {
		return false
	}
	if len(changes.Recreated) > 0 && r.solo {
		err = fmt.Errorf("topic %q was deleted and created again, and positions in the old one mean nothing in the new one; "+
			"start again to read the new one as startup.mode says", changes.Recreated[0].Topic)
	}
	err = fmt.Errorf("source %s: %w", r.cfg.Key, err)
	r.log.Error("the partitions of the subscription have changed", "err", err)
	r.mu.Lock()
	a.broken = true
	r.mu.Unlock()
	r.seat.Fatal(err)
	return true
}

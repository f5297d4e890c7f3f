package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkaclient"
)

// ownerMark begins the metadata of every offset that Tidegate commits; what follows tells which job it was.
const ownerMark = "tidegate/1"

// errSuperseded ends a commit that is still being tried when a newer one has come: positions never move backwards.
var errSuperseded = errors.New("a newer commit has come")

// committer lets one commit go at a time, in order.
type committer struct {
	turn   chan struct{}
	newest atomic.Int64
}

// CommitOffsets commits positions to the consumer group as a client that is no member. The coordinator calls it only
// after everything of the checkpoint is committed (rule 1). Nothing depends on it but what people see, so a failure is
// counted and logged here; it is returned as well, since a stop that would delete the checkpoints has to know.
func (r *Reader) CommitOffsets(ctx context.Context, positions checkpoint.SourceState) error {
	if r.cfg.Group == "" || !r.cfg.CommitOffsets {
		return nil
	}
	n := r.commits.newest.Add(1)
	select {
	case r.commits.turn <- struct{}{}:
		defer func() { <-r.commits.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var os kadm.Offsets
	mark := r.mark()
	for _, s := range positions.Splits {
		if r.cfg.Subscription.Contains(s.Topic) {
			os.Add(kadm.Offset{
				Topic: s.Topic, Partition: s.Partition, At: s.Offset, LeaderEpoch: s.LeaderEpoch, Metadata: mark})
		}
	}
	if len(os) == 0 {
		return nil
	}
	err := retry(ctx, r.log, fmt.Sprintf("committing offsets to group %q", r.cfg.Group), func(ctx context.Context) error {
		if r.commits.newest.Load() != n {
			return errSuperseded
		}
		resp, err := kadm.NewClient(r.admin).CommitOffsets(ctx, r.cfg.Group, os)
		if err != nil {
			return err
		}
		return resp.Error()
	})
	switch {
	case err == nil:
		count(r.cfg.Metrics.CommitsSucceeded, 1)
	case errors.Is(err, errSuperseded), kafkaclient.Classify(err) == kafkaclient.ClassEnded:
	default:
		count(r.cfg.Metrics.CommitsFailed, 1)
		r.log.Warn("offsets were not committed to the consumer group; what is delivered does not depend on it, but the "+
			"group's lag is out of date until the next checkpoint", "group", r.cfg.Group, "err", err)
	}
	return err
}

// mark is the metadata of a commit: `tidegate/1 <store uuid> <stream id> <unix ms>`, with a dash for what is empty.
func (r *Reader) mark() string {
	store := ""
	if r.cfg.StoreID != nil {
		store = r.cfg.StoreID()
	}
	dash := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	return fmt.Sprintf("%s %s %s %d", ownerMark, dash(store), dash(r.cfg.StreamID), time.Now().UnixMilli())
}

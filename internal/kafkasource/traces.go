package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/internal/splits"
)

// Traces looks for offsets in the consumer group that another state store of Tidegate's has committed for a topic that
// this source reads; other partitions are other processes'.
func (r *Reader) Traces(ctx context.Context) (string, error) {
	if r.cfg.Group == "" {
		return "", nil
	}
	found := ""
	err := retry(ctx, r.admin, r.log, fmt.Sprintf("reading the offsets of group %q", r.cfg.Group), func(ctx context.Context) error {
		resp, err := kadm.NewClient(r.admin).FetchOffsets(ctx, r.cfg.Group)
		if errors.Is(err, kerr.GroupIDNotFound) {
			return nil // a group that was never used tells nothing
		}
		if err != nil {
			return err
		}
		resp.Each(func(o kadm.OffsetResponse) {
			p := splits.Partition{Topic: o.Topic, Partition: o.Partition}
			owned := r.cfg.Subscription.Covers(p) && r.cfg.Share.Owns(p)
			if found == "" && o.Err == nil && owned && r.foreignMark(o.Metadata) {
				found = fmt.Sprintf("group %q has offset %d of %s-%d, which a checkpoint in another store has committed (%s)",
					r.cfg.Group, o.At, o.Topic, o.Partition, o.Metadata)
			}
		})
		return nil
	})
	if kafkaclient.Classify(err) == kafkaclient.ClassAuthorisation {
		// Who may not read the group may still run: without it nothing but monitoring is missing.
		r.log.Warn("the consumer group cannot be read, so a lost state store would not be noticed", "cause", err)
		return "", nil
	}
	return found, err
}

// foreignMark tells whether a commit's metadata is the owner mark of another store than ours.
func (r *Reader) foreignMark(metadata string) bool {
	rest, ours := strings.CutPrefix(metadata, ownerMark+" ")
	if !ours {
		return false
	}
	store, _, _ := strings.Cut(rest, " ")
	if store == noStore {
		return false // a run without checkpoints: there is no state that could be missing
	}
	return r.cfg.StoreID == nil || store != r.cfg.StoreID()
}

package txn

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// Traces tells, in words, of a transaction of the pool's ids that is still open or being ended, or nothing. Brokers that
// do not describe, or do not let us, tell of nothing.
func (b *Broker) Traces(ctx context.Context, pool checkpoint.Pool) (string, error) {
	found := ""
	for _, id := range IDs([]checkpoint.Pool{pool}) {
		err := b.persist(ctx, fmt.Sprintf("describing transactional id %q", id), func(ctx context.Context) error {
			able, err := b.abilities(ctx, id)
			if err != nil || !able.describe {
				return err
			}
			seen, err := b.describe(ctx, id)
			var refused *AuthorizationError
			if errors.Is(err, kerr.TransactionalIDNotFound) || errors.As(err, &refused) {
				return nil
			}
			if err != nil {
				return err
			}
			switch seen.state {
			case "Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence":
				found = fmt.Sprintf("transactional id %q has a transaction that an earlier run, or another job with this "+
					"transactional_id_prefix, has left (%v)", id, seen)
			}
			return nil
		})
		if err != nil || found != "" {
			return found, err
		}
	}
	return "", nil
}

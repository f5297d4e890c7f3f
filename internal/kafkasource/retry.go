package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/kafkaclient"
)

const (
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
	// retryLogInterval is how often a request that goes on failing is logged.
	retryLogInterval = 30 * time.Second
)

// errIncomplete says that an answer leaves out what was asked for: the broker's metadata is behind. It is tried again.
var errIncomplete = errors.New("the answer is incomplete; the cluster's metadata is still spreading")

// retry calls do until it succeeds, fails for good, or the context ends: what can be tried again is tried again here, so
// that an error of a checkpoint.Source is final.
func retry(ctx context.Context, cl *kgo.Client, log *slog.Logger, doing string, do func(context.Context) error) error {
	var logged time.Time
	for wait := retryMin; ; wait = min(2*wait, retryMax) {
		done := kafkaclient.Slow(log, kafkaclient.Bootstrap(cl), doing)
		err := do(ctx)
		done()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w (last error: %w)", doing, ctx.Err(), err)
		}
		if !errors.Is(err, errIncomplete) && kafkaclient.Classify(err) != kafkaclient.ClassRetriable {
			return fmt.Errorf("%s: %w", doing, kafkaclient.WithCause(err))
		}
		if now := time.Now(); now.Sub(logged) >= retryLogInterval {
			log.Warn(doing+" failed, trying again", "err", kafkaclient.WithCause(err))
			logged = now
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("%s: %w (last error: %w)", doing, ctx.Err(), err)
		}
	}
}

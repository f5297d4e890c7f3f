package benthosx

import (
	"context"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

const (
	// retryNow lets Benthos call Connect again at once; Wait has the delay, since it notices when the stream ends.
	retryNow = time.Millisecond
	// failedWait is how often Benthos logs the cause in streams mode, where the process goes on.
	failedWait = time.Minute
)

// Wait waits before a component connects again. It returns what Connect is to return where there is no point in it any
// more: Benthos itself would go on trying until the shutdown timeout. In streams mode the process goes on without a
// stream that has failed: its components stay unconnected, so that /ready is false, and Benthos logs the cause now and
// then, until the stream is stopped.
func Wait(ctx context.Context, seat *checkpoint.Seat, streamID string, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-seat.Life().Done():
	}
	failure := seat.Failure()
	switch {
	case failure == nil:
		return service.ErrEndOfInput
	case streamID == "":
		return nil
	}
	select {
	case <-time.After(failedWait):
		return service.NewErrBackOff(failure, retryNow)
	case <-ctx.Done():
		return ctx.Err()
	case <-seat.Deserted():
		return service.ErrEndOfInput
	}
}

// Connected is what Connect returns for the outcome of connecting and joining. A stream that has failed ends its
// component, as the process ends, but for streams mode, where Wait comes next.
func Connected(seat *checkpoint.Seat, streamID string, err error) error {
	failure := seat.Failure()
	switch {
	case err == nil:
		return nil
	case failure != nil && streamID != "":
		return service.NewErrBackOff(failure, retryNow)
	case failure != nil, seat.Life().Err() != nil:
		return service.ErrEndOfInput
	}
	return service.NewErrBackOff(err, retryNow)
}

package benthosx

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

const (
	// retryNow lets Benthos call Connect again at once; Connecting has the delay, since it notices when the stream ends.
	retryNow = time.Millisecond
	// failedWait is how often Benthos logs the cause in streams mode, where the process goes on.
	failedWait = longestSilence
	// reconnectWait is how long a cluster that does not answer is left alone.
	reconnectWait = 5 * time.Second
	// firstSilence is for how long an error of connecting is not said again, longestSilence what that grows to.
	firstSilence   = 30 * time.Second
	longestSilence = 5 * time.Minute
)

// Connecting is what a component does in its Connect. Benthos logs every error that Connect returns, and calls it again:
// so an error is returned when it is new, and then now and then, with the number of tries in between. Until then Connecting
// goes on trying by itself.
type Connecting struct {
	Seat     *checkpoint.Seat
	StreamID string
	// Wait is how long a cluster that does not answer is left alone; 0 is the default.
	Wait time.Duration

	tried   bool
	said    time.Time // the error below
	words   string
	silence time.Duration
	held    int
}

// Do tries until it succeeds, until there is an error that is worth a line, or until there is no point in it any more. It
// returns what Connect is to return.
func (c *Connecting) Do(ctx context.Context, try func(context.Context) error) error {
	if c.Wait == 0 {
		c.Wait = reconnectWait
	}
	for {
		if c.tried {
			if err := c.wait(ctx); err != nil {
				return err
			}
		}
		c.tried = true
		err := c.outcome(try(ctx))
		if err == nil {
			c.words = ""
			return nil
		}
		if backOff := (*service.ErrBackOff)(nil); !errors.As(err, &backOff) || ctx.Err() != nil || c.worthALine(err) {
			return c.withHeld(err)
		}
	}
}

// numbers differ from one try to the next: ports, times.
var numbers = regexp.MustCompile(`[0-9]+`)

// worthALine tells whether an error is to be returned now, since it is new or was not said for long.
func (c *Connecting) worthALine(err error) bool {
	words := numbers.ReplaceAllString(err.Error(), "#")
	switch {
	case words != c.words:
		c.words, c.silence, c.held = words, firstSilence, 0
	case time.Since(c.said) < c.silence:
		c.held++
		return false
	default:
		c.silence = min(2*c.silence, longestSilence)
	}
	c.said = time.Now()
	return true
}

func (c *Connecting) withHeld(err error) error {
	backOff := (*service.ErrBackOff)(nil)
	if c.held == 0 || !errors.As(err, &backOff) {
		return err
	}
	err = fmt.Errorf("%w (repeats_not_logged: %d)", backOff.Err, c.held)
	c.held = 0
	return service.NewErrBackOff(err, retryNow)
}

// wait waits before a component connects again. It returns what Connect is to return where there is no point in it any
// more: Benthos itself would go on trying until the shutdown timeout. In streams mode the process goes on without a
// stream that has failed: its components stay unconnected, so that /ready is false, and Benthos logs the cause now and
// then, until the stream is stopped.
func (c *Connecting) wait(ctx context.Context) error {
	select {
	case <-time.After(c.Wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.Seat.Life().Done():
	}
	failure := c.Seat.Failure()
	switch {
	case failure == nil:
		return service.ErrEndOfInput
	case c.StreamID == "":
		return nil
	}
	select {
	case <-time.After(failedWait):
		return service.NewErrBackOff(failure, retryNow)
	case <-ctx.Done():
		return ctx.Err()
	case <-c.Seat.Deserted():
		return service.ErrEndOfInput
	}
}

// outcome is what Connect returns for the outcome of connecting and joining. A stream that has failed ends its component,
// as the process ends, but for streams mode, where wait comes next.
func (c *Connecting) outcome(err error) error {
	failure := c.Seat.Failure()
	switch {
	case err == nil:
		return nil
	case failure != nil && c.StreamID != "":
		return service.NewErrBackOff(failure, retryNow)
	case failure != nil, c.Seat.Life().Err() != nil:
		return service.ErrEndOfInput
	}
	return service.NewErrBackOff(err, retryNow)
}

package txn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrClosed is returned where a transaction or pool was closed meanwhile: nothing was sent, or nobody can tell.
var ErrClosed = errors.New("the transactional client was closed")

// AuthorizationError says that the broker does not allow what a sink needs to do with a transactional id.
type AuthorizationError struct {
	TransactionalID string
	// Operation is the ACL operation that is missing: Write or Describe.
	Operation string
	// Principal is the user the connection logs in as, empty where it is not known.
	Principal string
	Err       error
}

func (e *AuthorizationError) Error() string {
	who := "the sink's user"
	if e.Principal != "" {
		who = e.Principal
	}
	return fmt.Sprintf("transactional id %q: %s is not allowed to %s it (%v): grant the ACL operation %s on resource "+
		"TransactionalId %q, or on its prefix with pattern type PREFIXED", e.TransactionalID, who, e.Operation, e.Err,
		e.Operation, e.TransactionalID)
}

func (e *AuthorizationError) Unwrap() error { return e.Err }

// TimeoutError says that the broker refuses a transaction timeout.
type TimeoutError struct {
	TransactionalID string
	Want            time.Duration
	// Max is the broker's transaction.max.timeout.ms, 0 where it could not be read.
	Max time.Duration
}

func (e *TimeoutError) Error() string {
	limit := "the broker's transaction.max.timeout.ms (which this user may not read)"
	if e.Max > 0 {
		limit = fmt.Sprintf("the broker's transaction.max.timeout.ms of %d (%s)", e.Max.Milliseconds(), e.Max)
	}
	return fmt.Sprintf("transactional id %q: a transaction timeout of %s (%d ms) is above %s: lower "+
		"`transactions.timeout`, leave it empty to use the broker's maximum, or raise the broker's setting",
		e.TransactionalID, e.Want, e.Want.Milliseconds(), limit)
}

// UnsupportedError says that the cluster cannot do what transactions need.
type UnsupportedError struct {
	What string
	Err  error
}

func (e *UnsupportedError) Error() string {
	s := fmt.Sprintf("the cluster does not support %s, which `delivery_guarantee: exactly-once` needs", e.What)
	if e.Err != nil {
		s += fmt.Sprintf(" (%v)", e.Err)
	}
	return s + ": use a cluster with Kafka transactions (Apache Kafka 0.11 or later), or `delivery_guarantee: at-least-once`"
}

func (e *UnsupportedError) Unwrap() error { return e.Err }

// FencedError says that another owner has initialised the id.
type FencedError struct {
	TransactionalID string
	ProducerID      int64
	Epoch           int16
	// Seen is what the coordinator says of the id now, empty where it does not tell.
	Seen string
	Err  error
}

func (e *FencedError) Error() string {
	s := fmt.Sprintf("transactional id %q was taken over by another owner (%v; ", e.TransactionalID, e.Err)
	if e.ProducerID < 0 {
		s += "nobody had it before"
	} else {
		s += fmt.Sprintf("ours was producer id %d, epoch %d", e.ProducerID, e.Epoch)
	}
	if e.Seen != "" {
		s += "; the coordinator says " + e.Seen
	}
	return s + "): another process or sink uses the same `transactional_id_prefix` and `index` on this cluster. " +
		"Stop it, or give each its own prefix; this one ends and does not take the id back"
}

func (e *FencedError) Unwrap() error { return e.Err }

// again tells whether an error leaves the question open, so that the same request may be sent once more.
func again(err error) bool {
	var fenced *FencedError
	if errors.As(err, &fenced) {
		return false
	}
	var ke *kerr.Error
	if errors.As(err, &ke) {
		return ke.Retriable || ke == kerr.ConcurrentTransactions || ke == kerr.UnknownServerError
	}
	var unsupported *UnsupportedError
	return !errors.As(err, &unsupported) && !errors.Is(err, ErrClosed) &&
		!errors.Is(err, kgo.ErrClientClosed) && !errors.Is(err, context.Canceled)
}

// fencing tells whether an error can come from another owner of the id, or from our own transaction's timeout.
func fencing(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) ||
		errors.Is(err, kerr.InvalidProducerIDMapping)
}

package kafkasink

import (
	"context"
	"errors"

	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/internal/repeats"
	"github.com/tidegate/tidegate/internal/txn"
)

// sendFailed takes the failure of one record. It is called by a promise, so it must not block.
func (s *Sink) sendFailed(out *outlet, topic string, err error) {
	if s.cfg.Guarantee == None {
		if out.isStopped() {
			return
		}
		s.cfg.Metrics.Lost(1)
		if n := s.lost.add(); n > 0 {
			s.cfg.Log.ErrorContext(repeats.Always(s.ctx), "records are lost: they could not be sent, and `delivery_guarantee: none` does not wait for them",
				"records", n, "topic", topic, "cause", s.sendError(topic, err).Error())
		}
		return
	}
	s.attemptFailed(out, s.sendError(topic, err))
}

// attemptFailed takes the first failure of an attempt; the others are consequences of it as a rule.
func (s *Sink) attemptFailed(out *outlet, err error) {
	if !s.checkpointed {
		return // the batch's own caller is told
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Race: Halt has closed the client, and the failure is its consequence. stopped is closed before the client is.
	if s.closed || out.isStopped() || out.attempt.failed != nil {
		return
	}
	out.attempt.failed = err
	out.attempt.settled = make(chan struct{})
	s.signal()
	s.wg.Go(func() { s.report(out, err) })
}

// report finds out what a failure means and tells the coordinator. Who flushes waits for that: the failover that an
// error of Flush leads to would take a fenced id back from its rightful owner.
func (s *Sink) report(out *outlet, err error) {
	defer close(out.attempt.settled)
	if out.tx != nil {
		if other := out.tx.Diagnose(s.ctx, err); other != nil {
			if s.ctx.Err() != nil {
				return
			}
			s.mu.Lock()
			out.attempt.failed = other
			s.mu.Unlock()
			s.cfg.Seat.Fatal(other)
			return
		}
	}
	// Rule 13: the same records would be refused in each attempt.
	if _, denied := errors.AsType[*kafkaclient.AccessError](err); denied || final(err) {
		s.cfg.Seat.Fatal(err)
		return
	}
	s.cfg.Seat.Failed(out.attempt.tag, err)
}

// failure returns what an attempt failed with, once that is settled.
func (s *Sink) failure(ctx context.Context, a *attempt) error {
	s.mu.Lock()
	failed, settled := a.failed, a.settled
	s.mu.Unlock()
	if failed == nil {
		return nil
	}
	select {
	case <-settled:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return a.failed
}

// final tells whether neither time nor a new attempt can heal an error.
func final(err error) bool {
	var (
		denied      *txn.AuthorizationError
		unsupported *txn.UnsupportedError
		timeout     *txn.TimeoutError
	)
	return errors.As(err, &denied) || errors.As(err, &unsupported) || errors.As(err, &timeout)
}

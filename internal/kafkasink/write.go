package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/txn"
)

// ErrForeign says that an exactly-once sink was given a message that no source of its stream emitted in an attempt.
var ErrForeign = errors.New("`delivery_guarantee: exactly-once` in a stream with checkpoints was given a message that " +
	"does not come from the stream's own kafka_flink_source (another input, another stream through inproc, or a " +
	"component that makes new messages): no checkpoint could hold its position. Feed the sink by the source alone, or " +
	"use `delivery_guarantee: at-least-once`")

// WriteBatch writes a batch. It returns an error only for what is known before a record of the batch is produced, and
// without checkpoints, or for foreign messages, what the broker answered. In transactions that no checkpoint decides
// about it returns once the outcome is definite; see groups. In a stream with checkpoints it returns nil
// as soon as the records are buffered, and also for records of an attempt that is over, which it drops: their
// positions are rewound. A send that fails is reported to the coordinator, never returned for another batch.
func (s *Sink) WriteBatch(ctx context.Context, batch []Record) error {
	return s.Write(ctx, &Batch{Records: batch})
}

// Write is WriteBatch for a batch of NewBatch, which it takes over: its caller must not touch it again.
func (s *Sink) Write(ctx context.Context, b *Batch) error {
	batch := b.Records
	bytes, err := s.check(batch)
	if err != nil {
		return err
	}
	if s.groups != nil {
		return s.groups.write(ctx, all(batch), bytes)
	}
	if !s.checkpointed {
		return s.write(ctx, all(batch), bytes, write{batch: b, anyAttempt: true, wait: s.cfg.Guarantee != None})
	}
	for {
		s.mu.Lock()
		running, over, changed := s.running, s.over, s.changed
		s.mu.Unlock()
		sorted := s.sort(b, over)
		if sorted.foreign > 0 && s.cfg.Guarantee == ExactlyOnce {
			return ErrForeign
		}
		// Race: a source may emit before this sink has heard of the new attempt. Its records wait; dropping them would
		// lose them, since their attempt goes on.
		if sorted.attempt > over && (running == nil || running.tag.Attempt < sorted.attempt) {
			if err := s.wait(ctx, changed); err != nil {
				return err
			}
			continue
		}
		s.drop(sorted.dropped)
		return s.write(ctx, sorted.keep, sorted.bytes, write{
			batch: b, attempt: sorted.attempt, anyAttempt: sorted.attempt == 0,
			wait: sorted.foreign > 0 && s.cfg.Guarantee == AtLeastOnce,
		})
	}
}

func (s *Sink) wait(ctx context.Context, changed <-chan struct{}) error {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return ErrClosed
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Sink) drop(records int) {
	if records > 0 {
		s.cfg.Metrics.Dropped(records)
		s.cfg.Log.Debug("dropped records of an attempt that is over", "records", records)
	}
}

// sorted is a batch sorted by the tags of its records.
type sorted struct {
	keep    []*kgo.Record
	bytes   int64
	attempt uint64 // the newest among those kept; 0 where all are foreign
	dropped int    // of attempts that are over
	foreign int    // among those kept
}

// sort separates what an attempt that is over emitted (rule 8), and finds what is foreign.
func (s *Sink) sort(batch *Batch, over uint64) sorted {
	out := sorted{keep: batch.room()}
	for i := range batch.Records {
		r := &batch.Records[i]
		switch {
		case r.Tag.Stream == nil || r.Tag.Stream != s.cfg.Stream:
			out.foreign++
		case r.Tag.Attempt <= over:
			out.dropped++
			continue
		default:
			out.attempt = max(out.attempt, r.Tag.Attempt)
		}
		out.keep = append(out.keep, &r.Record)
		out.bytes += userSize(&r.Record)
	}
	return out
}

// Emitted tells whether every record comes from a source of the sink's own stream.
func (s *Sink) Emitted(batch []Record) bool {
	return !slices.ContainsFunc(batch, func(r Record) bool { return r.Tag.Stream == nil || r.Tag.Stream != s.cfg.Stream })
}

func all(batch []Record) []*kgo.Record {
	out := make([]*kgo.Record, len(batch))
	for i := range batch {
		out[i] = &batch[i].Record
	}
	return out
}

// write says how a batch is written.
type write struct {
	batch      *Batch // that the records are of
	attempt    uint64
	anyAttempt bool // the batch belongs to none: it goes to whichever runs
	wait       bool // for the broker's acknowledgement
}

// write writes records that belong together.
func (s *Sink) write(ctx context.Context, records []*kgo.Record, bytes int64, how write) error {
	if len(records) == 0 {
		return nil
	}
	out, err := s.enter(ctx, how)
	if err != nil {
		return err
	}
	switch {
	case out == nil && how.wait:
		return errEnded // Its sender must send it again: an acknowledgement would lose what is foreign in it.
	case out == nil:
		s.drop(len(records))
		return nil
	}
	defer s.leave(out)
	if err := out.ready(ctx); err != nil {
		switch {
		case errors.Is(err, txn.ErrClosed):
			s.drop(len(records))
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		s.attemptFailed(out, err)
		s.drop(len(records))
		return nil
	}
	ok, err := out.window.reserve(ctx, out.stopped, len(records), bytes)
	if err != nil {
		return err
	}
	if !ok {
		if how.wait {
			return errEnded
		}
		s.drop(len(records))
		return nil
	}
	if !how.wait {
		out.produce(records, how.batch.handledBy(records))
		return nil
	}
	return s.produceAndWait(ctx, out, records, how)
}

// produceAndWait returns what the broker answered. The batch's own failures are the caller's to handle; only where a
// part of it belongs to the attempt do they fail that too.
func (s *Sink) produceAndWait(ctx context.Context, out *outlet, records []*kgo.Record, how write) error {
	deadline, cancel := context.WithTimeout(ctx, s.cfg.DeliveryTimeout)
	defer cancel()
	batch := newPending(len(records))
	out.produceTo(deadline, records, func(r *kgo.Record, err error) {
		if how.anyAttempt {
			size := userSize(r)
			out.window.release(size)
			s.acks.count(size, err)
		} else {
			out.acked(r, err)
		}
		if err != nil {
			err = s.sendError(r.Topic, err)
		}
		batch.settle(err)
	})
	err := batch.wait(deadline)
	if deadline.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("the broker has not acknowledged the batch within %s; it may be there or not (%w)",
			s.cfg.DeliveryTimeout, err)
	}
	return err
}

// enter registers a writer on the outlet that a batch goes to, waiting for one. It returns none where the batch's
// attempt is over, or has failed and will be.
func (s *Sink) enter(ctx context.Context, how write) (*outlet, error) {
	for {
		s.mu.Lock()
		over := !how.anyAttempt && (how.attempt <= s.over || s.running == nil)
		failed := s.running != nil && s.running.failed != nil && !how.anyAttempt
		out, changed, closed := s.out, s.changed, s.closed
		if !closed && !over && !failed && out != nil {
			out.writers++
			s.mu.Unlock()
			return out, nil
		}
		s.mu.Unlock()
		switch {
		case closed:
			return nil, ErrClosed
		case over, failed:
			return nil, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *Sink) leave(out *outlet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if out.writers--; out.writers == 0 {
		s.signal()
	}
}

// sendError says what was being sent.
func (s *Sink) sendError(topic string, err error) error {
	if errors.Is(err, kgo.ErrClientClosed) {
		return err
	}
	return fmt.Errorf("sending: %w", s.topicError(topic, err))
}

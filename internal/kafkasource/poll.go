package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/internal/offsets"
	"github.com/tidegate/tidegate/internal/splits"
)

// poll fetches once, or probes where nothing has come for a while though something should have. It returns when records
// have come, something went wrong, a probe is due, or the attempt is interrupted.
func (r *Reader) poll(ctx context.Context, a *attempt) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.ctx, cancel)() // the attempt's end interrupts it too

	r.mu.Lock()
	if r.att != a || !a.canEmit() || r.closing {
		r.mu.Unlock()
		return
	}
	wait, probe := a.probeDue(time.Now(), r.cfg.ProbeInterval)
	if probe {
		r.mu.Unlock()
		r.probe(ctx, a)
		return
	}
	fetchCtx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	a.interrupt = interrupt
	client := a.client
	r.mu.Unlock()

	if wait > 0 {
		var stopTimer context.CancelFunc
		fetchCtx, stopTimer = context.WithTimeout(fetchCtx, wait)
		defer stopTimer()
	}
	fetches := client.PollFetches(fetchCtx)
	a.ahead.settle()
	fetches.EachError(func(topic string, partition int32, err error) {
		if topic != "" && (fetchError{topic: topic, partition: partition, err: err}).counts() {
			r.meter.fetchFailed(topic, partition)
		}
	})

	r.mu.Lock()
	a.interrupt = func() {}
	var failed []fetchError
	if r.att == a && !a.halted {
		failed = a.accept(fetches, r.cfg.ReadCommitted)
		a.broken = a.broken || len(failed) > 0
	}
	r.mu.Unlock()
	if len(failed) > 0 {
		r.reportFetchErrors(ctx, a, failed)
	}
}

// fetchError is an error of one partition's fetch. Topic is empty where it is about the client as a whole.
type fetchError struct {
	topic     string
	partition int32
	err       error
	// split is nil where the partition is not read any more.
	split *split
	pos   checkpoint.Split
}

// accept takes the records of a poll for the next emit, and returns its errors, but for positions out of range and batches
// that are corrupt, which are kept until what was read before them is emitted.
func (a *attempt) accept(fetches kgo.Fetches, readCommitted bool) (failed []fetchError) {
	for _, f := range fetches {
		for _, t := range f.Topics {
			for i := range t.Partitions {
				fe := a.acceptPartition(t, &t.Partitions[i], readCommitted)
				switch {
				case fe.split != nil && isCorrupt(fe.err):
					a.block(fe.split, a.readTo(fe.split), fe.err)
				case errors.Is(fe.err, kerr.OffsetOutOfRange):
					a.outside = append(a.outside, splits.Partition{Topic: fe.topic, Partition: fe.partition})
				case fe.err != nil && fe.counts():
					failed = append(failed, fe)
				}
			}
		}
	}
	return failed
}

func (a *attempt) acceptPartition(t kgo.FetchTopic, p *kgo.FetchPartition, readCommitted bool) fetchError {
	s := a.byPart[t.Topic][p.Partition]
	if s != nil && splits.IsRecreated(s.pos.TopicID, t.TopicID) {
		// Race: the topic was created again, and its split replaced, between the poll and this. What was fetched of the old
		// one would move the position in the new one.
		s = nil
	}
	fe := fetchError{topic: t.Topic, partition: p.Partition, err: p.Err}
	if s == nil {
		return fe
	}
	fe.split, fe.pos = s, s.pos
	if len(p.Records) == 0 {
		return fe
	}
	s.end = p.HighWatermark
	if readCommitted {
		s.end = p.LastStableOffset
	}
	a.pending = append(a.pending, chunk{s, p.Records})
	a.idleSince, a.fruitless = time.Time{}, 0
	if stop := s.pos.Stop; stop != checkpoint.NoStop && p.Records[len(p.Records)-1].Offset >= stop-1 {
		// What lies beyond the stop is of no use.
		a.client.PauseFetchPartitions(map[string][]int32{t.Topic: {p.Partition}})
	}
	return fe
}

// counts tells whether an error is one: the end of a poll's context is none, and what can be tried again the client
// tries again.
func (e fetchError) counts() bool {
	if errors.Is(e.err, context.DeadlineExceeded) && e.topic == "" || errors.Is(e.err, errReadAhead) {
		return false
	}
	switch kafkaclient.Classify(e.err) {
	case kafkaclient.ClassEnded:
		return false
	case kafkaclient.ClassRetriable:
		// The client gives this one up after a few tries: the topic was deleted, and perhaps created again.
		return errors.Is(e.err, kerr.UnknownTopicID)
	}
	return true
}

// reportFetchErrors decides what the errors of a poll mean for the stream. None is passed over: a partition with such an
// error would not be read any more, while the others go on.
func (r *Reader) reportFetchErrors(ctx context.Context, a *attempt, failed []fetchError) {
	for _, f := range failed {
		at := splits.Partition{Topic: f.topic, Partition: f.partition}
		dataLoss, isDataLoss := errors.AsType[*kgo.ErrDataLoss](f.err)
		large, isTooLarge := errors.AsType[*kgo.ErrDecompressTooLarge](f.err)
		switch {
		case isDataLoss:
			r.seat.Fatal(&offsets.OutOfRangeError{
				Of: "a position that is being read is",
				WayOut: "records that were read before are gone from the topic, by an unclean leader election as a rule; " +
					r.wayOutOfRange(offsets.OutOfRange{}),
				Partitions: []offsets.OutOfRange{{Partition: at, Offset: dataLoss.ConsumedTo, End: dataLoss.ResetTo}},
			})
			return
		case errors.Is(f.err, kerr.UnknownTopicID):
			if r.checkPartitions(ctx, a) {
				return
			}
			r.seat.Failed(a.tag, fmt.Errorf("fetching %v: %w", at, f.err))
		case isAnswerTooLarge(f.err):
			r.seat.Fatal(answerTooLarge(f.err))
			return
		case isTooLarge:
			r.seat.Fatal(tooLarge(at, large, r.limit))
			return
		case kafkaclient.Classify(f.err) == kafkaclient.ClassAuthorisation:
			r.seat.Fatal(fmt.Errorf("fetching %v: %w", at,
				kafkaclient.WithCause(kafkaclient.Access(f.topic, kafkaclient.OperationRead, r.principal(), f.err))))
			return
		default:
			r.seat.Failed(a.tag, fmt.Errorf("fetching %v at offset %d: %w", at, f.pos.Offset, kafkaclient.WithCause(f.err)))
		}
	}
}

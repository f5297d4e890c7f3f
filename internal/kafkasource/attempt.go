package kafkasource

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/headerexpr"
	"github.com/tidegate/tidegate/internal/splits"
)

const (
	fetchMaxWait = 500 * time.Millisecond // Kafka's default of fetch.max.wait.ms
	// replicaRecheck is how long a partition is read from a replica that is no leader until the leader is asked again whom to
	// read from. Java's client asks it at once when the replica's connection is lost. This one only looks for another leader
	// then, finds the one it knew, and goes on trying the replica; by itself it asks again after half an hour. A question
	// costs one round trip.
	replicaRecheck = 5 * time.Second
)

// attempt is one run between two failovers. Reader.mu guards it, but for tag, ahead and ctx, which never change.
type attempt struct {
	tag checkpoint.Tag
	// client is this attempt's own; nil while there is nothing to read.
	client *kgo.Client
	// ahead bounds what the client holds.
	ahead *readAhead
	// ctx ends with the attempt.
	ctx    context.Context
	cancel context.CancelFunc
	// buildErr is why there is no client.
	buildErr error

	// from is the state the attempt began with; its splits are replaced by those below.
	from   checkpoint.SourceState
	splits []*split
	byPart map[string]map[int32]*split
	// unread are splits of topics that are no longer subscribed: they stay in the state as they are.
	unread []checkpoint.Split

	// pending are fetched records that were not handed out yet: all that the client had at the last poll, so that it fetches
	// the next while these are handed out.
	pending []chunk
	// outside are partitions whose position the broker does not have.
	outside []splits.Partition
	// corrupt are batches that cannot be read.
	corrupt []*corruption
	// looks counts the looks at partitions that stand still.
	looks    int
	inFlight int
	// interrupt ends a poll under way; it does nothing when there is none.
	interrupt context.CancelFunc

	// idleSince is since when a poll has been waiting for records that should come; zero while they do. A pause does
	// not begin it anew, or frequent checkpoints would keep a probe from ever being due.
	idleSince time.Time
	// fruitless counts the probes since then that have moved nothing.
	fruitless int
	// bounded is set where the end of all splits is the end of the input.
	bounded bool
	// filter is nil where every record is emitted; onFiltered counts those that are not.
	filter     *headerexpr.Expr
	onFiltered func(topic string, n int64)

	// paused: the coordinator has the positions, or waits for them. halted: the attempt is over. broken: it has failed,
	// and the coordinator knows. endReported: everything is emitted, and the coordinator knows.
	paused, halted, broken, endReported bool
}

// split is one partition that is read.
type split struct {
	pos checkpoint.Split
	// gone is set where the partition is not there any more: it is not read, and its position is kept.
	gone bool
	// blocked is set where a batch cannot be read: nothing more is fetched in this attempt.
	blocked bool
	// end is the end of what the isolation level lets us see, as the last fetch with records told; it may be behind.
	end int64
	// barrier is the position that the attempt began at, or that the last barrier reported; stood the one that the last look at
	// standing partitions has found.
	barrier, stood int64
	// looked is the number of the last look that it was part of, as looks of the attempt counts them.
	looked int
	// emptyProbes counts probes in a row that found nothing at all between the position and the end.
	emptyProbes int
	// unacked are the moves of the position by batches that are not acknowledged, in order; acknowledged ones stay
	// while one before them is not.
	unacked []unacked
}

// unacked is one move of a position.
type unacked struct {
	by     *emitted
	before checkpoint.Split
}

// acked is the end of the contiguous acknowledged prefix: everything before it is delivered.
func (s *split) acked() checkpoint.Split {
	if len(s.unacked) > 0 {
		return s.unacked[0].before
	}
	return s.pos
}

// chunk are fetched records of one partition, in order.
type chunk struct {
	split   *split
	records []*kgo.Record
}

// emitted is a batch that was handed out.
type emitted struct {
	att     *attempt
	records []*kgo.Record
	// before are the positions the batch moved away from.
	before []moved
	// settled is set by the acknowledgement, or when the batch turned out never to have been taken; delivered only by a
	// good one.
	settled, delivered bool
}

type moved struct {
	split *split
	pos   checkpoint.Split
}

// newAttempt builds the attempt's client, which connects in the background.
func (r *Reader) newAttempt(tag checkpoint.Tag, from checkpoint.SourceState) *attempt {
	a := &attempt{
		tag: tag, from: from, bounded: r.cfg.Stop.Bounded(), filter: r.cfg.Filter, onFiltered: r.cfg.Metrics.FilteredRecords,
		byPart: make(map[string]map[int32]*split), interrupt: func() {},
		ahead: newReadAhead(answerBytes, r.unpack),
	}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	var read []checkpoint.Split
	for _, pos := range from.Splits {
		if r.cfg.Subscription.Covers(at(pos)) {
			read = append(read, pos)
		} else {
			a.unread = append(a.unread, pos)
		}
	}
	r.add(a, read)
	return a
}

// add has the attempt read more partitions. A client is built for the first of them. The splits come before the client
// is told, since a record without a split is dropped. Once others see the attempt, r.mu is held.
func (r *Reader) add(a *attempt, more []checkpoint.Split) {
	var there []checkpoint.Split
	for _, pos := range more {
		s := &split{pos: pos, gone: r.isGone(pos), barrier: pos.Offset, stood: unknown}
		if !s.gone {
			there = append(there, pos)
		}
		a.splits = append(a.splits, s)
		if a.byPart[pos.Topic] == nil {
			a.byPart[pos.Topic] = make(map[int32]*split)
		}
		a.byPart[pos.Topic][pos.Partition] = s
	}
	r.assign(a, there)
}

// assign tells the attempt's client what to read, and builds it where there is none yet.
func (r *Reader) assign(a *attempt, more []checkpoint.Split) {
	assigned := assignment(more)
	switch {
	case len(assigned) == 0 || a.buildErr != nil:
	case a.client != nil:
		a.client.AddConsumePartitions(assigned)
	default:
		opts, err := r.consumerOptions(assigned)
		if err == nil {
			a.client, err = kgo.NewClient(append(a.ahead.options(), opts...)...)
		}
		if err != nil {
			a.buildErr = fmt.Errorf("building the consumer: %w", err)
		}
	}
}

// at is the partition of a split.
func at(s checkpoint.Split) splits.Partition {
	return splits.Partition{Topic: s.Topic, Partition: s.Partition}
}

// assignment is what a client is told to read: splits that are not at their stop.
func assignment(all []checkpoint.Split) map[string]map[int32]kgo.Offset {
	assigned := make(map[string]map[int32]kgo.Offset)
	for _, s := range all {
		if s.AtStop() {
			continue
		}
		if assigned[s.Topic] == nil {
			assigned[s.Topic] = make(map[int32]kgo.Offset)
		}
		// With the epoch the client notices a log that was cut below the position (KIP-320).
		assigned[s.Topic][s.Partition] = kgo.NewOffset().At(s.Offset).WithEpoch(s.LeaderEpoch)
	}
	return assigned
}

// canEmit tells whether Next has something to do.
func (a *attempt) canEmit() bool {
	return !a.paused && !a.halted && !a.broken && !a.endReported && (a.client != nil || a.buildErr != nil || a.atEnd())
}

// atEnd tells whether everything up to the stops was handed out.
func (a *attempt) atEnd() bool {
	if !a.bounded {
		return false
	}
	for _, s := range a.splits {
		if !s.pos.AtStop() && !s.gone {
			return false
		}
	}
	return true
}

// halt ends the attempt. The client is closed in the background, so that nobody waits for a broker that is silent.
func (a *attempt) halt(background *sync.WaitGroup) {
	if a.halted {
		return
	}
	a.halted = true
	a.pending = nil
	a.cancel()
	if a.client != nil {
		background.Go(a.client.Close)
	}
}

// state returns the positions: everything before them was handed out.
func (a *attempt) state() checkpoint.SourceState {
	return a.positions(func(s *split) checkpoint.Split { return s.pos })
}

// ackedState returns the positions before which everything is delivered, also after the attempt has ended.
func (a *attempt) ackedState() checkpoint.SourceState { return a.positions((*split).acked) }

func (a *attempt) positions(of func(*split) checkpoint.Split) checkpoint.SourceState {
	s := a.from
	all := make([]checkpoint.Split, 0, len(a.splits)+len(a.unread))
	for _, sp := range a.splits {
		all = append(all, of(sp))
	}
	s.Splits = sortedSplits(append(all, a.unread...))
	s.Finished = a.atEnd()
	return s
}

// emit hands out the first of what is pending, most records at most, and moves the positions. It returns nil where that
// holds no record.
func (a *attempt) emit(most int) *emitted {
	n := 0
	for _, c := range a.pending {
		n += len(c.records)
	}
	e := &emitted{att: a, records: make([]*kgo.Record, 0, min(n, most))}
	for len(a.pending) > 0 && len(e.records) < most {
		c := &a.pending[0]
		some := c.records[:min(len(c.records), most-len(e.records))]
		before, had := c.split.pos, len(e.records)
		var filtered int64
		e.records, filtered = c.split.take(e.records, some, a.filter)
		if filtered > 0 && a.onFiltered != nil {
			a.onFiltered(c.split.pos.Topic, filtered)
		}
		if len(e.records) > had {
			e.moves(c.split, before)
		}
		if c.records = c.records[len(some):]; len(c.records) == 0 {
			a.pending = a.pending[1:]
		}
	}
	if len(a.pending) == 0 {
		a.pending = nil // what it was made of is not to stay
	}
	if len(e.records) == 0 {
		return nil
	}
	a.inFlight++
	return e
}

// moves notes where a split was before the batch; a split that the batch has moved twice was where it was at first.
func (e *emitted) moves(s *split, before checkpoint.Split) {
	if slices.ContainsFunc(e.before, func(m moved) bool { return m.split == s }) {
		return
	}
	e.before = append(e.before, moved{s, before})
	s.unacked = append(s.unacked, unacked{e, before})
}

// take appends to out what is to be emitted of records, and moves the position over the rest too (rule 11), also over
// those that the filter does not keep, which it counts.
func (s *split) take(out, records []*kgo.Record, filter *headerexpr.Expr) (_ []*kgo.Record, filtered int64) {
	for _, rec := range records {
		if rec.Offset < s.pos.Offset {
			continue // below the position: it was handed out already, or never asked for
		}
		if s.pos.Stop != checkpoint.NoStop && rec.Offset >= s.pos.Stop {
			s.pos.Offset = s.pos.Stop // the stop is exclusive; there is nothing left in front of it
			return out, filtered
		}
		s.pos.Offset, s.pos.LeaderEpoch = rec.Offset+1, rec.LeaderEpoch
		switch {
		case rec.Attrs.IsControl():
		case filter != nil && !headerexpr.Match(filter, rec.Headers):
			filtered++
		default:
			out = append(out, rec)
		}
	}
	return out, filtered
}

// deliver notes a good acknowledgement. They come in any order: the prefix grows when the oldest one has come.
func (e *emitted) deliver() {
	e.delivered, e.records = true, nil // an older batch may keep this one here for long
	for _, m := range e.before {
		n := 0
		for n < len(m.split.unacked) && m.split.unacked[n].by.delivered {
			n++
		}
		m.split.unacked = slices.Delete(m.split.unacked, 0, n)
	}
}

// forget takes back a batch that the engine never took: its positions become those before it. A later batch of the
// attempt cannot exist, since the engine takes one before it asks for the next.
func (e *emitted) forget() {
	for _, m := range e.before {
		m.split.pos = m.pos
	}
	e.settled = true
	e.att.inFlight--
}

// span names the records of a batch for people.
func (e *emitted) span() string {
	first, last := e.records[0], e.records[len(e.records)-1]
	if len(e.records) == 1 {
		return fmt.Sprintf("%s-%d at offset %d", first.Topic, first.Partition, first.Offset)
	}
	return fmt.Sprintf("%s-%d at offset %d to %s-%d at offset %d",
		first.Topic, first.Partition, first.Offset, last.Topic, last.Partition, last.Offset)
}

package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkaclient"
)

const (
	// haltWait is how long a rewind waits for what is in flight. What comes back later is there twice and nothing more;
	// a batch that waits for records to come, as a batch policy without a period makes it, would hold up the rewind for
	// ever.
	haltWait = 30 * time.Second
	// commitWait bounds one commit to the consumer group, hardCommitWait the last one at a hard stop, where the engine
	// is about to end the process.
	commitWait     = 10 * time.Second
	hardCommitWait = time.Second
	// recommitInterval is how often positions that stand still are committed again: the broker forgets those of a group
	// without members (offsets.retention.minutes).
	recommitInterval = 10 * time.Minute
)

// Host is what a Solo needs of its surroundings; *checkpoint.Seat fulfils it.
type Host interface {
	// Fatal reports what no new attempt can heal.
	Fatal(cause error)
	// Close ends the source's part.
	Close(ctx context.Context, hard bool) error
}

// Solo drives a Reader where there are no checkpoints, in the coordinator's place: it is the Reader's Seat. Positions
// are those of the contiguous acknowledged prefix of each partition. A batch that is not delivered takes every partition
// back to the end of its prefix; on a timer, at the end and at a stop the prefixes are committed to the consumer group.
type Solo struct {
	host     Host
	reader   *Reader
	interval time.Duration // of commits; 0: nothing is committed
	// delay is how long the n-th rewind in a row waits.
	delay func(n uint64) time.Duration
	halt  time.Duration // haltWait, but for tests

	// ctx ends the goroutines that work counts.
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu sync.Mutex
	// failed and ended are the highest attempts that have failed, and that have emitted everything.
	failed, ended uint64
	cause         error
	// wake tells the driver that one of these has changed.
	wake chan struct{}

	// commitMu is held while a commit is under way, and guards what was committed last.
	commitMu    sync.Mutex
	committed   []checkpoint.Split
	committedAt time.Time

	// att is the newest attempt, also while it has ended; guarded by Reader.mu.
	att *attempt
}

var _ Seat = (*Solo)(nil)

// NewSolo returns a Reader that its Solo drives from Begin to the Reader's Close. Neither has a side effect yet.
func NewSolo(cfg Config, host Host) (*Reader, *Solo, error) {
	s := &Solo{host: host, interval: cfg.AutoCommit, delay: checkpoint.RestartDelay, halt: haltWait, wake: make(chan struct{}, 1)}
	if cfg.Group == "" {
		s.interval = 0
	}
	cfg.CommitOffsets = s.interval > 0
	s.ctx, s.cancel = context.WithCancel(context.Background())
	var err error
	if s.reader, err = New(cfg, s); err != nil {
		return nil, nil, err
	}
	s.reader.solo, s.reader.adopt = true, s.adopt
	return s.reader, s, nil
}

// Begin resolves where to start and starts. The Reader is connected. An error with the context still alive is final, and
// the host knows it.
func (s *Solo) Begin(ctx context.Context) error {
	r := s.reader
	state, err := r.Resolve(ctx, nil)
	if err != nil {
		if ctx.Err() == nil {
			s.host.Fatal(err)
		}
		return err
	}
	r.describeSolo(state, s.interval)
	s.start(1, state)
	// Where they come from offset_reset, a restart before the first commit would resolve them anew, and skip records
	// with offset_reset: latest.
	s.commit(ctx, commitWait)
	s.work.Go(s.drive)
	if s.interval > 0 {
		s.work.Go(s.commitOnTimer)
	}
	return nil
}

func (s *Solo) start(attempt uint64, from checkpoint.SourceState) {
	// The tag names no stream: what it emits is dropped nowhere. A record that comes late to a sink is there twice.
	s.reader.Start(checkpoint.Tag{Attempt: attempt}, from)
	s.reader.mu.Lock()
	defer s.reader.mu.Unlock()
	if a := s.reader.att; a != nil {
		s.att = a
	}
}

// Failed is the Reader's report of a failed attempt. It does not block.
func (s *Solo) Failed(tag checkpoint.Tag, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if tag.Attempt > s.failed { // what follows the first is a consequence as a rule
		s.failed, s.cause = tag.Attempt, cause
		s.signal()
	}
}

// AtEnd is the Reader's report that everything is emitted. It does not block.
func (s *Solo) AtEnd(tag checkpoint.Tag) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = max(s.ended, tag.Attempt)
	s.signal()
}

func (s *Solo) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Fatal passes the Reader's report on.
func (s *Solo) Fatal(cause error) { s.host.Fatal(cause) }

// Close is called by the Reader's Close, when all acknowledgements that will come have come. What is acknowledged is
// committed even at a hard stop: it is delivered.
func (s *Solo) Close(ctx context.Context, hard bool) error {
	s.cancel()
	s.work.Wait()
	wait := commitWait
	if hard {
		wait = hardCommitWait
	}
	s.commit(ctx, wait)
	s.logUndelivered()
	return s.host.Close(ctx, hard)
}

// logUndelivered tells at a stop what was emitted and not acknowledged.
func (s *Solo) logUndelivered() {
	s.reader.mu.Lock()
	defer s.reader.mu.Unlock()
	if s.att == nil {
		return
	}
	var open []checkpoint.Split
	for _, sp := range s.att.splits {
		if p := sp.acked(); p.Offset < sp.pos.Offset {
			open = append(open, p)
		}
	}
	if len(open) > 0 {
		s.reader.log.Warn("stopped while records were not acknowledged: a restart reads them again, from the consumer group's "+
			"offsets or as startup.mode says", "from", describe(checkpoint.SourceState{Splits: sortedSplits(open)}))
	}
}

// drive waits for failures and the end until Close.
func (s *Solo) drive() {
	var (
		attempt  = uint64(1)
		rewinds  uint64             // in a row
		failedAt []checkpoint.Split // up to where the attempt that failed last had emitted
	)
	for {
		s.mu.Lock()
		failed, ended, cause := s.failed == attempt, s.ended == attempt, s.cause
		s.mu.Unlock()
		var changed <-chan struct{}
		switch {
		case failed:
			acked, emitted := s.states()
			if rewinds++; reached(acked, failedAt) {
				rewinds = 1 // what could not be delivered then is delivered
			}
			failedAt = emitted
			attempt++
			if !s.rewind(attempt, rewinds, cause) {
				return
			}
			continue
		case ended:
			var drained bool
			if drained, changed = s.drained(); drained {
				s.finish()
				return
			}
		}
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
		case <-changed:
		}
	}
}

// states are the positions of the newest attempt: delivered, and handed out.
func (s *Solo) states() (acked, emitted []checkpoint.Split) {
	s.reader.mu.Lock()
	defer s.reader.mu.Unlock()
	return s.att.ackedState().Splits, s.att.state().Splits
}

// reached tells whether all positions are at or behind those of goal. Either has partitions that the other one lacks,
// where some were discovered in between. Nothing, as before the first time, neither reaches nor is reached.
func reached(all, goal []checkpoint.Split) bool {
	for _, g := range goal {
		i, found := slices.BinarySearchFunc(all, g, checkpoint.CompareSplits)
		if !found || all[i].Offset < g.Offset {
			return false
		}
	}
	return len(goal) > 0
}

// rewind ends the attempt and begins the next one where the acknowledged prefixes end. It returns false when Close has
// come meanwhile.
func (s *Solo) rewind(attempt, inRow uint64, cause error) bool {
	r := s.reader
	delay := s.delay(inRow)
	count(r.cfg.Metrics.Rewinds, 1)
	r.log.Warn("going back to the lowest offset that is not acknowledged", "cause", kafkaclient.WithCause(cause),
		"in_a_row", inRow, "delay", delay.Round(time.Millisecond))
	timer := time.NewTimer(delay)
	defer timer.Stop()
	ctx, cancel := context.WithTimeout(s.ctx, s.halt)
	err := r.Halt(ctx)
	cancel()
	if err != nil && s.ctx.Err() == nil {
		r.log.Warn("records are still in flight, in a batch that waits for more or behind a slow output; they are read again "+
			"beside that and may be there twice", "waited", s.halt)
	}
	select {
	case <-timer.C:
	case <-s.ctx.Done():
		return false
	}
	r.mu.Lock()
	from := s.att.ackedState()
	r.mu.Unlock()
	r.log.Info("reading again", "positions", describe(from))
	s.start(attempt, from)
	return true
}

// drained tells whether everything is delivered. If not, changed is closed when it may be.
func (s *Solo) drained() (drained bool, changed <-chan struct{}) {
	s.reader.mu.Lock()
	defer s.reader.mu.Unlock()
	a := s.reader.att
	return a != nil && a.inFlight == 0 && !a.broken && !a.halted, s.reader.changed
}

// finish lets the source end, once its end is committed or that is given up.
func (s *Solo) finish() {
	s.commit(s.ctx, commitWait)
	s.reader.Finish()
}

// describe lists positions for the log.
func describe(state checkpoint.SourceState) string {
	const most = 30
	list := make([]string, 0, most+1)
	for i, p := range state.Splits {
		if i == most {
			list = append(list, fmt.Sprintf("and %d more", len(state.Splits)-most))
			break
		}
		list = append(list, fmt.Sprintf("%s-%d@%d", p.Topic, p.Partition, p.Offset))
	}
	return strings.Join(list, ", ")
}

// commitOnTimer commits until Close, by Kafka's enable.auto.commit and auto.commit.interval.ms. The client itself never
// commits (rule 1).
func (s *Solo) commitOnTimer() {
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			s.commit(s.ctx, commitWait)
		}
	}
}

// adopt commits where new partitions begin, before the first record of them is emitted: else a restart would resolve them
// by offset_reset, which may pass over records, or end the start.
func (s *Solo) adopt(ctx context.Context, begin []checkpoint.Split) error {
	if s.interval == 0 {
		return nil
	}
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, commitWait)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	return s.reader.CommitOffsets(ctx, checkpoint.SourceState{Splits: begin})
}

// commit commits the acknowledged prefixes, where they have moved since the last time. A failure is counted and logged,
// and the next commit takes along what this one missed.
func (s *Solo) commit(ctx context.Context, wait time.Duration) {
	if s.interval == 0 {
		return
	}
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	s.reader.mu.Lock()
	if s.att == nil {
		s.reader.mu.Unlock()
		return
	}
	state := s.att.ackedState()
	s.reader.mu.Unlock()
	if reached(s.committed, state.Splits) && time.Since(s.committedAt) < recommitInterval {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	switch err := s.reader.CommitOffsets(ctx, state); {
	case err == nil:
		s.committed, s.committedAt = state.Splits, time.Now()
	case !errors.Is(err, context.Canceled):
		s.reader.log.Error("positions could not be committed to the consumer group; reading goes on, and a restart would read "+
			"again what came since the last commit", "group", s.reader.cfg.Group, "err", err)
	}
}

package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/internal/splits"
)

// Errors of Next that are no failures.
var (
	// ErrEndOfInput says that a bounded source has emitted everything and that all of it is committed.
	ErrEndOfInput = errors.New("end of input")
	// ErrClosed says that the Reader was closed.
	ErrClosed = errors.New("source is closed")
	// ErrNotReady says that no attempt runs, or that no broker has answered for a while. AwaitReady waits for that.
	ErrNotReady = errors.New("source is not ready")
)

// Seat is what a Reader needs of its end of the coordinator; *checkpoint.Seat fulfils it.
type Seat interface {
	// Failed reports a failure that a new attempt may heal.
	Failed(tag checkpoint.Tag, cause error)
	// Fatal reports what no new attempt can heal.
	Fatal(cause error)
	// AtEnd reports that nothing more is emitted in this attempt.
	AtEnd(tag checkpoint.Tag)
	// Close ends the source's part: soft with a last checkpoint, hard at once.
	Close(ctx context.Context, hard bool) error
}

// Batch is what Next hands out: records of one attempt, in order for each partition.
type Batch struct {
	Records []*kgo.Record
	// Tag is carried by every message that is made of the batch.
	Tag checkpoint.Tag
	// Ack tells the outcome, at most once. An error sends the whole stream back to its last checkpoint.
	Ack func(ctx context.Context, err error)
}

// Reader reads the partitions of one source. It fulfils checkpoint.Source for the coordinator; Next and Close belong to
// the engine, which never calls them at the same time.
type Reader struct {
	cfg  Config
	log  *slog.Logger
	seat Seat
	// solo is set where a Solo drives; adopt is what it does before records of new partitions are emitted, nil without one.
	solo  bool
	adopt func(ctx context.Context, begin []checkpoint.Split) error

	// admin and clusterID are set by Connect, before anything else is called.
	admin     *kgo.Client
	clusterID string

	meter *meter
	ear   *ear
	door  *kafkaclient.Door
	// unpack unpacks batches, of up to unpackLimit bytes.
	unpack kgo.Decompressor
	limit  int64
	// hooks are more of them on the attempts' clients, for tests that listen.
	hooks []kgo.Hook

	// background are the goroutines that Close waits for, stop ends them.
	background sync.WaitGroup
	stop       context.CancelFunc
	stopped    context.Context

	// began tells the watch that an attempt has begun. The rest is the watch's own: whether its last look has failed, and
	// of which partitions it has said that they are read, or not read.
	began               chan struct{}
	lookFailed          bool
	discovered, ignored map[splits.Partition]bool
	// unknownSince is since when every broker has said at each look that there is no topic with this id.
	unknownSince map[[16]byte]time.Time

	// unavailable are the partitions that no broker tells of; only measure touches it.
	unavailable map[splits.Partition]*unavailable

	mu sync.Mutex
	// renewed are partitions of topics that were created again, until they are read: what the group has committed for them
	// belongs to the old topic.
	renewed map[splits.Partition]bool
	// gone are partitions that a pattern covers and that are not there any more, with the id of their topic.
	gone map[splits.Partition]absence
	// corrupt are the batches that attempts could not read; only Next touches it.
	corrupt map[splits.Partition]met
	// changed is closed and replaced whenever something below changes.
	changed chan struct{}
	// att is the attempt under way; nil before Start and after Halt.
	att      *attempt
	finished bool
	closing  bool
	watching bool
	// last is the batch that Next returned last, and taken tells whether the engine has asked again since: it does
	// exactly where some stage has taken that batch.
	last  *emitted
	taken bool
	// ackCtx is the context that acknowledgements come with: the engine ends it at a hard stop, and only then.
	ackCtx context.Context
	// silent is set while no broker answers.
	silent bool
	// about says what is read and from where.
	about string
}

var _ checkpoint.Source = (*Reader)(nil)

// New returns a Reader without any side effect: Connect opens its connection.
func New(cfg Config, seat Seat) (*Reader, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Reader{
		cfg: cfg, log: cfg.Logger, seat: seat, meter: newMeter(), ear: &ear{born: time.Now()}, door: kafkaclient.NewDoor(), changed: make(chan struct{}), began: make(chan struct{}, 1),
		discovered: make(map[splits.Partition]bool), ignored: make(map[splits.Partition]bool), renewed: make(map[splits.Partition]bool),
		unavailable: make(map[splits.Partition]*unavailable), corrupt: make(map[splits.Partition]met),
		gone: make(map[splits.Partition]absence), unknownSince: make(map[[16]byte]time.Time),
	}
	r.stopped, r.stop = context.WithCancel(context.Background())
	r.limit = unpackLimit()
	if r.unpack, err = newUnpacker(r.limit); err != nil {
		return nil, err
	}
	// The options are tried here so that a setting the client refuses fails at start-up (rule 13).
	if _, err := r.consumerOptions(nil); err != nil {
		return nil, err
	}
	return r, nil
}

// Connect reaches the cluster, or says which addresses do not answer and why. It may be called again after an error.
func (r *Reader) Connect(ctx context.Context) error {
	if r.admin == nil {
		opts, err := r.cfg.Connection.WithClientID(r.cfg.clientID("admin")).Options(r.log)
		if err != nil {
			return err
		}
		if r.admin, err = kgo.NewClient(append(opts, kgo.MetadataMinAge(retryMin), kgo.WithHooks(r.ear, r.door))...); err != nil {
			return fmt.Errorf("building the Kafka client: %w", err)
		}
	}
	id, err := kafkaclient.Ping(ctx, r.admin, r.log)
	if err != nil {
		return err
	}
	r.clusterID = id
	return nil
}

func (r *Reader) principal() string { return r.cfg.Connection.Security.Principal() }

func (r *Reader) cluster() cluster {
	return cluster{client: r.admin, log: r.log, id: r.clusterID, principal: r.principal()}
}

// bump wakes everything that waits for a change. r.mu is held.
func (r *Reader) bump() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// await returns with r.mu held once cond holds, or without it when the context ends.
func (r *Reader) await(ctx context.Context, cond func() bool) error {
	r.mu.Lock()
	for !cond() {
		changed := r.changed
		r.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
		r.mu.Lock()
	}
	return nil
}

// Next returns the next batch, which is never empty. While the coordinator pauses the source and at the end of a bounded
// one it waits. It returns ErrEndOfInput, ErrClosed, ErrNotReady, or the context's error; with an error nothing was handed
// out, so that nothing is lost where the engine connects again.
func (r *Reader) Next(ctx context.Context) (Batch, error) {
	r.mu.Lock()
	r.taken = true
	r.mu.Unlock()
	for {
		if ctx.Err() != nil {
			return Batch{}, ctx.Err()
		}
		err := r.await(ctx, func() bool {
			return r.finished || r.closing || !r.ready() || r.att.canEmit()
		})
		if err != nil {
			return Batch{}, err
		}
		// r.mu is held
		a := r.att
		switch {
		case r.closing:
			r.mu.Unlock()
			return Batch{}, ErrClosed
		case r.finished:
			r.mu.Unlock()
			return Batch{}, ErrEndOfInput
		case !r.ready():
			r.mu.Unlock()
			return Batch{}, ErrNotReady
		case a.buildErr != nil:
			a.broken = true
			r.mu.Unlock()
			r.seat.Fatal(a.buildErr)
		case len(a.pending) > 0:
			e := a.emit(a.ahead.batch(r.cfg.MaxBatch))
			if e != nil {
				r.last, r.taken = e, false
			}
			r.mu.Unlock()
			if e != nil {
				r.meter.emitted(e.records)
				return Batch{Records: e.records, Tag: a.tag, Ack: func(ctx context.Context, err error) { r.ack(ctx, e, err) }}, nil
			}
		case len(a.outside) > 0: // all that was fetched before is emitted
			outside := a.outside
			a.outside = nil
			r.mu.Unlock()
			r.stepOver(ctx, a, outside)
		case a.atEnd():
			a.endReported = true
			r.mu.Unlock()
			r.seat.AtEnd(a.tag)
		default:
			corrupt, wait := a.corruptDue(r.solo)
			r.mu.Unlock()
			r.reportWaiting(wait)
			if corrupt != nil {
				r.reportCorrupt(ctx, a, corrupt)
			} else {
				r.poll(ctx, a)
			}
		}
	}
}

// ack takes a batch's outcome.
func (r *Reader) ack(ctx context.Context, e *emitted, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ackCtx == nil {
		r.ackCtx = ctx
	}
	if e.settled {
		return
	}
	e.settled = true
	if err == nil {
		e.deliver() // also where the attempt has ended: what is delivered need not be read again
	}
	a := e.att
	if err != nil && r.att == a && !a.halted {
		a.broken = true
		count(r.cfg.Metrics.NackedRecords, int64(len(e.records)))
		// Failed goes out before in-flight falls, or a Pause that waits for just this batch would return positions
		// that count it as delivered, and the coordinator would hear of the failure only after that.
		r.mu.Unlock()
		report := func(err error) { r.seat.Failed(a.tag, err) }
		if _, denied := errors.AsType[*kafkaclient.AccessError](err); denied {
			report = r.seat.Fatal // Rule 13: an output that may not write will not be let to by sending it the batch again.
		}
		report(fmt.Errorf("a batch of %d records (%s) was not delivered: %w", len(e.records), e.span(), err))
		r.mu.Lock()
	}
	a.inFlight--
	r.bump()
}

// Start begins an attempt.
func (r *Reader) Start(tag checkpoint.Tag, from checkpoint.SourceState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped.Err() != nil {
		return // Close is over; nobody would close a new client
	}
	a := r.newAttempt(tag, from)
	if r.att != nil {
		r.att.halt(&r.background)
	}
	r.att = a
	if !r.watching {
		r.watching = true
		r.background.Go(r.watch)
		r.background.Go(r.watchDoor)
		r.background.Go(r.publish)
		r.background.Go(r.measure)
	}
	// The positions may lack partitions that the attempt before had taken up, and that no checkpoint holds.
	select {
	case r.began <- struct{}{}:
	default:
	}
	r.bump()
}

// Pause stops emitting, waits until everything emitted is acknowledged, and returns the positions. After a nack it does
// not return them: the attempt has failed, and Halt or the context end the wait.
func (r *Reader) Pause(ctx context.Context) (checkpoint.SourceState, error) {
	r.mu.Lock()
	a := r.att
	if a == nil {
		r.mu.Unlock()
		return checkpoint.SourceState{}, errors.New("pausing the source: no attempt is under way")
	}
	a.paused = true
	a.interrupt()
	r.mu.Unlock()

	if err := r.await(ctx, func() bool { return a.halted || a.inFlight == 0 && !a.broken }); err != nil {
		return checkpoint.SourceState{}, err
	}
	defer r.mu.Unlock()
	if a.halted {
		return checkpoint.SourceState{}, errors.New("pausing the source: the attempt was ended")
	}
	for _, s := range a.splits {
		s.barrier = s.pos.Offset
	}
	return a.state(), nil
}

// Resume goes on emitting after Pause.
func (r *Reader) Resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.att != nil {
		r.att.paused = false
		r.bump()
	}
}

// Halt ends the attempt and returns once nothing it emitted is in flight.
func (r *Reader) Halt(ctx context.Context) error {
	r.mu.Lock()
	a := r.att
	if a == nil {
		r.mu.Unlock()
		return nil
	}
	a.halt(&r.background)
	r.bump()
	r.mu.Unlock()

	if err := r.await(ctx, func() bool { return a.inFlight == 0 }); err != nil {
		return err
	}
	if r.att == a {
		r.att = nil
	}
	r.mu.Unlock()
	return nil
}

// Finish lets a source that has reached its end return ErrEndOfInput.
func (r *Reader) Finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finished = true
	r.bump()
}

// consumerOptions are the options of an attempt's client.
func (r *Reader) consumerOptions(assigned map[string]map[int32]kgo.Offset) ([]kgo.Opt, error) {
	opts, err := r.cfg.Connection.WithClientID(r.cfg.clientID("")).Options(r.log)
	if err != nil {
		return nil, err
	}
	opts = append(opts,
		// Rule 1: no group, so the client never commits by itself.
		kgo.ConsumePartitions(assigned),
		// A position that the log does not have is an error, never a jump.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		// Rule 11: control records tell that the position has moved.
		kgo.KeepControlRecords(),
		kgo.WithHooks(append(r.hooks, r.ear, r.door)...),
		kgo.FetchIsolationLevel(r.isolation()),
		// A partition that is added is fetched only when the fetch under way at its broker is answered. The client's own
		// default is 5 s.
		kgo.FetchMaxWait(fetchMaxWait),
		kgo.Rack(r.cfg.Rack),
		kgo.RecheckPreferredReplicaInterval(replicaRecheck),
	)
	return append(opts, r.cfg.Connection.Properties.Consumer()...), nil
}

func (r *Reader) isolation() kgo.IsolationLevel {
	if r.cfg.ReadCommitted {
		return kgo.ReadCommitted()
	}
	return kgo.ReadUncommitted()
}

// sortedSplits returns a sorted copy.
func sortedSplits(all []checkpoint.Split) []checkpoint.Split {
	all = slices.Clone(all)
	slices.SortFunc(all, checkpoint.CompareSplits)
	return all
}

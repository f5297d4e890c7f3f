package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/internal/repeats"
	"github.com/tidegate/tidegate/internal/txn"
)

// ErrClosed is returned by a write to a sink that was closed.
var ErrClosed = errors.New("the sink is closed")

// Sink writes records, and is the checkpoint.Sink of its stream.
type Sink struct {
	cfg   Config
	limit int // of one record, as batchLength counts it

	// door is a hook of every client; plain are their options without it.
	door  *kafkaclient.Door
	plain []kgo.Opt

	// ctx ends with Close. wg counts the goroutines that report failures.
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// Set by Connect, before anything else is called.
	broker       *txn.Broker
	pool         *txn.Pool // nil without transactions
	written      []string  // topics of restored committables
	letGo        func()    // gives the pool's prefix back
	timeouts     txn.Timeouts
	groups       *groups // nil unless there are transactions that no checkpoint decides about
	checkpointed bool
	clusterID    string

	// noted is where the ids stood when the recovery began. The coordinator calls what uses it one after another.
	noted txn.Standing

	mu sync.Mutex
	// changed is closed, and made anew, when anything below has changed.
	changed chan struct{}
	running *attempt // nil before the first Start, and from Halt to Start
	// over is the highest attempt that has ended: what it or an older one emitted is dropped (rule 8).
	over   uint64
	out    *outlet // of the running attempt; nil while no id is free
	closed bool

	lost lossLog

	// acks counts records; published are the counts that the metrics know, publishing tells that somebody hands them on.
	acks       acks
	published  published
	publishing bool
	// idless is since when no id is free. Guarded by mu.
	idless time.Time
}

// New returns a sink that has not connected. It has no side effect.
func New(cfg Config) *Sink {
	ctx, cancel := context.WithCancel(context.Background())
	cfg = cfg.withDefaults()
	_, limit := cfg.clientLimit()
	plain, door := cfg.Client, kafkaclient.NewDoor()
	cfg.Client = append(plain[:len(plain):len(plain)], kgo.WithHooks(door))
	return &Sink{cfg: cfg, limit: limit, plain: plain, door: door, ctx: ctx, cancel: cancel, changed: make(chan struct{})}
}

// Connect makes sure that the cluster can be reached, has what the guarantee needs, and that the topics known beforehand
// exist. It returns the cluster's id. It may be called again after an error; whatever can be cured by waiting is one.
func (s *Sink) Connect(ctx context.Context) (clusterID string, err error) {
	s.checkpointed = s.cfg.Seat.Checkpointed()
	if s.checkpointed || s.cfg.Guarantee == None {
		s.cfg.Linger = DefaultLinger
	}
	if s.broker == nil {
		if s.broker, err = txn.Dial(s.cfg.Client, s.cfg.Principal, s.cfg.Log); err != nil {
			return "", err
		}
	}
	if s.clusterID, err = kafkaclient.Ping(ctx, s.broker.Client(), s.cfg.Log); err != nil {
		return "", err
	}
	if err := s.findTopics(ctx); err != nil {
		return "", err
	}
	if s.cfg.Guarantee == ExactlyOnce && s.pool == nil {
		if err := s.connectPool(ctx); err != nil {
			return "", err
		}
	}
	if !s.publishing {
		s.publishing = true
		s.wg.Go(s.publish)
		s.wg.Go(s.watchDoor)
	}
	switch {
	case s.checkpointed:
		return s.clusterID, nil
	case s.cfg.Guarantee == ExactlyOnce:
		return s.clusterID, s.startGroups(ctx)
	}
	return s.clusterID, s.startUnchecked()
}

// findTopics fails while a topic that is known beforehand does not exist: the brokers' own answer to a record comes
// later, and fails an attempt.
func (s *Sink) findTopics(ctx context.Context) error {
	if len(s.cfg.Topics) == 0 {
		return nil
	}
	topics := strings.Join(s.cfg.Topics, ", ")
	defer kafkaclient.Slow(s.cfg.Log, kafkaclient.Bootstrap(s.broker.Client()), "a look at topics "+topics)()
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	for _, name := range s.cfg.Topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(ctx, s.broker.Client())
	if err != nil {
		return fmt.Errorf("looking up topics %s: %w", topics, kafkaclient.WithCause(err))
	}
	for _, t := range resp.Topics {
		err := kerr.ErrorForCode(t.ErrorCode)
		if err != nil && !kerr.IsRetriable(err) || errors.Is(err, kerr.UnknownTopicOrPartition) {
			return s.topicError(*t.Topic, err)
		}
		if err == nil && !mayWrite(t.AuthorizedOperations) {
			return s.topicError(*t.Topic, kerr.TopicAuthorizationFailed) // what a record would be answered
		}
	}
	return nil
}

// mayWrite tells whether Write is among the operations that a broker lets a user do with a topic (KIP-430), a set of bits by
// their codes. Where brokers do not tell, the first record does.
func mayWrite(operations int32) bool {
	return operations == math.MinInt32 || operations == 0 || operations&(1<<kmsg.ACLOperationWrite) != 0
}

// watchDoor ends the stream where a broker refuses the sink's new connections.
func (s *Sink) watchDoor() {
	if err := s.door.Watch(s.ctx, s.plain, s.cfg.Log); err != nil {
		s.cfg.Seat.Fatal(fmt.Errorf("sink %s: %w", s.cfg.Key, err))
	}
}

func (s *Sink) connectPool(ctx context.Context) error {
	if err := s.broker.Supported(ctx, txn.ID(s.cfg.Pool, 0)); err != nil {
		return s.refused(err)
	}
	timeouts, err := s.broker.Timeouts(ctx, s.cfg.TransactionTimeout)
	if err != nil {
		return err
	}
	if !s.checkpointed && s.cfg.TransactionTimeout == 0 {
		for i, t := range timeouts.Candidates {
			timeouts.Candidates[i] = min(t, max(ownTimeout, 2*s.cfg.CommitInterval))
		}
	}
	if longest := timeouts.Candidates[0]; timeouts.Max > 0 && longest > timeouts.Max {
		return s.refused(&txn.TimeoutError{TransactionalID: txn.ID(s.cfg.Pool, 0), Want: longest, Max: timeouts.Max})
	}
	if err := s.cfg.Seat.CheckTransactionTimeout(timeouts.Candidates[0]); err != nil {
		s.cfg.Seat.Fatal(err)
		return err
	}
	if err := s.cfg.Seat.ClaimIDs(s.clusterID); err != nil {
		return err
	}
	if s.letGo, err = txn.HoldPrefix(s.cfg.pool(s.clusterID), s.cfg.Stream); err != nil {
		return err // The other one may be about to stop.
	}
	s.timeouts = timeouts
	s.pool = txn.NewPool(txn.PoolConfig{
		Broker: s.broker, Sink: s.cfg.Key, Pool: s.cfg.pool(s.clusterID), Topics: s.cfg.Topics, Timeouts: timeouts,
		Client: s.cfg.options(), Log: s.cfg.Log,
	})
	return nil
}

// startGroups begins transactions that no checkpoint decides about. What a process before has left open is aborted: its
// senders were not told that it was written. There is no state that could name ids of an older, larger pool.
func (s *Sink) startGroups(ctx context.Context) error {
	if s.groups != nil {
		return nil
	}
	if s.cfg.Pool.Size < idsForGroups {
		return s.failSettings(fmt.Errorf("transactions.pool_size is %d, and there have to be %d ids at least: one that takes "+
			"writes, and one that is being committed", s.cfg.Pool.Size, idsForGroups))
	}
	accepted, err := s.pool.Init(ctx, []checkpoint.Pool{s.cfg.pool(s.clusterID)}, nil)
	if err != nil {
		return s.refused(err)
	}
	if accepted <= s.cfg.CommitInterval {
		return s.failSettings(fmt.Errorf("transactions.commit_interval is %v, and transactions.timeout %v: the broker would "+
			"abort transactions before they are committed; lower transactions.commit_interval, or raise "+
			"transactions.timeout", s.cfg.CommitInterval, accepted))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.groups = newGroups(s, poolLedger{s.pool})
	return nil
}

func (s *Sink) failSettings(err error) error {
	s.cfg.Seat.Fatal(err)
	return err
}

// refused reports a setting that no waiting cures, so that it is not retried for ever (rule 13).
func (s *Sink) refused(err error) error {
	if final(err) {
		s.cfg.Seat.Fatal(err)
	}
	return err
}

// startUnchecked begins the only attempt of a stream without checkpoints.
func (s *Sink) startUnchecked() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil || s.closed {
		return nil
	}
	a := &attempt{}
	out, err := s.newOutlet(a, -1)
	if err != nil {
		return fmt.Errorf("creating Kafka client: %w", err)
	}
	s.running, s.out = a, out
	s.signal()
	return nil
}

// signal wakes whoever waits for a change. s.mu is held.
func (s *Sink) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until settled, which runs under s.mu, returns true.
func (s *Sink) await(ctx context.Context, settled func() bool) error {
	for {
		s.mu.Lock()
		if settled() {
			s.mu.Unlock()
			return nil
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// drain sends what a sink of guarantee none has buffered, before its client is closed: what it may lose is what fails, not
// the tail of every run (Flink: KafkaWriter.flush at the end of the input). Nor does it lose the tail of an attempt that
// ends: no checkpoint has waited for its records, so their positions may be durable already, and nobody reads them again.
// What is left is counted (rule 12).
func (s *Sink) drain(ctx context.Context, out *outlet) {
	if s.cfg.Guarantee != None {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.DrainTimeout)
	defer cancel()
	if err := out.flush(ctx); err == nil {
		return
	}
	left := int(out.window.records.Load())
	s.cfg.Metrics.Lost(left)
	s.cfg.Log.ErrorContext(repeats.Always(ctx), "records are lost, but for those that are read again: they were not acknowledged when the sink was closed "+
		"or went back to a checkpoint, and `delivery_guarantee: none` does not wait longer for them",
		"records", left, "waited", s.cfg.DrainTimeout)
}

// Close closes every client and waits for the sink's goroutines. It ends no transaction: what is sealed is committed by
// the next process, what is open is aborted by it. Writes that wait return.
func (s *Sink) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	out := s.out
	s.running, s.out = nil, nil
	s.signal()
	s.mu.Unlock()
	s.cancel()
	if out != nil {
		s.drain(context.Background(), out)
		out.stop()
	}
	if s.groups != nil {
		s.groups.cancel()
	}
	if s.pool != nil {
		s.pool.Close()
		s.letGo()
	}
	if s.groups != nil {
		s.groups.wg.Wait()
	}
	s.wg.Wait()
	s.publishOnce()
	if s.broker != nil {
		s.broker.Close()
	}
}

// MissingTopicError says that a topic to write to does not exist.
type MissingTopicError struct {
	Topic string
	Err   error
}

func (e *MissingTopicError) Error() string {
	return fmt.Sprintf("`topic`: %q does not exist on this cluster, or its user may not describe it: create it, or correct "+
		"`topic` (%v)", e.Topic, e.Err)
}

func (e *MissingTopicError) Unwrap() error { return e.Err }

// topicError says what is wrong with a topic in words.
func (s *Sink) topicError(topic string, err error) error {
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return &MissingTopicError{Topic: topic, Err: err}
	}
	err = kafkaclient.Access(topic, kafkaclient.OperationWrite, s.cfg.Principal, err)
	if _, denied := errors.AsType[*kafkaclient.AccessError](err); denied {
		return err
	}
	return fmt.Errorf("`topic`: %q: %w", topic, kafkaclient.WithCause(err))
}

// lossLog logs losses of guarantee none, which can come by the thousand, once in a while.
type lossLog struct {
	mu     sync.Mutex
	spoke  time.Time
	unsaid int
}

// add counts a lost record and returns how many are to be told of now, 0 for none.
func (l *lossLog) add() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsaid++
	if time.Since(l.spoke) < time.Minute {
		return 0
	}
	n := l.unsaid
	l.spoke, l.unsaid = time.Now(), 0
	return n
}

var _ checkpoint.Sink = (*Sink)(nil)

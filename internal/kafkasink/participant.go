package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/txn"
)

// errNoAttempt answers who flushes or seals while no attempt runs.
var errNoAttempt = errors.New("no attempt runs in this sink")

// NoteIDs notes where the ids of the config stand.
func (s *Sink) NoteIDs(ctx context.Context) error {
	s.noted = nil
	if s.pool == nil {
		return nil
	}
	var err error
	s.noted, err = s.broker.Note(ctx, txn.IDs([]checkpoint.Pool{s.cfg.pool(s.clusterID)}))
	return err
}

// ForgetIDs forgets it.
func (s *Sink) ForgetIDs() { s.noted = nil }

// Verify refuses a restored state of another cluster, whatever the guarantee is now: what an exactly-once sink has
// sealed is committed even where the sink has become at-least-once since.
func (s *Sink) Verify(ctx context.Context, restored checkpoint.SinkState, committables []checkpoint.Committable) error {
	for _, p := range restored.Pools {
		if err := s.sameCluster(p.ClusterID, fmt.Sprintf("the transactional ids %s-%d-*", p.Prefix, p.Index)); err != nil {
			return err
		}
	}
	for _, c := range committables {
		if err := s.sameCluster(c.ClusterID, fmt.Sprintf("the sealed transaction of id %q (%d records, topics %s)",
			c.TransactionalID, c.Records, strings.Join(topics(c), ", "))); err != nil {
			return err
		}
		s.written = append(s.written, topics(c)...)
		if s.pool != nil {
			s.pool.Know(topics(c)...)
		}
	}
	// Ids of an old prefix or of a larger pool are known only now.
	old, err := s.broker.Note(ctx, txn.IDs(restored.Pools))
	s.noted = s.noted.Add(old)
	return err
}

func (s *Sink) sameCluster(restored, what string) error {
	if restored == s.clusterID || restored == "" || s.clusterID == "" {
		return nil
	}
	return fmt.Errorf("the newest checkpoint record holds %s of cluster %q, but `bootstrap_servers` leads to cluster %q: "+
		"correct `bootstrap_servers`, or, if the sink was moved on purpose, stop the job cleanly with the old ones and give the "+
		"output another label, which keeps the positions of the inputs",
		what, restored, s.clusterID)
}

func topics(c checkpoint.Committable) []string {
	names := make([]string, len(c.Topics))
	for i, t := range c.Topics {
		names[i] = t.Topic
	}
	return names
}

// Traces looks for open transactions of the sink's ids.
func (s *Sink) Traces(ctx context.Context) (string, error) {
	if s.pool == nil {
		return "", nil
	}
	return s.broker.Traces(ctx, s.cfg.pool(s.clusterID))
}

// Describe tells what became of a sealed transaction without changing it.
func (s *Sink) Describe(ctx context.Context, c checkpoint.Committable) (checkpoint.Verdict, error) {
	return s.broker.Describe(ctx, c)
}

// Commit commits a sealed transaction, by its living client or by raw EndTxn.
func (s *Sink) Commit(ctx context.Context, c checkpoint.Committable) (checkpoint.Verdict, error) {
	commit := s.broker.Commit
	if s.pool != nil {
		commit = s.pool.Commit
	}
	began := time.Now()
	verdict, err := commit(ctx, c)
	switch {
	case err != nil:
	case verdict == checkpoint.Committed:
		s.cfg.Metrics.Commit(time.Since(began))
		s.cfg.Metrics.Committed(0, int(c.Records))
	case verdict == checkpoint.Aborted:
		s.cfg.Metrics.Aborted()
	}
	return verdict, err
}

// InitIDs initialises every id of the pools. A sink without transactions has some to initialise when it had them before.
func (s *Sink) InitIDs(ctx context.Context, pools []checkpoint.Pool) error {
	if s.pool != nil {
		accepted, err := s.pool.Init(ctx, pools, s.noted)
		if err != nil {
			return err
		}
		return s.cfg.Seat.CheckTransactionTimeout(accepted)
	}
	ids := txn.IDs(pools)
	if len(ids) == 0 {
		return nil
	}
	timeouts, err := s.broker.Timeouts(ctx, 0)
	if err != nil {
		return err
	}
	_, err = s.broker.Init(ctx, ids, slices.Concat(s.cfg.Topics, s.written), timeouts, s.noted)
	return err
}

// Start begins an attempt.
func (s *Sink) Start(tag checkpoint.Tag, id int32) {
	a := &attempt{tag: tag}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.running, s.idless = a, time.Time{}
	if tag.Attempt > 0 {
		s.over = max(s.over, tag.Attempt-1)
	}
	s.openOutlet(a, id)
	s.signal()
}

// Open gives the attempt an id to go on with.
func (s *Sink) Open(id int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil || s.out != nil {
		return // halted meanwhile; the coordinator aborts the id
	}
	if !s.idless.IsZero() {
		s.cfg.Metrics.IDWait(time.Since(s.idless))
		s.idless = time.Time{}
	}
	s.openOutlet(s.running, id)
	s.signal()
}

// openOutlet makes the outlet of an attempt; with transactions and no free id there is none. s.mu is held.
func (s *Sink) openOutlet(a *attempt, id int32) {
	s.out = nil
	if s.pool != nil && id < 0 {
		return
	}
	out, err := s.newOutlet(a, id)
	if err != nil { // the options were good for other clients
		a.failed, a.settled = err, make(chan struct{})
		close(a.settled)
		s.wg.Go(func() { s.cfg.Seat.Fatal(err) })
		return
	}
	s.out = out
}

// Flush waits until the broker has acknowledged every record, and fails if any send of the attempt failed. With guarantee
// none there is nothing to wait for (Flink: DeliveryGuarantee.NONE).
func (s *Sink) Flush(ctx context.Context) error {
	if s.cfg.Guarantee == None {
		return nil
	}
	var (
		a   *attempt
		out *outlet
	)
	// Race: a write that nobody waits for any more may still be on its way (its batch was given up on). It is waited
	// for, so that nothing comes after the flush.
	err := s.await(ctx, func() bool {
		a, out = s.running, s.out
		return out == nil || out.writers == 0
	})
	if err != nil {
		return err
	}
	if a == nil {
		return errNoAttempt
	}
	if out == nil {
		return s.failure(ctx, a)
	}
	began := time.Now()
	if err := out.flush(ctx); err != nil {
		return fmt.Errorf("waiting for the broker's acknowledgements: %w", err)
	}
	// Race: Halt has closed the client meanwhile. Its records have failed, which ends the client's flush, and as
	// consequences of the halt their failures are not kept.
	if out.isStopped() {
		return errNoAttempt
	}
	s.cfg.Metrics.Flush(time.Since(began))
	return s.failure(ctx, a)
}

// Seal closes the open transaction after a flush and makes next the one that further records go to.
func (s *Sink) Seal(next int32) (*checkpoint.Committable, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return nil, errNoAttempt
	}
	if s.running.failed != nil {
		return nil, s.running.failed
	}
	if s.pool == nil || s.out == nil {
		return nil, nil
	}
	// Race: see Flush. A writer that is in the outlet may add a record at any moment.
	if s.out.writers > 0 {
		return nil, errors.New("sealing while a batch is being written: it was given up on before its write had ended")
	}
	c, err := s.out.tx.Seal()
	if err != nil || c == nil {
		return nil, err
	}
	s.openOutlet(s.running, next)
	if s.out == nil {
		s.idless = time.Now()
	}
	s.signal()
	return c, nil
}

// Halt ends the attempt. What it emitted is dropped from now on (rule 8), whoever waits in a write returns, and no
// writer is left when it returns. It sends nothing, but for guarantee none: the client is closed, its transaction stays
// open until Abort. Sealed transactions keep their clients.
func (s *Sink) Halt(ctx context.Context) error {
	s.mu.Lock()
	out, a := s.out, s.running
	if a != nil {
		s.over = max(s.over, a.tag.Attempt)
	}
	s.running, s.out = nil, nil
	s.signal()
	s.mu.Unlock()
	if out == nil {
		return nil
	}
	s.drain(ctx, out)
	out.stop()
	if err := s.await(ctx, func() bool { return out.writers == 0 }); err != nil {
		return err
	}
	// What a failure means is known before the id may be initialised again: it may have another owner.
	_ = s.failure(ctx, a)
	return ctx.Err()
}

// Abort closes the id's client and initialises the id.
func (s *Sink) Abort(ctx context.Context, id int32) error {
	if s.pool == nil {
		return nil
	}
	holds := s.pool.Holds(id)
	err := s.pool.Abort(ctx, id)
	if err == nil && holds {
		s.cfg.Metrics.Aborted()
	}
	return err
}

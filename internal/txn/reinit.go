package txn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// claim is what this process knows of an id that it owns.
type claim struct {
	owner
	timeout time.Duration
	// began is when the transaction that is open on the id began, zero for none.
	began time.Time
	// unanswered is how many initialisations by a client of ours may have been done without an answer.
	unanswered int
}

// reinit initialises an id as its owner; see Broker.reinit. An id that was never initialised here is left alone.
//
// Race: a transaction that is being begun and its abort may both want to. They take turns, so that the second knows what
// the first has made of the id; and a transaction that was closed meanwhile gives up its turn, since the abort's may be
// over, and the id open for the next transaction.
func (p *Pool) reinit(ctx context.Context, id int32, closed func() bool) error {
	p.mu.Lock()
	turn := p.turns[id]
	if turn == nil {
		turn = make(chan struct{}, 1)
		p.turns[id] = turn
	}
	p.mu.Unlock()
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if closed() {
		return ErrClosed
	}
	p.mu.Lock()
	as, known := p.owned[id]
	c := claim{owner: as, timeout: p.timeout, began: p.began[id]}
	if n := p.asking[id]; n != nil {
		c.unanswered = n.most()
	}
	p.mu.Unlock()
	if !known {
		return nil
	}
	m := p.mending(id)
	now, err := p.cfg.Broker.reinit(ctx, ID(p.cfg.Pool, id), c, m)
	if err != nil {
		return err
	}
	p.own(id, now)
	p.closeTransaction(id)
	if err := p.cfg.Broker.mend(ctx, m); err != nil {
		return err
	}
	p.cleaned(id)
	return nil
}

// confirm notes what a client says it owns its id as. Where the client has just initialised the id, that must be right
// behind where this process had brought it: else another owner was there in the moment before, and this process ends
// without having written anything.
func (p *Pool) confirm(id int32, as owner) error {
	p.mu.Lock()
	asked, before := p.asking[id], p.owned[id]
	_, known := p.owned[id]
	p.mu.Unlock()
	if known && asked != nil && !asked.explains(before, as) {
		return &FencedError{
			TransactionalID: ID(p.cfg.Pool, id), ProducerID: before.producerID, Epoch: before.epoch, Err: kerr.ProducerFenced,
		}
	}
	p.own(id, as)
	return nil
}

// initialised tells whether an id may be where a client of ours has brought it that was closed before it knew.
func (c claim) initialised(seen described) bool {
	up := int(seen.epoch) - int(c.epoch)
	return seen.state == "Empty" && seen.producerID == c.producerID && up > 0 && up <= c.unanswered
}

// reinit initialises an id that this process owns, and only as that owner: a process that was taken for dead, and whose
// ids have a new owner, must not take them back. It returns what the id is owned as from here on, or a *FencedError.
//
// The owner is asked for first, since a coordinator compares epochs (KIP-360) only while no transaction is open: where
// one is, InitProducerId aborts it, whoever asks. Between the question and the request lies a moment in which another
// may still take the id over; it is then fenced by us, and says so. What its transactions have left open is mended first.
func (b *Broker) reinit(ctx context.Context, id string, mine claim, m mending) (owner, error) {
	as := mine.owner
	c := checkpoint.Committable{
		TransactionalID: id, ProducerID: as.producerID, Epoch: as.epoch, TimeoutMs: int32(mine.timeout.Milliseconds()),
	}
	seen, ours, err := b.stillOurs(ctx, c, mine)
	var unsupported *UnsupportedError
	var refused *AuthorizationError
	switch {
	case errors.As(err, &unsupported), errors.As(err, &refused):
		// Brokers that do not tell compare the epoch at least. Our own timeout raises it.
		if expired(c, mine.began) {
			as = anyOwner
		}
	case err != nil:
		return owner{}, err
	case !ours:
		return owner{}, &FencedError{
			TransactionalID: id, ProducerID: as.producerID, Epoch: as.epoch, Seen: seen.String(), Err: kerr.ProducerFenced,
		}
	case seen.state == "Ongoing":
		// The coordinator first aborts the transaction, which raises the epoch, and answers CONCURRENT_TRANSACTIONS: asked
		// again with the epoch of before, a cluster below transaction.version 2 takes us for fenced by ourselves.
		as = anyOwner
	default:
		as = owner{seen.producerID, seen.epoch}
	}
	if err := b.mend(ctx, m); err != nil {
		return owner{}, err
	}
	return b.initAs(ctx, id, as, mine.timeout, 0)
}

// initAs is initID, whose refusal of an owner means that there is another one.
func (b *Broker) initAs(ctx context.Context, id string, as owner, timeout, limit time.Duration) (owner, error) {
	now, err := b.initID(ctx, id, as, timeout, limit)
	if err != nil && fencing(err) {
		err = &FencedError{TransactionalID: id, ProducerID: as.producerID, Epoch: as.epoch, Err: err}
	}
	return now, err
}

// stillOurs tells whether an id stands where a commit, a timeout or a lost initialisation of our own leaves it.
func (b *Broker) stillOurs(ctx context.Context, c checkpoint.Committable, mine claim) (seen described, ours bool, err error) {
	what := fmt.Sprintf("asking who owns transactional id %q", c.TransactionalID)
	var settles settling
	err = b.persist(ctx, what, func(ctx context.Context) error {
		able, err := b.abilities(ctx, c.TransactionalID)
		if err != nil {
			return err
		}
		if !able.describe {
			return &UnsupportedError{What: "DescribeTransactions"}
		}
		seen, err = b.describe(ctx, c.TransactionalID)
		if errors.Is(err, kerr.TransactionalIDNotFound) {
			seen, ours = absent, true // expired, and nobody's
			return nil
		}
		if err != nil {
			return err
		}
		// Below transaction.version 2 a commit leaves the epoch as it is, so one above ours is another owner's. The
		// coordinator answers EndTxn before it is done.
		if able.transactionVersion >= 2 && seen.follows(c.ProducerID, c.Epoch) {
			switch seen.state {
			case "PrepareCommit":
				return errSettling
			case "CompleteCommit":
				ours = true
				return nil
			}
		}
		if mine.initialised(seen) {
			ours = true
			return nil
		}
		ours, err = seen.ours(c, expired(c, mine.began), &settles)
		return err
	})
	return seen, ours, err
}

// errAnswerLost lets an id be initialised once more, from where a request of ours has brought it.
var errAnswerLost = errors.New("the id was initialised, and the answer was lost")

// initID initialises one id, as the owner given. The answer may be lost with its broker, and the one that takes over no
// longer knows the epoch of before: it then refuses the owner for what is its own doing.
func (b *Broker) initID(ctx context.Context, id string, as owner, timeout, limit time.Duration) (owner, error) {
	what := fmt.Sprintf("initialising transactional id %q", id)
	var now owner
	lost := false // an answer
	err := b.persist(ctx, what, func(ctx context.Context) error {
		found := kadm.NewClient(b.current).FindTxnCoordinators(ctx, id)[id]
		if found.Err != nil {
			return found.Err
		}
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID = &id
		req.TransactionTimeoutMillis = int32(timeout.Milliseconds())
		req.ProducerID, req.ProducerEpoch = as.producerID, as.epoch
		// By the broker itself, since a client repeats a lost request without a word.
		resp, err := req.RequestWith(ctx, b.current.Broker(int(found.NodeID)))
		if err != nil {
			lost = true
			return err
		}
		now = owner{resp.ProducerID, resp.ProducerEpoch}
		err = kerr.ErrorForCode(resp.ErrorCode)
		if err == nil || !lost || !fencing(err) {
			return err
		}
		seen, unseen := b.describe(ctx, id)
		if unseen == nil && seen.state == "Empty" && seen.follows(as.producerID, as.epoch) {
			as, lost = owner{seen.producerID, seen.epoch}, false
			return errAnswerLost
		}
		return errors.Join(err, unseen)
	})
	switch {
	case err == nil:
		return now, nil
	case errors.Is(err, kerr.InvalidTransactionTimeout):
		return now, &TimeoutError{TransactionalID: id, Want: timeout, Max: limit}
	case errors.Is(err, kerr.UnsupportedVersion):
		return now, &UnsupportedError{What: "transactions", Err: err}
	}
	return now, b.refusal(id, "Write", fmt.Errorf("%s: %w", what, err))
}

package txn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// errSettling says that the coordinator is between two states; the question is open until it has settled.
var errSettling = fmt.Errorf("the coordinator is still ending the transaction: %w", kerr.ConcurrentTransactions)

// settleLimit is how long a transaction may be open one epoch behind ours before it is taken for what it says. A
// coordinator that aborts a transaction for its timeout first raises the epoch, and until the abort is written it says
// that the transaction is open at the new one.
const settleLimit = 5 * time.Second

// settling bounds one question's wait for that.
type settling struct{ since time.Time }

func (s *settling) patient() bool {
	if s.since.IsZero() {
		s.since = time.Now()
	}
	return time.Since(s.since) < settleLimit
}

// described is the coordinator's own view of an id.
type described struct {
	state      string // Kafka's name: Empty, Ongoing, PrepareAbort, CompleteCommit, …
	producerID int64
	epoch      int16
}

func (d described) String() string {
	return fmt.Sprintf("%s at producer id %d, epoch %d", d.state, d.producerID, d.epoch)
}

// Describe tells what became of a sealed transaction without changing it: a verdict as Commit returns it, or 0 while it
// is still open.
func (b *Broker) Describe(ctx context.Context, c checkpoint.Committable) (checkpoint.Verdict, error) {
	var (
		verdict checkpoint.Verdict
		settles settling
	)
	what := fmt.Sprintf("describing transaction of id %q", c.TransactionalID)
	err := b.persist(ctx, what, func(ctx context.Context) error {
		able, err := b.abilities(ctx, c.TransactionalID)
		if err != nil {
			return err
		}
		if !able.describe {
			return &UnsupportedError{What: "DescribeTransactions (Apache Kafka 3.0), asked where a checkpoint has several transactions"}
		}
		seen, err := b.describe(ctx, c.TransactionalID)
		if errors.Is(err, kerr.TransactionalIDNotFound) {
			verdict = checkpoint.Unknown
			return nil
		}
		if err != nil {
			return err
		}
		verdict, err = seen.verdict(c, able.transactionVersion, &settles)
		return err
	})
	if err != nil {
		return 0, err
	}
	return verdict, nil
}

// describe asks once.
func (b *Broker) describe(ctx context.Context, id string) (described, error) {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{id}
	resp, err := req.RequestWith(ctx, b.current)
	if err != nil {
		return described{}, b.refusal(id, "Describe", err)
	}
	for _, s := range resp.TransactionStates {
		if s.TransactionalID == id {
			err := kerr.ErrorForCode(s.ErrorCode)
			return described{s.State, s.ProducerID, s.ProducerEpoch}, b.refusal(id, "Describe", err)
		}
	}
	return described{}, kerr.TransactionalIDNotFound
}

// verdict reads the state as that of a sealed transaction whose id has not been initialised since. 0 means still open.
func (d described) verdict(c checkpoint.Committable, transactionVersion int16, settles *settling) (checkpoint.Verdict, error) {
	same := d.producerID == c.ProducerID && d.epoch == c.Epoch
	next := d.follows(c.ProducerID, c.Epoch)
	if !same && !next {
		return checkpoint.Unknown, nil
	}
	switch d.state {
	case "Ongoing":
		switch {
		case same:
			return 0, nil
		case settles.patient():
			return 0, errSettling
		case transactionVersion >= 2:
			return 0, nil // see resumeMend
		}
	case "PrepareCommit", "CompleteCommit":
		return checkpoint.Committed, nil
	case "PrepareAbort", "PrepareEpochFence":
		return 0, errSettling
	case "CompleteAbort":
		// Below transaction.version 2 an InitProducerId that aborts passes through the same state, so there only age
		// tells a timeout.
		if same || transactionVersion >= 2 || timedOut(c) {
			return checkpoint.Aborted, nil
		}
	}
	return checkpoint.Unknown, nil
}

// follows tells whether the id stands right behind the given epoch, as after a transaction that bumped it. At
// transaction.version 2 every transaction takes an epoch, so an id comes to the end of its epochs within days; the last
// transaction then goes on, once it is complete, as epoch 0 of a new producer id.
func (d described) follows(producerID int64, epoch int16) bool {
	if d.producerID == producerID {
		return int(d.epoch) == int(epoch)+1
	}
	return epoch == math.MaxInt16-1 && d.epoch == 0
}

func timedOut(c checkpoint.Committable) bool {
	return time.Since(time.UnixMilli(c.BeganUnixMs)) >= time.Duration(c.TimeoutMs)*time.Millisecond
}

// expired tells whether a transaction that began then, by this process's own clock, which no adjustment of the time of
// day moves, is as old as its timeout by now. It is asked when the coordinator has answered, which may be long after the
// first try: a transaction that was young when its broker went away runs into its timeout once that is back.
func expired(c checkpoint.Committable, began time.Time) bool {
	return !began.IsZero() && time.Since(began) >= time.Duration(c.TimeoutMs)*time.Millisecond
}

// Diagnose tells apart what the same answer of a broker can mean to a living producer: nil where the transaction ran
// into its own timeout or the id is still ours, which a new attempt heals, and a *FencedError where another owner has
// taken the id. c needs the id, producer id, epoch and timeout only; began is when its first record was produced, zero
// where none was.
func (b *Broker) Diagnose(ctx context.Context, c checkpoint.Committable, began time.Time, answer error) error {
	if !fencing(answer) {
		return nil
	}
	fenced := &FencedError{TransactionalID: c.TransactionalID, ProducerID: c.ProducerID, Epoch: c.Epoch, Err: answer}
	what := fmt.Sprintf("asking who owns transactional id %q", c.TransactionalID)
	var (
		owned   bool
		settles settling
	)
	err := b.persist(ctx, what, func(ctx context.Context) error {
		able, err := b.abilities(ctx, c.TransactionalID)
		if err != nil {
			return err
		}
		if !able.describe {
			return &UnsupportedError{What: "DescribeTransactions"}
		}
		seen, err := b.describe(ctx, c.TransactionalID)
		if errors.Is(err, kerr.TransactionalIDNotFound) {
			owned = true // expired; nobody has taken it
			return nil
		}
		if err != nil {
			return err
		}
		fenced.Seen = seen.String()
		owned, err = seen.ours(c, expired(c, began), &settles)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil:
		// The coordinator does not tell. A transaction as old as its timeout has run into it.
		owned = expired(c, began)
		b.log.Warn("the broker does not tell who owns the transactional id, so its age decides",
			"transactional_id", c.TransactionalID, "timed_out", owned, "cause", err.Error())
	}
	if owned {
		return nil
	}
	return fenced
}

// ours tells whether the id's state is what our own transaction leaves behind, open or aborted by its timeout. Another
// owner's initialisation first aborts our transaction, and so passes through the very state a timeout ends in, at every
// transaction.version; only a transaction that is as old as its timeout can have run into it.
func (d described) ours(c checkpoint.Committable, tooOld bool, settles *settling) (bool, error) {
	if d.producerID == c.ProducerID && d.epoch == c.Epoch && d.state != "PrepareEpochFence" {
		return true, nil
	}
	if !d.follows(c.ProducerID, c.Epoch) {
		return false, nil
	}
	switch d.state {
	case "PrepareAbort", "PrepareEpochFence":
		return false, errSettling
	case "CompleteAbort":
		return tooOld, nil
	case "Ongoing":
		if settles.patient() {
			return false, errSettling
		}
	}
	return false, nil
}

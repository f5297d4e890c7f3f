package txn

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// errWhileRecovering is the cause of a FencedError that a recovery ends with.
var errWhileRecovering = errors.New("while this process was recovering")

// Standing is where the coordinators saw a set of ids at one moment. It is nil where brokers do not tell.
type Standing map[string]described

// absent is the standing of an id that no coordinator knows: it was never initialised, or has expired.
var absent = described{producerID: -1, epoch: -1}

// Note asks for the standing of ids. A recovery notes it before it reads the newest record, and Init compares: a process
// that slept in between, while another one recovered from a copy of its state, would otherwise take the ids over like any
// start, and write once more what the other has committed. Transactions that are being ended are waited for.
func (b *Broker) Note(ctx context.Context, ids []string) (Standing, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	seen, _, err := b.standing(ctx, ids)
	var unsupported *UnsupportedError
	var refused *AuthorizationError
	if errors.As(err, &unsupported) || errors.As(err, &refused) {
		b.log.Info("the broker does not tell who owns transactional ids, so a recovery that sleeps cannot notice that "+
			"another process has taken them", "cause", err.Error())
		return nil, nil
	}
	return seen, err
}

// Add puts in what the other standing knows of ids that this one does not, and returns it.
func (s Standing) Add(other Standing) Standing {
	if s == nil {
		return other
	}
	for id, d := range other {
		if _, known := s[id]; !known {
			s[id] = d
		}
	}
	return s
}

// unmoved asks where the ids stand now, and returns whom each is to be initialised as, or a *FencedError where one has
// moved in a way that neither a commit of this recovery nor a timeout explains. Ids that were not noted are left out.
//
// Between this question and the initialisation lies a moment in which another may still take an id over. Where no
// transaction is open, the coordinator itself then refuses the owner of before; where one is, it aborts for everybody,
// and whoever came last fences the other.
func (b *Broker) unmoved(ctx context.Context, before Standing) (map[string]owner, error) {
	as := make(map[string]owner, len(before))
	if len(before) == 0 {
		return as, nil
	}
	ids := make([]string, 0, len(before))
	for id := range before {
		ids = append(ids, id)
	}
	now, err := b.explained(ctx, ids, before)
	if err != nil {
		return nil, err
	}
	for id, seen := range now {
		as[id] = anyOwner
		if seen.state != "Ongoing" { // see reinit
			as[id] = owner{seen.producerID, seen.epoch}
		}
	}
	return as, nil
}

// explained asks where the ids stand now, until each is where one that was not moved by another owner may be.
func (b *Broker) explained(ctx context.Context, ids []string, before Standing) (now Standing, err error) {
	var settles settling
	err = b.persist(ctx, fmt.Sprintf("asking who owns the transactional ids of %q", ids[0]), func(ctx context.Context) error {
		var able abilities
		if now, able, err = b.standing(ctx, ids); err != nil {
			return err
		}
		for id, then := range before {
			seen := now[id]
			switch {
			case seen.explainedBy(then, able.transactionVersion):
			case seen.state == "Ongoing" && then.state == "Ongoing" && seen.follows(then.producerID, then.epoch) && settles.patient():
				return errSettling // its timeout may be about to be written
			default:
				return &FencedError{
					TransactionalID: id, ProducerID: then.producerID, Epoch: then.epoch, Seen: seen.String(), Err: errWhileRecovering,
				}
			}
		}
		return nil
	})
	return now, err
}

// explainedBy tells whether an id got from where it stood to here without another owner: its open transaction was
// committed, or was aborted by its timeout. Every InitProducerId raises the epoch, and one that finds a transaction open
// raises it twice, since the abort takes an epoch of its own. So one step up with a complete end is ours, also for an id
// whose new owner is between those two: it has written nothing yet, and is then fenced by us.
func (d described) explainedBy(then described, transactionVersion int16) bool {
	switch {
	case d == absent:
		return true // expired, and nobody's
	case d.producerID == then.producerID && d.epoch == then.epoch:
		return true
	case then.state != "Ongoing" || !d.follows(then.producerID, then.epoch):
		return false
	}
	// Below transaction.version 2 a commit takes no epoch.
	return d.state == "CompleteAbort" || d.state == "CompleteCommit" && transactionVersion >= 2
}

// standing asks until every id's transaction, if any, is either open or complete.
func (b *Broker) standing(ctx context.Context, ids []string) (seen Standing, able abilities, err error) {
	err = b.persist(ctx, fmt.Sprintf("asking who owns the transactional ids of %q", ids[0]), func(ctx context.Context) error {
		var err error
		if able, err = b.abilities(ctx, ids[0]); err != nil {
			return err
		}
		if !able.describe {
			return &UnsupportedError{What: "DescribeTransactions"}
		}
		seen, err = b.describeAll(ctx, ids)
		return err
	})
	return seen, able, err
}

// describeAll asks once, for all ids.
func (b *Broker) describeAll(ctx context.Context, ids []string) (Standing, error) {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = ids
	resp, err := req.RequestWith(ctx, b.current)
	if err != nil {
		return nil, b.refusal(ids[0], "Describe", err)
	}
	seen := make(Standing, len(ids))
	for _, s := range resp.TransactionStates {
		err := kerr.ErrorForCode(s.ErrorCode)
		switch {
		case errors.Is(err, kerr.TransactionalIDNotFound), err == nil && s.State == "Dead":
			seen[s.TransactionalID] = absent
		case err != nil:
			return nil, b.refusal(s.TransactionalID, "Describe", err)
		case strings.HasPrefix(s.State, "Prepare"):
			return nil, errSettling
		default:
			seen[s.TransactionalID] = described{s.State, s.ProducerID, s.ProducerEpoch}
		}
	}
	for _, id := range ids {
		if _, told := seen[id]; !told {
			return nil, fmt.Errorf("transactional id %q is left out of the answer: %w", id, kerr.UnknownServerError)
		}
	}
	return seen, nil
}

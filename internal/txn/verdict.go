package txn

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// Commit commits a sealed transaction by raw EndTxn and returns what became of it. It asks until the answer is definite
// or the context ends; an error says nothing of the transaction.
//
// It may only be called for a committable of the newest record, and never for an id that has been used since: below
// transaction.version 2 the next transaction of a living client has the same epoch, and would be committed instead.
func (b *Broker) Commit(ctx context.Context, c checkpoint.Committable) (checkpoint.Verdict, error) {
	var (
		verdict checkpoint.Verdict
		settles settling
	)
	what := fmt.Sprintf("committing transaction of id %q", c.TransactionalID)
	err := b.persist(ctx, what, func(ctx context.Context) error {
		able, err := b.abilities(ctx, c.TransactionalID)
		if err != nil {
			return err
		}
		if able.transactionVersion >= 2 {
			verdict, err = b.commitNew(ctx, c)
		} else {
			verdict, err = b.commitOld(ctx, c, able, &settles)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return verdict, nil
}

// commitNew asks a cluster whose finalised transaction.version is 2 or more.
func (b *Broker) commitNew(ctx context.Context, c checkpoint.Committable) (checkpoint.Verdict, error) {
	to5 := b.endTxn(ctx, b.current, c)
	if to5 == nil {
		return checkpoint.Committed, nil
	}
	if !errors.Is(to5, kerr.InvalidTxnState) && !errors.Is(to5, kerr.ProducerFenced) && !errors.Is(to5, kerr.InvalidProducerEpoch) {
		return b.indefinite(c, to5)
	}
	// The cluster may have been upgraded since the transaction was committed by version 4: that one says so.
	to4 := b.endTxn(ctx, b.old, c)
	switch {
	case to4 == nil:
		return checkpoint.Committed, nil
	case again(to4):
		return 0, to4
	case errors.Is(to4, kerr.ProducerFenced), errors.Is(to4, kerr.InvalidProducerEpoch):
		committed, err := b.resumeMend(ctx, c)
		switch {
		case err != nil:
			return 0, err
		case committed:
			return checkpoint.Committed, nil
		}
	}
	if errors.Is(to5, kerr.InvalidTxnState) {
		b.log.Warn("transaction is aborted", "transactional_id", c.TransactionalID, "producer_id", c.ProducerID,
			"epoch", c.Epoch, "answer_v5", to5.Error(), "answer_v4", to4.Error())
		return checkpoint.Aborted, nil
	}
	b.unknown(c, fmt.Errorf("EndTxn v5: %w; v4: %w", to5, to4))
	return checkpoint.Unknown, nil
}

// resumeMend commits what mend has begun and not ended, as when its process was killed: a transaction that is open one
// epoch behind a committable of the newest record. Nothing else can be open there. The committable's id is not used again
// before a record has forgotten it, and whoever initialises the id takes another epoch.
func (b *Broker) resumeMend(ctx context.Context, c checkpoint.Committable) (committed bool, err error) {
	seen, err := b.describe(ctx, c.TransactionalID)
	told := err == nil
	switch {
	case !told && again(err):
		return false, err
	case !told, seen.state != "Ongoing", !seen.follows(c.ProducerID, c.Epoch):
		return false, nil
	}
	c.ProducerID, c.Epoch = seen.producerID, seen.epoch
	switch err := b.endTxn(ctx, b.old, c); {
	case err == nil:
		return true, nil
	case again(err):
		return false, err
	}
	return false, errSettling // It was being aborted, and has moved on.
}

// commitOld asks a cluster below transaction.version 2, which must never see EndTxn version 5.
func (b *Broker) commitOld(
	ctx context.Context, c checkpoint.Committable, able abilities, settles *settling,
) (checkpoint.Verdict, error) {
	to4 := b.endTxn(ctx, b.old, c)
	switch {
	case to4 == nil:
		return checkpoint.Committed, nil
	case errors.Is(to4, kerr.InvalidTxnState):
		b.log.Warn("transaction is aborted", "transactional_id", c.TransactionalID, "producer_id", c.ProducerID,
			"epoch", c.Epoch, "answer", to4.Error())
		return checkpoint.Aborted, nil
	case errors.Is(to4, kerr.ProducerFenced), errors.Is(to4, kerr.InvalidProducerEpoch):
		// The coordinator bumps the epoch when it aborts a transaction that ran into its timeout.
		verdict, err := b.describedVerdict(ctx, c, able, settles)
		if err != nil {
			return 0, err
		}
		switch verdict {
		case checkpoint.Aborted:
			return verdict, nil
		case 0:
			// The coordinator refuses the epoch from the moment on that it begins to abort, and until that is written says
			// that the transaction is open.
			return 0, errSettling
		}
		b.unknown(c, to4)
		return checkpoint.Unknown, nil
	}
	return b.indefinite(c, to4)
}

// describedVerdict asks DescribeTransactions whether a timeout explains why the epoch is no longer ours. Where the broker
// does not describe, the verdict stays unknown: that is never replayed.
func (b *Broker) describedVerdict(
	ctx context.Context, c checkpoint.Committable, able abilities, settles *settling,
) (checkpoint.Verdict, error) {
	if !able.describe {
		return checkpoint.Unknown, nil
	}
	seen, err := b.describe(ctx, c.TransactionalID)
	var refused *AuthorizationError
	if errors.As(err, &refused) {
		b.log.Warn("the broker does not tell whether the transaction ran into its timeout", "cause", err.Error())
		return checkpoint.Unknown, nil
	}
	if err != nil {
		return 0, err
	}
	return seen.verdict(c, able.transactionVersion, settles)
}

// indefinite sorts the answers that have nothing to do with the transaction's state, or leave it open.
func (b *Broker) indefinite(c checkpoint.Committable, err error) (checkpoint.Verdict, error) {
	switch {
	case again(err):
		return 0, err
	case errors.Is(err, kerr.InvalidProducerIDMapping), errors.Is(err, kerr.TransactionAbortable),
		errors.Is(err, kerr.TransactionalIDNotFound):
		b.unknown(c, err)
		return checkpoint.Unknown, nil
	}
	return 0, b.refusal(c.TransactionalID, "Write", err)
}

func (b *Broker) unknown(c checkpoint.Committable, answer error) {
	b.log.Warn("the broker can no longer tell what became of the transaction: its id was initialised again, or has expired",
		"transactional_id", c.TransactionalID, "producer_id", c.ProducerID, "epoch", c.Epoch, "answer", answer.Error())
}

// endTxn sends EndTxn(commit) in the version the client is pinned to.
func (b *Broker) endTxn(ctx context.Context, cl *kgo.Client, c checkpoint.Committable) error {
	return b.endTxnAs(ctx, cl, c, true)
}

func (b *Broker) endTxnAs(ctx context.Context, cl *kgo.Client, c checkpoint.Committable, commit bool) error {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID = c.TransactionalID
	req.ProducerID = c.ProducerID
	req.ProducerEpoch = c.Epoch
	req.Commit = commit
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

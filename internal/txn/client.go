package txn

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// client is the client of one id, with what it has sent.
type client struct {
	*kgo.Client
	sent *requestCount
}

const (
	settleMin = time.Millisecond
	settleMax = 50 * time.Millisecond
)

// settled waits until the coordinator has completed the transaction that the client has just committed: it answers before
// the markers are written. On the connection that carried the commit it is the broker that has decided, which knows its
// partitions. It returns false where there is no such answer.
func (c *client) settled(ctx context.Context, id string) bool {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{id}
	for wait := settleMin; ; wait = min(2*wait, settleMax) {
		resp, err := req.RequestWith(ctx, c.Client)
		if err != nil || len(resp.TransactionStates) != 1 || kerr.ErrorForCode(resp.TransactionStates[0].ErrorCode) != nil {
			return false
		}
		switch resp.TransactionStates[0].State {
		case "CompleteCommit", "Empty": // kfake's word for it
			return true
		case "PrepareCommit":
		default:
			return false
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return false
		}
	}
}

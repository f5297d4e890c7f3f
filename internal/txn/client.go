package txn

import (
	"context"
	"log/slog"
	"math"
	"net"
	"sync/atomic"
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
	// settleSlow is for how long settled waits in silence, settleAgain when it is said again.
	settleSlow  = 5 * time.Second
	settleAgain = 30 * time.Second
)

// tellSlow returns what says now and then that the markers of a transaction are not written, given for how long it has
// been waited for.
func tellSlow(log *slog.Logger, id string) func(waited time.Duration) {
	next := settleSlow
	return func(waited time.Duration) {
		if waited < next {
			return
		}
		next = waited + settleAgain
		log.Warn("still waiting for the brokers to complete a committed transaction: a partition it wrote to has no leader, or "+
			"one that is slow; nothing is lost, and readers with isolation.level=read_committed wait too",
			"transactional_id", id, "for", waited.Round(time.Second))
	}
}

// settled waits until the coordinator has completed the transaction that the client has just committed: it answers before
// the markers are written. On the connection that carried the commit it is the broker that has decided, which knows its
// partitions. It returns false where there is no such answer. slow is told for how long it has been waiting.
func (c *client) settled(ctx context.Context, id string, slow func(waited time.Duration)) bool {
	began := time.Now()
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
			slow(time.Since(began))
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

// greet makes a new client connect to the coordinator of its id, so that its InitProducerId, which nothing can make
// conditional, follows at once when this process has made sure that it owns the id. Its error comes again there.
func greet(ctx context.Context, cl *kgo.Client, id string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{id}
	_, _ = req.RequestWith(ctx, cl)
}

// requestCount counts the InitProducerId and EndTxn requests of one client, the answers to the former, and the connections
// it has made and lost. The answer of each request may be lost, with the broker or with the client, which is closed when
// an attempt ends. Each InitProducerId that is done raises the epoch.
type requestCount struct{ inits, answered, ends, links atomic.Int32 }

// OnBrokerRead is kgo.HookBrokerRead.
func (n *requestCount) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if kmsg.Key(key) == kmsg.InitProducerID && err == nil {
		n.answered.Add(1)
	}
}

// OnBrokerConnect is kgo.HookBrokerConnect.
func (n *requestCount) OnBrokerConnect(kgo.BrokerMetadata, time.Duration, net.Conn, error) {
	n.links.Add(1)
}

// OnBrokerDisconnect is kgo.HookBrokerDisconnect.
func (n *requestCount) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) { n.links.Add(1) }

// OnBrokerWrite is kgo.HookBrokerWrite.
func (n *requestCount) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	switch kmsg.Key(key) {
	case kmsg.InitProducerID:
		n.inits.Add(1)
	case kmsg.EndTxn:
		n.ends.Add(1)
	}
}

// most is how many initialisations have been done at most where the client does not know yet. A hook is called a moment
// after its request was written, and one answer may have come that the client has not read.
func (n *requestCount) most() int { return max(0, int(n.inits.Load()-n.answered.Load())) + 2 }

// explains tells whether the client's requests alone have brought an id from one owner to the next: one that has told of
// it, and those that were not answered. What was answered otherwise has found another one's transaction open.
func (n *requestCount) explains(before, now owner) bool {
	sent := max(0, int(n.inits.Load()-n.answered.Load())) + 1
	if now.producerID != before.producerID { // the epochs of the one before have run out
		return int(before.epoch)+sent >= math.MaxInt16-1 && int(now.epoch) < sent
	}
	return int(now.epoch)-int(before.epoch) <= sent
}

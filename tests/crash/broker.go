package crash

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// nothingPending waits until no transaction of the prefix is on its way to its end, and fails where one is open. The
// broker answers to the end of a transaction before all partitions have heard of it, so that may take a moment.
func nothingPending(ctx context.Context, bootstrap []string, prefix string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...))
	if err != nil {
		return fmt.Errorf("asking for pending transactions: %w", err)
	}
	defer client.Close()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		all, err := kadm.NewClient(client).ListTransactions(ctx, nil, []string{"Ongoing", "PrepareCommit", "PrepareAbort"})
		if err != nil {
			return fmt.Errorf("asking for pending transactions: %w", err)
		}
		var ending []string
		for _, tx := range all.Sorted() {
			switch {
			case !strings.HasPrefix(tx.TxnID, prefix+"-"):
			case tx.State == "Ongoing":
				return fmt.Errorf("transaction of %s is still open", tx.TxnID)
			default:
				ending = append(ending, tx.TxnID+" is "+tx.State)
			}
		}
		if len(ending) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("transactions do not end: %v", ending)
		case <-tick.C:
		}
	}
}

// awaitAborts waits until the broker has aborted every transaction of the prefix that was left open.
func (tr *trial) awaitAborts() error {
	ctx, cancel := context.WithTimeout(context.Background(), stallLimit)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(tr.cluster.Bootstrap()...))
	if err != nil {
		return fmt.Errorf("waiting for the ends of transactions: %w", err)
	}
	defer client.Close()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		all, err := kadm.NewClient(client).ListTransactions(ctx, nil, []string{"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
		if err != nil {
			return fmt.Errorf("waiting for the ends of transactions: %w", err)
		}
		if !slices.ContainsFunc(all.Sorted(), func(tx kadm.ListedTransaction) bool { return strings.HasPrefix(tx.TxnID, tr.names.Prefix+"-") }) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the ends of transactions: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// groupOffsets are the committed offsets of a group by partition; 0 where there is none.
func groupOffsets(ctx context.Context, bootstrap []string, group, topic string) (map[int32]int64, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...))
	if err != nil {
		return nil, fmt.Errorf("asking for the offsets of group %s: %w", group, err)
	}
	defer client.Close()
	responses, err := fetchOffsets(ctx, kadm.NewClient(client), group)
	if err != nil {
		return nil, fmt.Errorf("asking for the offsets of group %s: %w", group, err)
	}
	offsets := map[int32]int64{}
	responses.Each(func(r kadm.OffsetResponse) {
		if r.Topic == topic {
			offsets[r.Partition] = r.At
		}
	})
	return offsets, nil
}

// fetchOffsets asks until there is an answer: a broker that was never asked for a group makes the topic for offsets
// first, and has no coordinator until then.
func fetchOffsets(ctx context.Context, admin *kadm.Client, group string) (kadm.OffsetResponses, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		responses, err := admin.FetchOffsets(ctx, group)
		if err == nil {
			err = responses.Error()
		}
		if err == nil || !kerr.IsRetriable(err) {
			return responses, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-tick.C:
		}
	}
}

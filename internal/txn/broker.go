package txn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/tidegate/tidegate/internal/kafkaclient"
)

// The EndTxn version of clusters whose finalised transaction.version is 2 or more, and that of all others.
const (
	endTxnNew = 5
	endTxnOld = 4
)

// Broker asks a cluster by raw requests, without being a producer: what became of a transaction, and that an id be
// initialised. Its methods may be called by several goroutines at a time.
type Broker struct {
	log       *slog.Logger
	principal string
	// The two clients differ in the EndTxn version they are pinned to; a raw request of franz-go's own choice is v5
	// everywhere, which wedges the transaction on a cluster below transaction.version 2.
	current, old *kgo.Client
}

// Dial returns a Broker for the connection options. It sends nothing yet. principal is the user the connection logs in
// as, for messages; empty where it is not known.
func Dial(opts []kgo.Opt, principal string, log *slog.Logger) (*Broker, error) {
	pinned := func(endTxn int16) (*kgo.Client, error) {
		versions := kversion.Stable()
		versions.SetMaxKeyVersion(int16(kmsg.EndTxn), endTxn)
		versions.SetMaxKeyVersion(int16(kmsg.AddPartitionsToTxn), 3) // later ones are for brokers
		return kgo.NewClient(append(opts[:len(opts):len(opts)],
			kgo.MaxVersions(versions),
			kgo.DisableClientMetrics(),
			// Short, because whoever asks goes on asking and says so in the log.
			kgo.RetryTimeout(5*time.Second),
		)...)
	}
	current, err := pinned(endTxnNew)
	if err != nil {
		return nil, fmt.Errorf("creating Kafka client: %w", err)
	}
	old, err := pinned(endTxnOld)
	if err != nil {
		current.Close()
		return nil, fmt.Errorf("creating Kafka client: %w", err)
	}
	return &Broker{log: log, principal: principal, current: current, old: old}, nil
}

// Close closes the connections. Requests that are under way fail.
func (b *Broker) Close() {
	b.current.Close()
	b.old.Close()
}

// Client returns a client for requests that have nothing to do with transactions, such as metadata.
func (b *Broker) Client() *kgo.Client { return b.current }

// ClusterID asks any broker for the cluster's id, and fails where none answers.
func (b *Broker) ClusterID(ctx context.Context) (string, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none; nil would mean all
	resp, err := req.RequestWith(ctx, b.current)
	if err != nil {
		return "", err
	}
	if resp.ClusterID == nil {
		return "", nil
	}
	return *resp.ClusterID, nil
}

// abilities are what the coordinator of an id can do.
type abilities struct {
	transactionVersion int16 // finalised level, 0 where there is none
	transactions       bool  // InitProducerId, AddPartitionsToTxn and EndTxn
	describe           bool  // DescribeTransactions, from Kafka 3.0 on
}

// abilities asks the id's own coordinator, because that is the broker an EndTxn goes to: right after an upgrade of the
// finalised features brokers can be at odds for a moment.
func (b *Broker) abilities(ctx context.Context, id string) (abilities, error) {
	found := kadm.NewClient(b.current).FindTxnCoordinators(ctx, id)[id]
	if found.Err != nil {
		return abilities{}, b.refusal(id, "Write", found.Err) // Write implies the Describe that finding needs
	}
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName = "tidegate"
	req.ClientSoftwareVersion = "1"
	resp, err := req.RequestWith(ctx, b.current.Broker(int(found.NodeID)))
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return abilities{}, err
	}
	var a abilities
	keys := map[kmsg.Key]bool{}
	for _, k := range resp.ApiKeys {
		keys[kmsg.Key(k.ApiKey)] = true
	}
	a.transactions = keys[kmsg.InitProducerID] && keys[kmsg.AddPartitionsToTxn] && keys[kmsg.EndTxn]
	a.describe = keys[kmsg.DescribeTransactions]
	for _, f := range resp.FinalizedFeatures {
		if f.Name == "transaction.version" {
			a.transactionVersion = f.MaxVersionLevel
		}
	}
	return a, nil
}

// Supported returns an *UnsupportedError where the cluster has no transactions. It waits for a coordinator, which a new
// cluster makes when it is first asked for one.
func (b *Broker) Supported(ctx context.Context, id string) error {
	return b.persist(ctx, "looking for the transaction coordinator", func(ctx context.Context) error {
		able, err := b.abilities(ctx, id)
		if err == nil && !able.transactions {
			return &UnsupportedError{What: "transactions"}
		}
		return err
	})
}

// persist repeats a question until its answer is definite or the context ends. Errors that leave it open are those for
// which again is true.
func (b *Broker) persist(ctx context.Context, what string, ask func(context.Context) error) error {
	const (
		shortest = 20 * time.Millisecond
		longest  = time.Second
		silence  = 10 * time.Second // between two lines of the log
	)
	wait, began, spoke := shortest, time.Now(), time.Now()
	for {
		done := kafkaclient.Slow(b.log, kafkaclient.Bootstrap(b.current), what)
		err := ask(ctx)
		done()
		if err == nil || ctx.Err() == nil && !again(err) {
			if errors.As(err, new(*AuthorizationError)) {
				return err // says it already
			}
			return kafkaclient.WithCause(err)
		}
		if time.Since(spoke) > silence {
			spoke = time.Now()
			b.log.Warn("still "+what, "for", time.Since(began).Round(time.Second), "last_error", err.Error())
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%s: %w (last answer: %w)", what, ctx.Err(), err)
		}
		wait = min(2*wait, longest)
		b.lookAround(ctx, err)
	}
}

// lookAround has the clients ask which brokers there are, where an error was none that a broker has answered with. The Kafka
// client remembers the coordinator of an id for as long as it knows of that broker; to the questions that it splits by
// coordinator, such as DescribeTransactions, a broker that cannot be reached is no reason to forget it (franz-go 1.22,
// handleShardedReq), and nothing else of these clients asks for the brokers more often than every five minutes.
func (b *Broker) lookAround(ctx context.Context, err error) {
	if _, answered := errors.AsType[*kerr.Error](err); answered || errors.Is(err, errSettling) {
		return
	}
	var both sync.WaitGroup // where no broker answers, each takes a while to find that out
	for _, client := range []*kgo.Client{b.current, b.old} {
		both.Go(func() {
			req := kmsg.NewPtrMetadataRequest()
			req.Topics = []kmsg.MetadataRequestTopic{}
			_, _ = req.RequestWith(ctx, client) // the next question says what is wrong, if anything still is
		})
	}
	both.Wait()
}

// refusal turns an authorisation error into one that says what to grant.
func (b *Broker) refusal(id, operation string, err error) error {
	if errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
		return &AuthorizationError{TransactionalID: id, Operation: operation, Principal: b.principal, Err: err}
	}
	return err
}

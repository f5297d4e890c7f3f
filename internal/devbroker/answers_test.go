package devbroker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// transaction is a sealed transaction as a checkpoint remembers it.
type transaction struct {
	id    string
	pid   int64
	epoch int16
}

// endTxn asks for a transaction's commit by a raw EndTxn of a version, as recovery does, and returns the error's name.
func endTxn(ctx context.Context, t *testing.T, b *Broker, version int16, tx transaction) string {
	t.Helper()
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.EndTxn), version)
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = tx.id, tx.pid, tx.epoch, true
	resp, err := req.RequestWith(ctx, client(t, b, kgo.MaxVersions(versions)))
	require.NoError(t, err)
	require.Equal(t, version, resp.Version)
	return errorName(kerr.ErrorForCode(resp.ErrorCode))
}

func errorName(err error) string {
	var ke *kerr.Error
	if errors.As(err, &ke) {
		return ke.Message
	}
	return "OK"
}

// initAgain initialises an id by a new client and returns the new producer id and epoch.
func initAgain(ctx context.Context, t *testing.T, b *Broker, id string, timeout time.Duration) (int64, int16) {
	t.Helper()
	pid, epoch, err := client(t, b, kgo.TransactionalID(id), kgo.TransactionTimeout(timeout)).ProducerID(ctx)
	require.NoError(t, err)
	return pid, epoch
}

// state is what DescribeTransactions says.
func state(ctx context.Context, t *testing.T, b *Broker, id string) kadm.DescribedTransaction {
	t.Helper()
	got, err := kadm.NewClient(client(t, b)).DescribeTransactions(ctx, id)
	require.NoError(t, err)
	require.NoError(t, got[id].Err)
	return got[id]
}

// until waits for a condition that the broker brings about by itself.
func until(ctx context.Context, t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("never came: %s", what)
		case <-tick.C:
		}
	}
}

// TestAnswersThatDifferFromKafka pins what the embedded broker answers to recovery's question "is this transaction
// committed?" in each state. Where Apache Kafka 4.3 answers differently (docs of the package), the row says so. A row
// that fails after an update of kfake has to be looked at in internal/txn as well.
func TestAnswersThatDifferFromKafka(t *testing.T) {
	commit := func(ctx context.Context, t *testing.T, cl *kgo.Client) {
		require.NoError(t, cl.EndTransaction(ctx, kgo.TryCommit))
	}
	for _, tc := range []struct {
		name   string
		ending func(ctx context.Context, t *testing.T, b *Broker, cl *kgo.Client, tx transaction)
		v5, v4 string // v5 is asked first
		state  string // what DescribeTransactions says before
		kafka  string // where different
	}{
		{
			name:   "still open",
			ending: func(context.Context, *testing.T, *Broker, *kgo.Client, transaction) {},
			v5:     "OK", v4: "PRODUCER_FENCED", state: "Ongoing",
		},
		{
			name: "committed by the client",
			ending: func(ctx context.Context, t *testing.T, _ *Broker, cl *kgo.Client, _ transaction) {
				commit(ctx, t, cl)
			},
			v5: "OK", v4: "PRODUCER_FENCED", state: "Empty",
			kafka: "state CompleteCommit",
		},
		{
			name: "committed by raw v4",
			ending: func(ctx context.Context, t *testing.T, b *Broker, _ *kgo.Client, tx transaction) {
				require.Equal(t, "OK", endTxn(ctx, t, b, 4, tx))
			},
			v5: "OK", v4: "OK", state: "Empty",
			kafka: "INVALID_TXN_STATE to v5, state CompleteCommit",
		},
		{
			name: "aborted by the client",
			ending: func(ctx context.Context, t *testing.T, _ *Broker, cl *kgo.Client, _ transaction) {
				require.NoError(t, cl.EndTransaction(ctx, kgo.TryAbort))
			},
			v5: "INVALID_TXN_STATE", v4: "PRODUCER_FENCED", state: "Empty",
			kafka: "state CompleteAbort",
		},
		{
			name: "aborted by its timeout",
			ending: func(ctx context.Context, t *testing.T, b *Broker, _ *kgo.Client, tx transaction) {
				until(ctx, t, "the timeout", func() bool { return state(ctx, t, b, tx.id).State != "Ongoing" })
			},
			v5: "INVALID_TXN_STATE", v4: "PRODUCER_FENCED", state: "Empty",
			kafka: "state CompleteAbort",
		},
		{
			name: "id initialised again while it was open",
			ending: func(ctx context.Context, t *testing.T, b *Broker, _ *kgo.Client, tx transaction) {
				initAgain(ctx, t, b, tx.id, time.Minute)
			},
			v5: "INVALID_TXN_STATE", v4: "PRODUCER_FENCED", state: "Empty",
			kafka: "PRODUCER_FENCED to both",
		},
		{
			name: "committed, then id initialised again",
			ending: func(ctx context.Context, t *testing.T, b *Broker, cl *kgo.Client, tx transaction) {
				commit(ctx, t, cl)
				initAgain(ctx, t, b, tx.id, time.Minute)
			},
			v5: "PRODUCER_FENCED", v4: "PRODUCER_FENCED", state: "Empty",
		},
		{
			name: "committed by raw v4, then id initialised again",
			ending: func(ctx context.Context, t *testing.T, b *Broker, _ *kgo.Client, tx transaction) {
				require.Equal(t, "OK", endTxn(ctx, t, b, 4, tx))
				initAgain(ctx, t, b, tx.id, time.Minute)
			},
			v5: "OK", v4: "PRODUCER_FENCED", state: "Empty",
			kafka: "PRODUCER_FENCED to both",
		},
		{
			name: "committed, and the client has opened the next",
			ending: func(ctx context.Context, t *testing.T, _ *Broker, cl *kgo.Client, _ transaction) {
				commit(ctx, t, cl)
				produce(ctx, t, cl, "next")
			},
			v5: "PRODUCER_FENCED", v4: "PRODUCER_FENCED", state: "Ongoing",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := start(t, Options{Topics: []Topic{{"clean", 1}}})
			ctx := limited(t)
			cl := client(t, b, kgo.TransactionalID("t"), kgo.DefaultProduceTopic("clean"), kgo.TransactionTimeout(300*time.Millisecond))
			r := produce(ctx, t, cl, "x")
			tx := transaction{"t", r.ProducerID, r.ProducerEpoch}
			tc.ending(ctx, t, b, cl, tx)
			require.Equal(t, tc.state, state(ctx, t, b, tx.id).State)
			require.Equal(t, tc.v5, endTxn(ctx, t, b, 5, tx), "EndTxn v5; Kafka, where different: %s", tc.kafka)
			require.Equal(t, tc.v4, endTxn(ctx, t, b, 4, tx), "EndTxn v4 after v5; Kafka, where different: %s", tc.kafka)
		})
	}
}

func TestReopenedIDKeepsItsFirstTimeoutUnlikeKafka(t *testing.T) {
	b := start(t, Options{})
	ctx := limited(t)
	initAgain(ctx, t, b, "t", time.Minute)
	initAgain(ctx, t, b, "t", 5*time.Minute)
	require.EqualValues(t, 60_000, state(ctx, t, b, "t").TimeoutMillis) // Kafka: 300000
}

func TestEmptyTransactionIsCommittedUnlikeKafka(t *testing.T) {
	b := start(t, Options{Topics: []Topic{{"clean", 1}}})
	ctx := limited(t)
	cl := client(t, b, kgo.TransactionalID("t"), kgo.DefaultProduceTopic("clean"))
	r := produce(ctx, t, cl, "x")
	require.NoError(t, cl.EndTransaction(ctx, kgo.TryCommit))
	require.Equal(t, "OK", endTxn(ctx, t, b, 5, transaction{"t", r.ProducerID, r.ProducerEpoch + 1})) // Kafka: INVALID_TXN_STATE
}

func TestUnknownIDAndTimedOutProducerAreToldAsKafkaDoes(t *testing.T) {
	b := start(t, Options{Topics: []Topic{{"clean", 1}}})
	ctx := limited(t)
	require.Equal(t, "INVALID_PRODUCER_ID_MAPPING", endTxn(ctx, t, b, 5, transaction{"never", 42, 0}))

	cl := client(t, b, kgo.TransactionalID("t"), kgo.DefaultProduceTopic("clean"), kgo.TransactionTimeout(200*time.Millisecond))
	produce(ctx, t, cl, "x")
	until(ctx, t, "the timeout", func() bool { return state(ctx, t, b, "t").State != "Ongoing" })
	_, err := cl.ProduceSync(ctx, kgo.StringRecord("late")).First()
	require.Equal(t, "INVALID_PRODUCER_EPOCH", errorName(err))
	require.ErrorIs(t, func() error {
		got, err := kadm.NewClient(client(t, b)).DescribeTransactions(ctx, "never")
		require.NoError(t, err)
		return got["never"].Err
	}(), kerr.TransactionalIDNotFound)
}

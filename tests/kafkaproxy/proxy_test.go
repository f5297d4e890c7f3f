package kafkaproxy_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/tests/kafkaproxy"
)

func start(t *testing.T) (*kafkaproxy.Proxy, *kgo.Client) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(6, "t"))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	p, err := kafkaproxy.New(cluster.ListenAddrs())
	require.NoError(t, err)
	t.Cleanup(p.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.Bootstrap()[0]), kgo.DefaultProduceTopic("t"),
		kgo.TransactionalID("x"), kgo.RetryTimeout(10*time.Second))
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return p, cl
}

func transact(ctx context.Context, cl *kgo.Client) error {
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	for range 20 {
		cl.Produce(ctx, kgo.StringRecord("v"), nil)
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	return cl.EndTransaction(ctx, kgo.TryCommit)
}

func TestClientStaysOnTheProxy(t *testing.T) {
	p, cl := start(t)
	require.NoError(t, transact(t.Context(), cl))
	p.Sever(true)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.Error(t, cl.Ping(ctx), "a client that reaches a broker past the proxy would answer")
	p.Sever(false)
	require.NoError(t, cl.Ping(t.Context()))
}

func TestRuleActsOnItsKindAsOftenAsAsked(t *testing.T) {
	for name, rule := range map[string]kafkaproxy.Rule{
		"cut the request": {Key: kmsg.EndTxn, Side: kafkaproxy.Request, Effect: kafkaproxy.Cut, Times: 1},
		"cut the answer":  {Key: kmsg.EndTxn, Side: kafkaproxy.Answer, Effect: kafkaproxy.Cut, Times: 1},
		"the second one":  {Key: kmsg.EndTxn, Side: kafkaproxy.Request, Effect: kafkaproxy.Cut, After: 1, Times: 1},
		"delay":           {Key: kmsg.EndTxn, Side: kafkaproxy.Request, Effect: kafkaproxy.Delay, Delay: 100 * time.Millisecond, Times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			p, cl := start(t)
			p.Set(rule)
			begin := time.Now()
			err := transact(t.Context(), cl)
			if rule.Effect == kafkaproxy.Delay {
				require.NoError(t, err)
				require.GreaterOrEqual(t, time.Since(begin), rule.Delay)
			}
			if rule.After > 0 {
				require.NoError(t, err)
				require.Zero(t, p.Hits())
				_ = transact(t.Context(), cl)
			}
			require.Equal(t, 1, p.Clear())
		})
	}
}

func TestDroppedRequestIsNotAnswered(t *testing.T) {
	p, cl := start(t)
	p.Set(kafkaproxy.Rule{Key: kmsg.InitProducerID, Side: kafkaproxy.Request, Effect: kafkaproxy.Drop})
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID = kmsg.StringPtr("y")
	req.TransactionTimeoutMillis = 1000
	_, err := req.RequestWith(ctx, cl)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Positive(t, p.Hits())
}

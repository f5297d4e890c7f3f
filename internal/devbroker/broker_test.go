package devbroker

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func start(t *testing.T, o Options) *Broker {
	t.Helper()
	b, err := Start(o)
	require.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

func client(t *testing.T, b *Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(b.Addrs()...))...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestBrokerHasTheTopicsAskedFor(t *testing.T) {
	b := start(t, Options{Ports: []int{0, 0, 0}, Topics: []Topic{{"orders", 4}, {"clean", 2}}})
	require.Len(t, b.Addrs(), 3)
	meta, err := kadm.NewClient(client(t, b)).Metadata(limited(t))
	require.NoError(t, err)
	require.Equal(t, b.ClusterID(), meta.Cluster)
	require.Len(t, meta.Topics["orders"].Partitions, 4)
	require.Len(t, meta.Topics["clean"].Partitions, 2)
	require.Len(t, meta.Topics, 2)
}

func TestEachBrokerIsAClusterOfItsOwn(t *testing.T) {
	require.NotEqual(t, start(t, Options{}).ClusterID(), start(t, Options{}).ClusterID())
}

func TestBrokerListensOnTheGivenPortAndSaysWhenItIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	_, err = Start(Options{Ports: []int{port}})
	require.ErrorContains(t, err, "port "+strconv.Itoa(port)+" of 127.0.0.1 is taken")
	require.NoError(t, l.Close())
	b := start(t, Options{Ports: []int{port}})
	require.Equal(t, []string{"127.0.0.1:" + strconv.Itoa(port)}, b.Addrs())
}

func TestBrokerRefusesTopicsItCannotMake(t *testing.T) {
	for name, topics := range map[string][]Topic{
		"needs a name":               {{"", 1}},
		"at least one partition":     {{"orders", 0}},
		`topic "orders" is given tw`: {{"orders", 1}, {"orders", 2}},
	} {
		_, err := Start(Options{Topics: topics})
		require.ErrorContains(t, err, name)
	}
}

func TestLoadedRecordsAreObservedExactlyOnceAndIntact(t *testing.T) {
	b := start(t, Options{Topics: []Topic{{"orders", 4}}})
	ctx := limited(t)
	l := Load{Topic: "orders", Partitions: 4, Records: 20_000, Began: time.UnixMilli(1_700_000_000_000)}
	require.NoError(t, l.Run(ctx, b.Addrs()))

	fence, err := FenceOf(ctx, b.Addrs(), "orders")
	require.NoError(t, err)
	require.Equal(t, Fence{0: 5000, 1: 5000, 2: 5000, 3: 5000}, fence)
	require.EqualValues(t, 20_000, fence.Total())

	o, err := Observe(b.Addrs(), "orders")
	require.NoError(t, err)
	defer o.Close()
	a := NewAudit(Expectation{Records: l.Records, Intact: l.SameEnvelope})
	require.NoError(t, o.PollTo(ctx, fence, a.See))
	require.NoError(t, a.Err())
	require.Equal(t, Counts{Expected: 20_000, Seen: 20_000}, a.Counts())
}

func TestLoadSaysWhichTopicIsMissing(t *testing.T) {
	b := start(t, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	require.ErrorContains(t, Load{Topic: "nowhere", Partitions: 1, Records: 1}.Run(ctx, b.Addrs()), `topic "nowhere"`)
}

// produce writes one record in an open transaction of the client and waits for the acknowledgement.
func produce(ctx context.Context, t *testing.T, cl *kgo.Client, value string) *kgo.Record {
	t.Helper()
	if cl.BufferedProduceRecords() == 0 {
		_ = cl.BeginTransaction() // open already, perhaps
	}
	r, err := cl.ProduceSync(ctx, kgo.StringRecord(value)).First()
	require.NoError(t, err)
	return r
}

func TestObserverReachesTheFenceBehindMarkersAndAbortedRecords(t *testing.T) {
	b := start(t, Options{Topics: []Topic{{"clean", 1}}})
	ctx := limited(t)
	cl := client(t, b, kgo.TransactionalID("t"), kgo.DefaultProduceTopic("clean"))
	produce(ctx, t, cl, "seen")
	require.NoError(t, cl.EndTransaction(ctx, kgo.TryCommit))
	produce(ctx, t, cl, "never seen")
	require.NoError(t, cl.EndTransaction(ctx, kgo.TryAbort))

	fence, err := FenceOf(ctx, b.Addrs(), "clean")
	require.NoError(t, err)
	require.Equal(t, Fence{0: 4}, fence)
	o, err := Observe(b.Addrs(), "clean")
	require.NoError(t, err)
	defer o.Close()
	var got []string
	require.NoError(t, o.PollTo(ctx, fence, func(r *kgo.Record) { got = append(got, string(r.Value)) }))
	require.Equal(t, []string{"seen"}, got)
}

func TestObserverSaysThatATransactionWasLeftOpen(t *testing.T) {
	b := start(t, Options{Topics: []Topic{{"clean", 1}}})
	ctx := limited(t)
	cl := client(t, b, kgo.TransactionalID("t"), kgo.DefaultProduceTopic("clean"))
	produce(ctx, t, cl, "seen")
	require.NoError(t, cl.EndTransaction(ctx, kgo.TryCommit))
	produce(ctx, t, cl, "open")

	fence, err := FenceOf(ctx, b.Addrs(), "clean")
	require.NoError(t, err)
	require.Equal(t, Fence{0: 3}, fence)
	o, err := Observe(b.Addrs(), "clean")
	require.NoError(t, err)
	defer o.Close()
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var got []string
	err = o.PollTo(short, fence, func(r *kgo.Record) { got = append(got, string(r.Value)) })
	require.ErrorContains(t, err, "partition 0 at 2 of 3")
	require.ErrorContains(t, err, "transaction may have been left open")
	require.Equal(t, []string{"seen"}, got)
}

package kafkaclient

import (
	"log/slog"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newClient(t *testing.T, servers ...string) *kgo.Client {
	t.Helper()
	opts, err := Config{BootstrapServers: servers, ClientID: "ping-test"}.Options(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	cl, err := kgo.NewClient(opts...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

// closedPort returns an address at which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

func TestPingReturnsTheClusterIDAlsoWhereOneBootstrapServerIsAway(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.ClusterID("the-cluster"))
	require.NoError(t, err)
	defer c.Close()
	id, err := Ping(t.Context(), newClient(t, closedPort(t), c.ListenAddrs()[0]), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Equal(t, "the-cluster", id)
}

func TestPingNamesEveryBootstrapServerThatDoesNotAnswer(t *testing.T) {
	a, b := closedPort(t), closedPort(t)
	_, err := Ping(t.Context(), newClient(t, a, b), slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "none of bootstrap_servers ["+a+", "+b+"] answered")
	require.ErrorContains(t, err, a+": ")
	require.ErrorContains(t, err, "nothing listens at this address")
	require.Equal(t, ClassRetriable, Classify(err))
}

func TestPingNamesAdvertisedAddressesThatCannotBeReached(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	defer c.Close()
	wrong := closedPort(t)
	host, _, err := net.SplitHostPort(wrong)
	require.NoError(t, err)
	port := mustPort(t, wrong)
	// The broker advertises an address that is right only where it runs itself.
	c.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := kreq.ResponseKind().(*kmsg.MetadataResponse)
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID, broker.Host, broker.Port = 0, host, port
		resp.Brokers = append(resp.Brokers, broker)
		return resp, nil, true
	})
	_, err = Ping(t.Context(), newClient(t, c.ListenAddrs()[0]), slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "advertised.listeners")
	require.ErrorContains(t, err, wrong)
	require.ErrorContains(t, err, c.ListenAddrs()[0])
}

func mustPort(t *testing.T, addr string) int32 {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp", addr)
	require.NoError(t, err)
	return int32(a.Port)
}

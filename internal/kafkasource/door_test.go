package kafkasource

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/kafkaclient"
)

// TestFetchesThatAreNotLetInEndTheStreamThoughOlderConnectionsAnswer: the password was changed between two attempts. The client
// that asks for the ends of logs goes on by the connection it has, and the new attempt's has to log in.
func TestFetchesThatAreNotLetInEndTheStreamThoughOlderConnectionsAnswer(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "a"), kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "p"))
	require.NoError(t, err)
	defer cluster.Close()
	cfg := baseConfig(cluster.ListenAddrs(), "a")
	cfg.Connection.Security.SASL = []kafkaclient.SASL{
		{Mechanism: "PLAIN", Username: "u", Password: kafkaclient.NewSecret("p"), Field: "sasl.0"}}
	s := newSource(t, cfg)
	state := s.resolve(nil)
	require.NoError(t, s.AwaitReady(t.Context()))
	require.NoError(t, s.Halt(t.Context()))
	cluster.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return resp, nil, true
	})
	s.Start(tag(2), state)
	_ = s.background() // polls
	err = receive(t, s.seat.fatal, "the end")
	require.ErrorContains(t, err, "source in: a broker refuses a new connection, "+cluster.ListenAddrs()[0])
	require.ErrorContains(t, err, `sasl.0: user "u" was not let in with PLAIN`)
	require.ErrorContains(t, err, "start again with the new one")
	_, known := s.cluster().Latest(t.Context(), nil)
	require.NoError(t, known, "the older connection still answers")
}

// TestOutputThatMayNotWriteEndsTheStream: to read the batch again would have it refused again, for ever (rule 13).
func TestOutputThatMayNotWriteEndsTheStream(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produce("a", 0, "0")
	s := quiet(t, b, nil)
	s.resolve(nil)
	batch := s.next()
	denied := kafkaclient.Access("out", kafkaclient.OperationWrite, "User:u", kerr.TopicAuthorizationFailed)
	batch.Ack(t.Context(), fmt.Errorf("sending: %w", denied))
	err := receive(t, s.seat.fatal, "the end")
	require.ErrorContains(t, err, `topic "out": User:u is not allowed to Write it`)
	require.Empty(t, s.seat.failed)
	require.ErrorAs(t, err, new(*kafkaclient.AccessError))
}

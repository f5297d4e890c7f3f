package kafkaclient

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestBrokerIsAskedAgainBeforeItsRefusalCounts: one that comes back may not know all its users yet.
func TestBrokerIsAskedAgainBeforeItsRefusalCounts(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "p"))
	require.NoError(t, err)
	defer cluster.Close()
	var refusals, logins atomic.Int32
	cluster.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		logins.Add(1)
		if refusals.Add(-1) < 0 {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return resp, nil, true
	})
	conf := Config{BootstrapServers: cluster.ListenAddrs(), Security: Security{
		SASL: []SASL{{Mechanism: MechanismPlain, Username: "u", Password: NewSecret("p"), Field: "sasl.0"}}}}
	log := slog.New(slog.DiscardHandler)
	options, err := conf.Options(log)
	require.NoError(t, err)
	door := NewDoor()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- door.Watch(ctx, options, log) }()

	meet := func(times int32) {
		logins.Store(0)
		refusals.Store(times)
		cl, err := kgo.NewClient(append(options, kgo.WithHooks(door))...)
		require.NoError(t, err)
		defer cl.Close()
		_, err = cl.SeedBrokers()[0].Request(ctx, metadataRequest())
		require.ErrorIs(t, err, kerr.SaslAuthenticationFailed)
	}
	meet(knocks) // the client's own, and all but the last that make sure
	require.Eventually(t, func() bool { return logins.Load() == knocks+1 }, time.Minute, 10*time.Millisecond)
	require.Empty(t, ended)
	meet(knocks + 1)
	err = <-ended
	require.ErrorContains(t, err, "a broker refuses a new connection, "+cluster.ListenAddrs()[0]+`: sasl.0: user "u" was not let in with PLAIN`)
	require.True(t, Final(err))
}

func TestMissingACLNamesUserTopicAndOperation(t *testing.T) {
	for name, tc := range map[string]struct {
		err       error
		operation string
		want      string
	}{
		"reading":                  {kerr.TopicAuthorizationFailed, OperationRead, `topic "t": User:u is not allowed to Read it (TOPIC_AUTHORIZATION_FAILED`},
		"writing":                  {kerr.TopicAuthorizationFailed, OperationWrite, `grant the ACL operation Write on resource Topic "t"`},
		"writing nowhere":          {kerr.ClusterAuthorizationFailed, OperationWrite, `topic "t": User:u is not allowed to Write it (CLUSTER_AUTHORIZATION_FAILED`},
		"something of the cluster": {kerr.ClusterAuthorizationFailed, OperationRead, "CLUSTER_AUTHORIZATION_FAILED"},
		"something else":           {kerr.NotLeaderForPartition, OperationWrite, "NOT_LEADER"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Access("t", tc.operation, "User:u", tc.err)
			require.ErrorContains(t, err, tc.want)
			require.ErrorIs(t, err, tc.err)
			require.Equal(t, err, Access("t", tc.operation, "User:other", err), "what names its topic names it once")
			if as[*AccessError](err) {
				require.Equal(t, ClassAuthorisation, Classify(err))
				require.Empty(t, Explain(err))
			}
		})
	}
}

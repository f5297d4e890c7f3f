package kafkaclient

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// TestRefusedConnectionsAreTheBrokersLastWordWhenTheyAreRefusedAgain: a broker that has just come back may not know all users
// yet, so one refusal is not enough.
func TestRefusedConnectionsAreTheBrokersLastWordWhenTheyAreRefusedAgain(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("PLAIN", "ann", "right"))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	// kfake hangs up instead of saying so.
	cluster.ControlKey(int16(kmsg.SASLAuthenticate), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		req := kreq.(*kmsg.SASLAuthenticateRequest)
		if !bytes.Contains(req.SASLAuthBytes, []byte("wrong")) {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return resp, nil, true
	})
	options := func(password string) []kgo.Opt {
		return []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.SASL(plain.Auth{User: "ann", Pass: password}.AsMechanism())}
	}
	for name, tc := range map[string]struct {
		client, knocks string // the passwords
		ends           bool
	}{
		"always refused":       {"wrong", "wrong", true},
		"refused for a moment": {"wrong", "right", false},
		"let in":               {"right", "wrong", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			door := NewDoor()
			client, err := kgo.NewClient(append(options(tc.client), kgo.WithHooks(door))...)
			require.NoError(t, err)
			defer client.Close()
			asked, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_ = client.Ping(asked)
			ctx, cancel := context.WithTimeout(t.Context(), 10*knockPause)
			defer cancel()
			err = door.Watch(ctx, options(tc.knocks), slog.New(slog.DiscardHandler))
			if !tc.ends {
				require.NoError(t, err)
				require.Error(t, ctx.Err(), "it goes on watching")
				return
			}
			require.ErrorContains(t, err, "a broker refuses a new connection")
			require.True(t, Final(err))
			require.NoError(t, ctx.Err())
		})
	}
}

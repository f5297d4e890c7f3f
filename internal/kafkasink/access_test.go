package kafkasink

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/tidegate/tidegate/internal/kafkaclient"
)

// TestTopicThatMayNotBeWrittenIsFoundOutAtTheStart, where the brokers tell what a user may do (KIP-430).
func TestTopicThatMayNotBeWrittenIsFoundOutAtTheStart(t *testing.T) {
	const read, describe = 1 << kmsg.ACLOperationRead, 1 << kmsg.ACLOperationDescribe
	for name, tc := range map[string]struct {
		operations int32
		denied     bool
	}{
		"read alone":                   {read | describe, true},
		"write":                        {1<<kmsg.ACLOperationWrite | describe, false},
		"brokers that do not tell":     {math.MinInt32, false},
		"brokers that know of nothing": {0, false},
	} {
		t.Run(name, func(t *testing.T) {
			fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
			require.NoError(t, err)
			t.Cleanup(fake.Close)
			fake.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				fake.KeepControl()
				req := kreq.(*kmsg.MetadataRequest)
				if !req.IncludeTopicAuthorizedOperations {
					return nil, nil, false
				}
				resp := req.ResponseKind().(*kmsg.MetadataResponse)
				topic := kmsg.NewMetadataResponseTopic()
				topic.Topic, topic.AuthorizedOperations = kmsg.StringPtr("t"), tc.operations
				resp.Topics = append(resp.Topics, topic)
				return resp, nil, true
			})
			r := newRig(t, fake.ListenAddrs(), "t", guarantee(AtLeastOnce), func(c *Config, _ *seat) {
				c.Topics, c.Principal = []string{"t"}, "User:u"
			})
			_, err = r.Connect(t.Context())
			if !tc.denied {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, `topic "t": User:u is not allowed to Write it`)
			require.True(t, kafkaclient.Final(err))
		})
	}
}

// TestRecordThatMayNotBeWrittenEndsTheStream: a new attempt would send it again, and be refused again, for ever (rule 13).
func TestRecordThatMayNotBeWrittenEndsTheStream(t *testing.T) {
	for _, refusal := range []*kerr.Error{kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed} {
		t.Run(refusal.Message, func(t *testing.T) {
			r, fake := fakeRig(t, guarantee(AtLeastOnce))
			refuse(fake, refusal)
			r.Start(tag(1), -1)
			r.write(t, tag(1), "a")
			require.ErrorIs(t, r.Flush(soon(t)), refusal)
			require.Empty(t, r.seat.failures())
			require.Len(t, r.seat.fatals(), 1)
			require.ErrorContains(t, r.seat.fatals()[0], `grant the ACL operation Write on resource Topic "t"`)
		})
	}
}

// TestProducerThatIsNotLetInEndsTheStream, while the connection that looks things up goes on answering.
func TestProducerThatIsNotLetInEndsTheStream(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "p"))
	require.NoError(t, err)
	t.Cleanup(fake.Close)
	r := newRig(t, fake.ListenAddrs(), "t", guarantee(AtLeastOnce), func(c *Config, _ *seat) {
		c.Client = append(c.Client, kgo.SASL(plain.Auth{User: "u", Pass: "p"}.AsMechanism()))
	})
	_, err = r.Connect(t.Context())
	require.NoError(t, err)
	fake.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return resp, nil, true
	})
	r.Start(tag(1), -1)
	r.write(t, tag(1), "a")
	for len(r.seat.fatals()) == 0 {
		select {
		case <-r.seat.told:
		case <-soon(t).Done():
			t.Fatal("the stream goes on")
		}
	}
	require.ErrorContains(t, r.seat.fatals()[0], "sink out: a broker refuses a new connection, "+fake.ListenAddrs()[0])
}

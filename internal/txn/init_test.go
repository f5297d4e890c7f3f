package txn

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/tests/realkafka"
)

func TestIDsOfAllPoolsEachOnce(t *testing.T) {
	require.Equal(t, []string{"a-b-0-0", "a-b-0-1", "a-b-0-2", "old-1-0"}, IDs([]checkpoint.Pool{
		{Prefix: "a-b", Size: 2}, {Prefix: "a-b", Size: 3}, {Prefix: "old", Index: 1, Size: 1},
	}))
}

func TestTimeoutIsTheBrokersMaximumUnlessSet(t *testing.T) {
	short := realkafka.Start(t, realkafka.Options{Properties: map[string]string{"transaction.max.timeout.ms": "60000"}})
	long := realkafka.Start(t, realkafka.Options{Properties: map[string]string{"transaction.max.timeout.ms": "7200000"}})
	cases := []struct {
		name    string
		cluster *realkafka.Cluster
		want    time.Duration
		got     []time.Duration
		limit   time.Duration
	}{
		{"unset, short maximum", short, 0, []time.Duration{time.Minute}, time.Minute},
		{"unset, long maximum", long, 0, []time.Duration{time.Hour}, 2 * time.Hour},
		{"set", long, 30 * time.Minute, []time.Duration{30 * time.Minute}, 2 * time.Hour},
		{"set above the maximum", short, 2 * time.Minute, []time.Duration{2 * time.Minute}, time.Minute},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, c.cluster)
			timeouts, err := b.Timeouts(t.Context(), c.want)
			require.NoError(t, err)
			require.Equal(t, Timeouts{Candidates: c.got, Max: c.limit}, timeouts)
		})
	}
	t.Run("above the maximum is an error with both numbers", func(t *testing.T) {
		b := newBench(t, short)
		timeouts, err := b.Timeouts(t.Context(), 2*time.Minute)
		require.NoError(t, err)
		_, err = b.Init(t.Context(), []string{realkafka.Name(t)}, timeouts)
		var refused *TimeoutError
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err, "120000 ms")
		require.ErrorContains(t, err, "transaction.max.timeout.ms of 60000")
		require.ErrorContains(t, err, "`transactions.timeout`")
	})
	t.Run("candidates are tried in turn", func(t *testing.T) {
		b := newBench(t, short)
		ids := []string{realkafka.Name(t), realkafka.Name(t), realkafka.Name(t)}
		accepted, err := b.Init(t.Context(), ids, Timeouts{Candidates: []time.Duration{time.Hour, time.Minute}})
		require.NoError(t, err)
		require.Equal(t, time.Minute, accepted)
		for _, id := range ids {
			require.Equal(t, "Empty", b.seen(t, id))
		}
	})
}

// TestRefusedIDsSayWhatToGrant also covers a broker that does not let the user read its maximum timeout.
func TestRefusedIDsSayWhatToGrant(t *testing.T) {
	b := newBench(t, realkafka.Start(t, realkafka.Options{Properties: map[string]string{
		"authorizer.class.name":          "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"allow.everyone.if.no.acl.found": "true",
		"transaction.max.timeout.ms":     "900000",
		"early.start.listeners":          "CONTROLLER",
	}}))
	b.principal = "User:ANONYMOUS"
	id := realkafka.Name(t)
	admin := kadm.NewClient(b.current)
	for _, acl := range []*kadm.ACLBuilder{
		kadm.NewACLs().Clusters().Allow("User:ANONYMOUS").AllowHosts().Operations(kadm.OpAll),
		kadm.NewACLs().Clusters().Deny("User:ANONYMOUS").DenyHosts().Operations(kadm.OpDescribeConfigs),
		kadm.NewACLs().TransactionalIDs(id).Allow("User:ANONYMOUS").AllowHosts().Operations(kadm.OpDescribe).ResourcePatternType(kadm.ACLPatternLiteral),
		kadm.NewACLs().TransactionalIDs(id).Deny("User:ANONYMOUS").DenyHosts().Operations(kadm.OpWrite).ResourcePatternType(kadm.ACLPatternLiteral),
	} {
		made, err := admin.CreateACLs(t.Context(), acl)
		require.NoError(t, err)
		for _, m := range made {
			require.NoError(t, m.Err)
		}
	}
	require.Eventually(t, func() bool { // the rules have reached the authorizer
		limit, err := b.maxTimeout(t.Context())
		return err == nil && limit == 0
	}, 20*time.Second, 50*time.Millisecond)

	timeouts, err := b.Timeouts(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, Timeouts{Candidates: []time.Duration{time.Hour, 15 * time.Minute}}, timeouts)
	accepted, err := b.Init(t.Context(), []string{realkafka.Name(t)}, timeouts)
	require.NoError(t, err)
	require.Equal(t, 15*time.Minute, accepted)

	_, err = b.Init(t.Context(), []string{id}, timeouts)
	requireRefused(t, err, id)
	_, err = b.Commit(t.Context(), checkpoint.Committable{TransactionalID: id, ProducerID: 1})
	requireRefused(t, err, id)
}

func requireRefused(t *testing.T, err error, id string) {
	t.Helper()
	var refused *AuthorizationError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, id, refused.TransactionalID)
	require.Equal(t, "Write", refused.Operation)
	require.ErrorContains(t, err, "User:ANONYMOUS")
	require.ErrorContains(t, err, "grant the ACL operation Write on resource TransactionalId")
}

// TestInitGoesOnWhenTheBrokerComesBack: a broker that is away is waited for.
func TestInitGoesOnWhenTheBrokerComesBack(t *testing.T) {
	cluster := realkafka.Start(t, realkafka.Options{})
	b := newBench(t, cluster)
	id := realkafka.Name(t)
	require.NoError(t, cluster.Kill(0))
	done := make(chan error, 1)
	go func() {
		_, err := b.Init(t.Context(), []string{id}, Timeouts{Candidates: []time.Duration{time.Minute}})
		done <- err
	}()
	require.NoError(t, cluster.Restart(0))
	require.NoError(t, <-done)
	require.Equal(t, "Empty", b.seen(t, id))
}

func TestInitEndsWithItsContext(t *testing.T) {
	b := &bench{opts: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}}
	broker, err := Dial(b.opts, "", discard())
	require.NoError(t, err)
	defer broker.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = broker.Init(ctx, []string{"a", "b"}, Timeouts{Candidates: []time.Duration{time.Minute}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

package txn

import (
	"context"
	"fmt"
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

// timeoutIsTheBrokersMaximumUnlessSet runs on clusters with a maximum below and above an hour.
func timeoutIsTheBrokersMaximumUnlessSet(t *testing.T, b *bench, limit time.Duration) {
	unset, err := b.Timeouts(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, Timeouts{Candidates: []time.Duration{min(limit, time.Hour)}, Max: limit}, unset)
	set, err := b.Timeouts(t.Context(), 30*time.Second)
	require.NoError(t, err)
	require.Equal(t, Timeouts{Candidates: []time.Duration{30 * time.Second}, Max: limit}, set)

	t.Run("above the maximum is an error with both numbers", func(t *testing.T) {
		timeouts, err := b.Timeouts(t.Context(), limit+time.Minute)
		require.NoError(t, err)
		_, err = b.Init(t.Context(), []string{realkafka.Name(t)}, nil, timeouts, nil)
		var refused *TimeoutError
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err, fmt.Sprintf("%d ms", (limit+time.Minute).Milliseconds()))
		require.ErrorContains(t, err, fmt.Sprintf("transaction.max.timeout.ms of %d", limit.Milliseconds()))
		require.ErrorContains(t, err, "`transactions.timeout`")
	})
	t.Run("candidates are tried in turn", func(t *testing.T) {
		ids := []string{realkafka.Name(t), realkafka.Name(t), realkafka.Name(t)}
		accepted, err := b.Init(t.Context(), ids, nil, Timeouts{Candidates: []time.Duration{3 * time.Hour, time.Minute}}, nil)
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
	accepted, err := b.Init(t.Context(), []string{realkafka.Name(t)}, nil, timeouts, nil)
	require.NoError(t, err)
	require.Equal(t, 15*time.Minute, accepted)

	_, err = b.Init(t.Context(), []string{id}, nil, timeouts, nil)
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

func TestInitEndsWithItsContext(t *testing.T) {
	b := &bench{opts: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}}
	broker, err := Dial(b.opts, "", discard())
	require.NoError(t, err)
	defer broker.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = broker.Init(ctx, []string{"a", "b"}, nil, Timeouts{Candidates: []time.Duration{time.Minute}}, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

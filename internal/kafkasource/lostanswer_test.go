package kafkasource

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/tests/kafkaproxy"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// TestUnansweredCommitIsSentAgainSoon: the newest positions wait behind a commit whose request or answer is lost, so it
// must not be waited for longer than a request may take, which are 10 s.
func TestUnansweredCommitIsSentAgainSoon(t *testing.T) {
	cluster := realkafka.Shared(t)
	for _, side := range []kafkaproxy.Side{kafkaproxy.Request, kafkaproxy.Answer} {
		rule := kafkaproxy.Rule{Key: kmsg.OffsetCommit, Side: side, Effect: kafkaproxy.Drop, Times: 1}
		t.Run(rule.String(), func(t *testing.T) {
			t.Parallel()
			proxy, err := kafkaproxy.New(cluster.Bootstrap())
			require.NoError(t, err)
			t.Cleanup(proxy.Close)
			var n commitCounts
			cfg := committingConfig(brokerAt(t, proxy.Bootstrap()), &n)
			cfg.Group = realkafka.Name(t)
			cfg.Subscription.Topics = []string{cluster.Topic(t, 1)}
			s := newSource(t, cfg)
			state := s.resolve(nil)
			require.NoError(t, s.CommitOffsets(t.Context(), state))
			proxy.Set(rule)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			require.NoError(t, s.CommitOffsets(ctx, state))
			require.Equal(t, 1, proxy.Clear())
			require.Equal(t, commitCounts{succeeded: 2}, n)
		})
	}
}

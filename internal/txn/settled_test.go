package txn

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestWaitForMarkersSaysSoAfterSecondsAndThenNowAndThen(t *testing.T) {
	var out bytes.Buffer
	slow := tellSlow(slog.New(slog.NewTextHandler(&out, nil)), "job-0-1")
	for waited := time.Duration(0); waited < time.Minute; waited += time.Second {
		slow(waited)
	}
	require.Equal(t, 2, strings.Count(out.String(), "\n"), "at 5 s and at 35 s:\n%s", out.String())
	require.Contains(t, out.String(), "transactional_id=job-0-1 for=5s")
	require.Contains(t, out.String(), "for=35s")
}

func TestWaitForMarkersTellsHowLongItTakes(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	defer cluster.Close()
	asked := 0
	cluster.ControlKey(int16(kmsg.DescribeTransactions), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.DescribeTransactionsResponse)
		state := kmsg.NewDescribeTransactionsResponseTransactionState()
		state.TransactionalID, state.State = "job-0-1", "PrepareCommit"
		if asked++; asked > 3 {
			state.State = "CompleteCommit"
		}
		resp.TransactionStates = append(resp.TransactionStates, state)
		return resp, nil, true
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	require.NoError(t, err)
	defer cl.Close()
	told := 0
	require.True(t, (&client{Client: cl}).settled(t.Context(), "job-0-1", func(time.Duration) { told++ }))
	require.Equal(t, 3, told)
}

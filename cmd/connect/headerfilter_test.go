package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/devbroker"
	"github.com/tidegate/tidegate/internal/headerexpr"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// headerFilter runs the sub-command as its own process would.
func headerFilter(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := connect(t, append([]string{"header-filter"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	return out.String() + errs.String(), err
}

func TestHeaderFilterExplain(t *testing.T) {
	out, err := headerFilter(t, "explain", "depart:toy|depart:book&!env:test", "--header", "depart=toy", "--header", "env=test")
	require.NoError(t, err)
	for _, want := range []string{
		"and\n├─ or\n│  ├─ depart:toy\n│  └─ depart:book\n└─ not env:test\n", "means different things in the two languages",
		"not looked at", "decides", "\ndropped\n"} {
		require.Contains(t, out, want)
	}
	out, err = headerFilter(t, "explain", "--header", "a=", "a:", "--json")
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, true, got["keeps"])
	require.Equal(t, `a:""`, got["evaluated"])

	for want, args := range map[string][]string{
		"language vvr has no parentheses":                {"explain", "(a:1"},
		"needs one expression, in quotes, and was given": {"explain", "a:1", "b:2"},
		"needs one expression":                           {"explain"},
		"flag provided but not defined: -heder":          {"explain", "a:1", "--heder", "a=1"},
		`"sql" is not a language`:                        {"explain", "a:1", "--language", "sql"},
		"needs --topic":                                  {"test", "a:1"},
	} {
		out, err := headerFilter(t, args...)
		require.Error(t, err, args)
		require.Contains(t, out, want)
	}
}

func TestHeaderFilterTestShowsWhatItKeepsOfATopic(t *testing.T) {
	broker, err := devbroker.Start(devbroker.Options{Topics: []devbroker.Topic{{Name: "orders", Partitions: 2}}})
	require.NoError(t, err)
	defer broker.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer cl.Close()
	for i, env := range []string{"prod", "test", "prod"} {
		require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{
			Topic: "orders", Partition: int32(i % 2), Headers: []kgo.RecordHeader{{Key: "env", Value: []byte(env)}, {Key: "null"}},
		}).FirstErr())
	}
	servers := "--bootstrap-servers=" + strings.Join(broker.Addrs(), ",")
	out, err := headerFilter(t, "test", "env:prod", "--topic", "orders", servers)
	require.NoError(t, err, out)
	require.Contains(t, out, `kept     orders-0@0  env="prod" null=null`)
	require.Contains(t, out, `dropped  orders-1@0  env="test" null=null`)
	require.Contains(t, out, "2 of 3 records kept")

	out, err = headerFilter(t, "test", "env:prod", "--topic", "orders", "--limit", "1", "--json", servers)
	require.NoError(t, err, out)
	require.Equal(t, 1, strings.Count(out, "\n"))
	require.Contains(t, out, `"headers":[{"key":"env","value":`)

	out, err = headerFilter(t, "test", "env:prod", "--topic", "none", servers)
	require.Error(t, err)
	require.Contains(t, out, `topic "none"`)
}

// A transaction's marker takes the last offset of a partition and is no record: who waits for a record there waits for ever.
func TestHeaderFilterTestEndsBehindTransactions(t *testing.T) {
	kafka := realkafka.Start(t, realkafka.Options{})
	topic := kafka.Topic(t, 3)
	for partition, commit := range []bool{true, false} { // the third has nothing
		cl, err := kgo.NewClient(kgo.SeedBrokers(kafka.Bootstrap()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(topic))
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, cl.BeginTransaction())
			for _, env := range []string{"prod", "test"} {
				require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{
					Topic: topic, Partition: int32(partition), Headers: []kgo.RecordHeader{{Key: "env", Value: []byte(env)}},
				}).FirstErr())
			}
			require.NoError(t, cl.EndTransaction(t.Context(), kgo.TransactionEndTry(commit)))
		}
		cl.Close()
	}
	for limit, want := range map[string]string{"20": "4 of 8 records kept", "8": "4 of 8 records kept", "3": " of 3 records kept"} {
		out, err := headerFilter(t, "test", "env:prod", "--topic", topic, "--limit", limit, "--bootstrap-servers", strings.Join(kafka.Bootstrap(), ","))
		require.NoError(t, err, out)
		require.Contains(t, out, want)
	}
}

func TestTrialIsDoneWithAPartitionWhateverHoldsItsLastOffset(t *testing.T) {
	for name, tc := range map[string]struct {
		records []*kgo.Record
		seen    int
		left    bool
	}{
		"a record":                     {[]*kgo.Record{{Offset: 0}, {Offset: 1}, {Offset: 2}}, 3, false},
		"a hole, and more behind it":   {[]*kgo.Record{{Offset: 0}, {Offset: 3}}, 1, false},
		"not there yet":                {[]*kgo.Record{{Offset: 0}, {Offset: 1}}, 2, true},
		"more came in the meantime":    {[]*kgo.Record{{Offset: 1}, {Offset: 2}, {Offset: 3}, {Offset: 4}}, 2, false},
		"of a partition that is ended": {[]*kgo.Record{{Offset: 7, Partition: 1}, {Offset: 0}}, 1, true},
	} {
		expr, err := headerexpr.Parse("a:1", headerexpr.VVR)
		require.NoError(t, err)
		trial := trial{filterArgs: filterArgs{out: new(bytes.Buffer), expr: expr, limit: 10}, left: map[int32]int64{0: 3}}
		for _, r := range tc.records {
			require.NoError(t, trial.see(r))
		}
		require.Equal(t, tc.seen, trial.seen, name)
		require.Equal(t, tc.left, len(trial.left) > 0, name)
	}
}

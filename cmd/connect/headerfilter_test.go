package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/benthosx"
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

// TestHeaderFilterTestReachesAClusterAsAJobDoes: the listener asks for TLS and a login, which are in the job's config.
func TestHeaderFilterTestReachesAClusterAsAJobDoes(t *testing.T) {
	kafka := realkafka.Start(t, realkafka.Options{Secure: &realkafka.Secure{Users: map[string]string{"orders": realkafka.Password}}})
	topic := kafka.Topic(t, 1)
	cl, err := kgo.NewClient(kgo.SeedBrokers(kafka.Bootstrap()...))
	require.NoError(t, err)
	defer cl.Close()
	require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Headers: []kgo.RecordHeader{{Key: "env", Value: []byte("prod")}}},
		&kgo.Record{Topic: topic}).FirstErr())
	source := func(label, topics string) string {
		return fmt.Sprintf("label: %s\n  kafka_flink_source:\n    bootstrap_servers: %s\n    topics: [ %s ]\n    startup: { mode: earliest-offset }\n"+
			"    tls: { enabled: true, root_cas_file: %s }\n    sasl: [ { mechanism: SCRAM-SHA-512, username: orders, password: \"${SECRET_UNDER_TEST}\" } ]\n",
			label, kafka.Listener(realkafka.SASLSSL), topics, kafka.Certs().CA)
	}
	one := writeFile(t, "one.yaml", "input:\n  "+source("a", topic)+"output: { drop: {} }\n")
	several := writeFile(t, "several.yaml", "input:\n  "+source("a", topic+", other")+"output: { drop: {} }\n")
	env := writeFile(t, "f.env", "SECRET_UNDER_TEST='"+realkafka.Password+"'\n")
	wrong := writeFile(t, "wrong.env", "SECRET_UNDER_TEST='hunter2'\n")
	for name, tc := range map[string]struct {
		args []string
		want string
		ok   bool
	}{
		"its topic":           {[]string{"env:prod", "--config", one, "--env-file", env}, "1 of 2 records kept", true},
		"another topic":       {[]string{"-e", env, "-c", several, "--topic", topic, "--source", "a", "env:prod"}, "1 of 2 records kept", true},
		"a field that is set": {[]string{"env:prod", "-c", several, "-e", env, "-s", "input.kafka_flink_source.topics=" + topic}, "1 of 2 records kept", true},
		"several topics":      {[]string{"env:prod", "-c", several, "-e", env}, "name one by --topic", false},
		"no such source":      {[]string{"env:prod", "-c", one, "-e", env, "--source", "b"}, "one.yaml has a", false},
		"no config":           {[]string{"env:prod", "--source", "b", "--topic", topic}, "go together with --config", false},
		"no such config":      {[]string{"env:prod", "-c", "none.yaml"}, "none.yaml", false},
		"a wrong password":    {[]string{"env:prod", "-c", one, "-e", wrong}, "SASL_AUTHENTICATION_FAILED", false},
		"no password":         {[]string{"env:prod", "-c", one}, "SECRET_UNDER_TEST", false},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := headerFilter(t, append([]string{"test"}, tc.args...)...)
			require.Equal(t, tc.ok, err == nil, out)
			require.Contains(t, out, tc.want)
			require.NotContains(t, out, "hunter2", "rule 13")
		})
	}
}

func TestSourceWhoseConnectionIsTaken(t *testing.T) {
	for name, tc := range map[string]struct {
		keys         []string
		source, want string
		refused      string
	}{
		"the only one":    {keys: []string{"a"}, want: "a"},
		"by its name":     {keys: []string{"a", "b"}, source: "b", want: "b"},
		"no other":        {keys: []string{"a"}, source: "b", refused: "--source b: job.yaml has a"},
		"one of several":  {keys: []string{"a", "b"}, refused: "job.yaml has several sources; name one by --source: a, b"},
		"none that there": {refused: "job.yaml has no kafka_flink_source under input"},
	} {
		t.Run(name, func(t *testing.T) {
			var job benthosx.Job
			for _, key := range tc.keys {
				job.Sources = append(job.Sources, benthosx.Source{Key: key})
			}
			got, err := (&filterArgs{config: "job.yaml", source: tc.source}).sourceOf(job)
			if tc.refused != "" {
				require.ErrorContains(t, err, tc.refused)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got.Key)
		})
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

package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/devbroker"
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

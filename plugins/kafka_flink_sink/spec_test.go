package kafkaflinksink

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkasink"
)

const minimal = `
bootstrap_servers: [ "localhost:9092" ]
topic: copy
delivery_guarantee: exactly-once
transactional_id_prefix: job
`

func lint(t *testing.T, yaml string) []string {
	t.Helper()
	indented := "kafka_flink_sink:\n  " + strings.ReplaceAll(strings.TrimSpace(yaml), "\n", "\n  ") + "\n"
	lints, err := service.GlobalEnvironment().NewComponentConfigLinter().LintOutputYAML([]byte(indented))
	require.NoError(t, err)
	var out []string
	for _, l := range lints {
		out = append(out, l.What)
	}
	slices.Sort(out)
	return out
}

// parse builds the config as the constructor does.
func parse(t *testing.T, yaml string) (config, error) {
	t.Helper()
	conf, err := spec().ParseYAML(yaml, nil)
	if err != nil {
		return config{}, err
	}
	return parseConfig(conf)
}

// TestBadInput holds each wrong config against its lint, and against the error a start-up gives that skips the lints.
func TestBadInput(t *testing.T) {
	with := func(old, replacement string) string {
		if old == "" {
			return minimal + replacement
		}
		require.Contains(t, minimal, old)
		return strings.Replace(minimal, old, replacement, 1)
	}
	for name, tc := range map[string]struct{ yaml, lint, err string }{
		"unknown field":         {with("", "topics: [ copy ]"), "field topics not recognised", ""},
		"no servers":            {with(`bootstrap_servers: [ "localhost:9092" ]`+"\n", ""), "field bootstrap_servers is required", "bootstrap_servers"},
		"no port":               {with("localhost:9092", "localhost"), `bootstrap_servers: "localhost" has no port; write host:port, such as localhost:9092`, `"localhost" has no port`},
		"no topic":              {with("topic: copy\n", ""), "field topic is required", "topic"},
		"topic not closed":      {with("topic: copy", "topic: ${! @kafka_topic"), "expected end of expression", "topic"},
		"unknown guarantee":     {with("exactly-once", "twice"), `"twice" is not one of`, `delivery_guarantee: "twice"`},
		"no prefix":             {with("transactional_id_prefix: job\n", ""), "transactional_id_prefix is required with delivery_guarantee: exactly-once", "transactional_id_prefix: required"},
		"empty prefix":          {with("prefix: job", `prefix: " "`), "transactional_id_prefix is required with delivery_guarantee: exactly-once", "transactional_id_prefix: required"},
		"prefix by default":     {with("delivery_guarantee: exactly-once\n", ""), "transactional_id_prefix has no effect with delivery_guarantee: at-least-once", `transactional_id_prefix: "job" has no effect`},
		"prefix with none":      {with("exactly-once", "None"), "transactional_id_prefix has no effect with delivery_guarantee: none", `transactional_id_prefix: "job" has no effect`},
		"transactions and none": {with("delivery_guarantee: exactly-once\ntransactional_id_prefix: job", "delivery_guarantee: none\ntransactions: { timeout: 5m, pool_size: 7 }"), "transactions.pool_size, transactions.timeout have no effect", ""},
		"pool too small":        {with("", "transactions: { pool_size: 2 }"), "transactions.pool_size: 2 is less than 3", "transactions.pool_size: 2 is less than 3"},
		"pool in words":         {with("", "transactions: { pool_size: many }"), `transactions.pool_size: "many" is not a whole number`, "transactions.pool_size: many"},
		"timeout in words":      {with("", "transactions: { timeout: long }"), `transactions.timeout: "long" is not a duration`, `transactions.timeout: "long"`},
		"timeout without unit":  {with("", "transactions: { timeout: 900000 }"), `transactions.timeout: "900000" is not a duration`, `transactions.timeout: "900000"`},
		"timeout too short":     {with("", "transactions: { timeout: 10ms }"), "transactions.timeout: 10ms is less than 1s", "transactions.timeout: 10ms"},
		"timeout too long":      {with("", "transactions: { timeout: 700h }"), "transactions.timeout: 700h is more than", "transactions.timeout: 700h"},
		"interval in words":     {with("", "transactions: { commit_interval: often }"), `transactions.commit_interval: "often" is not a duration`, `transactions.commit_interval: "often"`},
		"interval of nothing":   {with("", "transactions: { commit_interval: 0s }"), "transactions.commit_interval: 0s is less than 1ms", "transactions.commit_interval: 0s is less than 1ms"},
		"interval too long":     {with("", "transactions: { commit_interval: 1m, timeout: 60s }"), "transactions.commit_interval: 1m is not less than transactions.timeout, 60s", "transactions.commit_interval: 1m0s is not less than"},
		"unknown policy":        {with("", "transactions: { on_lost_transaction: forget }"), `"forget" is not one of`, `transactions.on_lost_transaction: "forget"`},
		"none in flight":        {with("", "max_in_flight: 0"), "max_in_flight: 0 is less than 1", "max_in_flight: 0 is less than 1"},
		"in flight in words":    {with("", "max_in_flight: some"), `max_in_flight: "some" is not a whole number`, "max_in_flight: some"},
		"index negative":        {with("", "index: -1"), "index: -1 is less than 0", "index: -1 is less than 0"},
		"headers from a header": {with("", "headers: { from: kafka_headers }"), `headers.from: "kafka_headers" does not name metadata`, `headers.from: "kafka_headers"`},
		"acks of one":           {with("", "properties: { acks: 1 }"), "properties.acks: 1 does not go with delivery_guarantee: exactly-once", "properties.acks: 1 does not go with delivery_guarantee: exactly-once"},
		"acks of none":          {with("delivery_guarantee: exactly-once\ntransactional_id_prefix: job", `properties: { acks: "0" }`), "properties.acks: 0 does not go with delivery_guarantee: at-least-once", "properties.acks: 0 does not go with"},
		"not idempotent":        {with("", "properties: { enable.idempotence: false }"), "properties.enable.idempotence: false does not go with delivery_guarantee: exactly-once", "properties.enable.idempotence: false does not go with"},
		"no retries":            {with("", "properties: { retries: 0 }"), "properties.retries: 0 does not go with an idempotent producer", "properties.retries: 0 does not go with"},
		"too many in flight":    {with("", "properties: { max.in.flight.requests.per.connection: 6 }"), "6 is more than the 5 that an idempotent producer may have", "6 is more than the 5"},
		"timeout twice":         {with("", "transactions: { timeout: 15m }\nproperties: { transaction.timeout.ms: 900000 }"), "properties.transaction.timeout.ms and transactions.timeout say the same thing", "properties.transaction.timeout.ms: it and transactions.timeout"},
		"timeout without":       {with("delivery_guarantee: exactly-once\ntransactional_id_prefix: job", "properties: { transaction.timeout.ms: 900000 }"), "properties.transaction.timeout.ms has no effect with delivery_guarantee: at-least-once", "properties.transaction.timeout.ms: 900000 does not go with"},
		"property of a source":  {with("", "properties: { fetch.min.bytes: 5 }"), "properties.fetch.min.bytes: it is for a source, and this is a sink", "properties.fetch.min.bytes: it is for a source"},
		"property of a field":   {with("", "properties: { transactional.id: x }"), "properties.transactional.id: it is set by the field transactional_id_prefix", "it is set by the field transactional_id_prefix"},
		"key not closed":        {with("", `key: "${! @kafka_key"`), "expected end of expression", "key"},
	} {
		t.Run(name, func(t *testing.T) {
			lints := lint(t, tc.yaml)
			require.Len(t, lints, 1, "one lint for one fault: %q", lints)
			require.Contains(t, lints[0], tc.lint)
			if tc.err != "" {
				_, err := parse(t, tc.yaml)
				require.ErrorContains(t, err, tc.err)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	yaml := `
bootstrap_servers: localhost:9092
topic: copy
`
	require.Empty(t, lint(t, yaml))
	c, err := parse(t, yaml)
	require.NoError(t, err)
	require.Equal(t, kafkasink.AtLeastOnce, c.guarantee)
	require.Zero(t, c.pool, "no ids without transactions")
	require.Equal(t, checkpoint.Replay, c.onLost)
	require.Zero(t, c.transactionTimeout, "the broker's maximum")
	require.Equal(t, time.Second, c.commitInterval)
	require.Equal(t, 1, c.maxInFlight)
	require.Equal(t, value{meta: "kafka_key"}, c.records.key)
	require.Equal(t, value{meta: "kafka_timestamp_ms"}, c.records.timestamp)
	require.Equal(t, "kafka_headers", c.records.headersFrom)
	require.Equal(t, []string{"copy"}, c.knownTopics())
}

func TestEveryFieldReachesTheConfig(t *testing.T) {
	yaml := `
bootstrap_servers: "a:1, b:2"
topic: copy-${! @kafka_topic }
delivery_guarantee: Exactly-Once
transactional_id_prefix: job
transactions: { pool_size: 7, timeout: 12m, on_lost_transaction: continue, commit_interval: 250ms }
max_in_flight: 3
key: ${! json("id") }
headers: { from: "" }
timestamp: ""
index: 2
`
	require.Empty(t, lint(t, yaml))
	c, err := parse(t, yaml)
	require.NoError(t, err)
	require.Equal(t, []string{"a:1", "b:2"}, c.connection.BootstrapServers)
	require.Equal(t, kafkasink.ExactlyOnce, c.guarantee)
	require.Equal(t, checkpoint.Pool{Prefix: "job", Index: 2, Size: 7}, c.pool)
	require.Equal(t, checkpoint.Continue, c.onLost)
	require.Equal(t, 12*time.Minute, c.transactionTimeout)
	require.Equal(t, 250*time.Millisecond, c.commitInterval)
	require.Equal(t, 3, c.maxInFlight)
	require.NotNil(t, c.records.key.expr)
	require.Zero(t, c.records.timestamp)
	require.Empty(t, c.records.headersFrom)
	require.Empty(t, c.knownTopics(), "the topic is not known beforehand")

	c, err = parse(t, strings.Replace(yaml, "index: 2", "", 1))
	require.NoError(t, err)
	require.Equal(t, checkpoint.SourcesIndex, c.pool.Index, "it follows the sources")
}

func TestPropertiesReachTheConfig(t *testing.T) {
	yaml := minimal + "properties: { transaction.timeout.ms: 900000, client.id: me, linger.ms: 5 }"
	require.Empty(t, lint(t, yaml))
	c, err := parse(t, yaml)
	require.NoError(t, err)
	require.Equal(t, 15*time.Minute, c.transactionTimeout)
	require.Equal(t, "me", c.connection.ClientID)
	require.True(t, c.connection.Properties.Has("linger.ms"))

	yaml = "bootstrap_servers: a:1\ntopic: copy\ndelivery_guarantee: none\nproperties: { acks: 0, enable.idempotence: false, max.in.flight.requests.per.connection: 9, retries: 0 }"
	require.Empty(t, lint(t, yaml))
	_, err = parse(t, yaml)
	require.NoError(t, err)
}

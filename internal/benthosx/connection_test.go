package benthosx

import (
	"testing"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"
)

func TestConnectionFromConfig(t *testing.T) {
	env := service.NewEnvironment()
	spec := service.NewConfigSpec().Fields(ConnectionFields()...)
	require.NoError(t, env.RegisterBatchInput("probe", spec,
		func(*service.ParsedConfig, *service.Resources) (service.BatchInput, error) { return nil, nil }))
	linter := env.NewComponentConfigLinter()

	for _, tc := range []struct {
		name, yaml string
		want       []string
		lint, err  string
	}{
		{name: "list", yaml: `bootstrap_servers: [ "a:9092", "b:9092" ]`, want: []string{"a:9092", "b:9092"}},
		{name: "one string", yaml: `bootstrap_servers: "a:9092, b:9092,"`, want: []string{"a:9092", "b:9092"}},
		{name: "strings with commas in a list", yaml: `bootstrap_servers: [ "a:9092,[::1]:9092" ]`, want: []string{"a:9092", "[::1]:9092"}},
		{name: "missing port", yaml: `bootstrap_servers: [ "a:9092", "kafka-2" ]`, lint: `"kafka-2" is not host:port`, err: `"kafka-2" has no port`},
		{name: "empty", yaml: `bootstrap_servers: ""`, lint: "names no address", err: "no address given"},
		{name: "empty list", yaml: `bootstrap_servers: []`, lint: "names no address", err: "no address given"},
		{name: "scheme", yaml: `bootstrap_servers: "SSL://a:9092"`, lint: `"SSL://a:9092" is not host:port`, err: "write host:port alone"},
		{name: "number", yaml: `bootstrap_servers: 9092`, lint: "must be a list", err: "neither a list"},
		{name: "list of numbers", yaml: `bootstrap_servers: [ 9092 ]`, lint: "must be a list", err: "is not a host:port string"},
		{name: "map", yaml: `bootstrap_servers: { a: 9092 }`, lint: "must be a list", err: "neither a list"},
		{name: "left out", yaml: `{}`, lint: "field bootstrap_servers is required", err: "bootstrap_servers"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lints, err := linter.LintInputYAML([]byte("probe:\n  " + tc.yaml))
			require.NoError(t, err)
			if tc.lint == "" {
				require.Empty(t, lints)
			} else {
				require.NotEmpty(t, lints)
				require.Contains(t, lints[0].What, tc.lint)
			}
			conf, err := spec.ParseYAML(tc.yaml, env)
			if err == nil {
				_, err = ConnectionFromConfig(conf)
			}
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			got, err := ConnectionFromConfig(conf)
			require.NoError(t, err)
			require.Equal(t, tc.want, got.BootstrapServers)
		})
	}
}

package kafkaclient

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseBootstrapServers(t *testing.T) {
	for _, tc := range []struct {
		name    string
		in      []string
		want    []string
		wantErr string
	}{
		{name: "list", in: []string{"a:9092", "b:9093"}, want: []string{"a:9092", "b:9093"}},
		{name: "one comma-separated string", in: []string{"a:9092,b:9093"}, want: []string{"a:9092", "b:9093"}},
		{name: "spaces and a trailing comma", in: []string{" a:9092 , b:9093 ,", ""}, want: []string{"a:9092", "b:9093"}},
		{name: "repeats", in: []string{"a:9092", "b:9093,a:9092"}, want: []string{"a:9092", "b:9093"}},
		{name: "ipv6", in: []string{"[::1]:9092"}, want: []string{"[::1]:9092"}},
		{name: "nothing", in: []string{" , "}, wantErr: "bootstrap_servers: no address given"},
		{name: "no port", in: []string{"a:9092", "kafka-2"}, wantErr: `"kafka-2" has no port; write host:port, such as kafka-2:9092`},
		{name: "no host", in: []string{":9092"}, wantErr: `":9092" has no host`},
		{name: "port out of range", in: []string{"a:99999"}, wantErr: `"a:99999" has port "99999"`},
		{name: "port in letters", in: []string{"a:kafka"}, wantErr: `"a:kafka" has port "kafka"`},
		{name: "bare ipv6", in: []string{"fe80::1:9092"}, wantErr: `write it as [address]:port`},
		{name: "credentials", in: []string{"a:9092", "user:hunter2@a:9092"}, wantErr: `credentials belong in sasl`},
		{name: "credentials with a comma", in: []string{"user:hunt,er2@a:9092"}, wantErr: `credentials belong in sasl`},
		{name: "credentials and a scheme", in: []string{"SASL_SSL://user:hunter2@a:9092"}, wantErr: `credentials belong in sasl`},
		{name: "listener name", in: []string{"PLAINTEXT://a:9092"}, wantErr: `write host:port alone`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseBootstrapServers(tc.in...)
			if tc.wantErr != "" {
				require.ErrorContains(t, err, tc.wantErr)
				require.ErrorContains(t, err, "bootstrap_servers")
				require.NotContains(t, err.Error(), "hunt", "rule 13")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestOptionsRefuseAnEmptyOrBadServerList(t *testing.T) {
	for _, servers := range [][]string{nil, {"no-port"}} {
		_, err := Config{BootstrapServers: servers}.Options(slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, "bootstrap_servers")
	}
}

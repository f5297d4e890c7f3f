package security

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/devbroker"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// seen counts what has come out.
type seen struct {
	*devbroker.Observer
	times map[int64]int
}

func (p pipeline) observe(t *testing.T) *seen {
	t.Helper()
	o, err := devbroker.Observe(p.cluster.Bootstrap(), p.out)
	require.NoError(t, err)
	t.Cleanup(o.Close)
	return &seen{o, map[int64]int{}}
}

// until reads until so many different records have come out.
func (s *seen) until(t *testing.T, j *job, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for len(s.times) < want {
		err := s.Poll(ctx, func(r *kgo.Record) {
			n, err := devbroker.Number(r)
			require.NoError(t, err)
			s.times[n]++
		})
		if errors.Is(err, context.DeadlineExceeded) || j.Ended() {
			t.Fatalf("%d of %d records came out\n%s", len(s.times), want, j.log(t))
		}
		require.NoError(t, err)
	}
}

// once makes sure that nothing has come out twice.
func (s *seen) once(t *testing.T) {
	t.Helper()
	for n, times := range s.times {
		require.Equal(t, 1, times, "record %d", n)
	}
}

// stops ends a job by SIGTERM.
func (j *job) stops(t *testing.T) {
	t.Helper()
	j.Signal(syscall.SIGTERM)
	select {
	case <-j.Done():
	case <-time.After(limit):
		t.Fatalf("the job goes on\n%s", j.log(t))
	}
	require.NoError(t, j.Err(), j.log(t))
}

func (p pipeline) load(t *testing.T, records int64) {
	t.Helper()
	require.NoError(t, devbroker.Load{Topic: p.in, Partitions: 2, Records: records, Began: time.Now()}.Run(t.Context(), p.cluster.Bootstrap()))
}

const mutual = "tls: { enabled: true, root_cas_file: '{CA}', client_certs: [ { cert_file: '{CERT}', key_file: '{KEY}' } ] }\n"

// TestRightSettingsCopyExactlyOnce: the listener is the only way to the brokers, so each client of the process knows it:
// those that read, produce, look up, commit to the group, and those that settle what a killed process has left open.
func TestRightSettingsCopyExactlyOnce(t *testing.T) {
	cluster := realkafka.SharedSecure(t)
	jaas := func(module, protocol, more string) string {
		return fmt.Sprintf(`properties: { security.protocol: %s, sasl.jaas.config: 'org.apache.flink.kafka.shaded.org.apache.kafka.common.security.%s required username="alice" password="%s";'%s }`,
			protocol, module, realkafka.Password, more)
	}
	for name, tc := range map[string]struct{ listener, connection string }{
		"TLS":                          {realkafka.TLSOnly, trusted},
		"mutual TLS":                   {realkafka.SSL, mutual},
		"TLS and PLAIN":                {realkafka.SASLSSL, trusted + login("PLAIN", "alice", realkafka.Password)},
		"TLS and SCRAM-SHA-256":        {realkafka.SASLSSL, trusted + login("SCRAM-SHA-256", "alice", realkafka.Password)},
		"TLS and SCRAM-SHA-512":        {realkafka.SASLSSL, trusted + login("SCRAM-SHA-512", "alice", realkafka.Password)},
		"SCRAM-SHA-512 in plain text":  {realkafka.SASLPlaintext, login("SCRAM-SHA-512", "alice", realkafka.Password)},
		"name of another host":         {realkafka.WrongHost, "tls: { enabled: true, root_cas_file: '{CA}', server_name: kafka.example.com }\n"},
		"any certificate":              {realkafka.Expired, "tls: { enabled: true, skip_cert_verify: true }\n"},
		"properties, PLAIN":            {realkafka.SASLPlaintext, jaas("plain.PlainLoginModule", "SASL_PLAINTEXT", "")},
		"properties, SCRAM and TLS":    {realkafka.SASLSSL, jaas("scram.ScramLoginModule", "SASL_SSL", ", sasl.mechanism: SCRAM-SHA-512, ssl.truststore.type: PEM, ssl.truststore.location: '{CA}'")},
		"properties, any host name":    {realkafka.WrongHost, "properties: { security.protocol: SSL, ssl.truststore.location: '{CA}', ssl.endpoint.identification.algorithm: '' }"},
		"properties, certificate file": {realkafka.SSL, "properties: { security.protocol: SSL, ssl.truststore.location: '{CA}', ssl.keystore.location: both.pem }"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const records = 400
			p := newPipeline(t, cluster)
			p.listener, p.connection, p.level = tc.listener, tc.connection, "TRACE"
			p.load(t, records/2)
			dir := t.TempDir()
			writeBoth(t, cluster, filepath.Join(dir, "both.pem"))
			out := p.observe(t)
			j := startIn(t, dir, p.yaml())
			out.until(t, j, 1)
			j.Kill()
			p.load2(t, records)
			j = startIn(t, dir, p.yaml())
			out.until(t, j, records)
			j.stops(t)
			out.once(t)
			j.keepsSecrets(t, realkafka.Password)
		})
	}
}

// load2 writes the second half.
func (p pipeline) load2(t *testing.T, records int64) {
	t.Helper()
	load := devbroker.Load{Topic: p.in, Partitions: 2, Records: records, Began: time.Now()}
	client, err := kgo.NewClient(kgo.SeedBrokers(p.cluster.Bootstrap()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer client.Close()
	for n := records / 2; n < records; n++ {
		require.NoError(t, client.ProduceSync(t.Context(), load.Record(n)).FirstErr())
	}
}

// writeBoth writes a client's certificate and key into one file.
func writeBoth(t *testing.T, cluster *realkafka.Cluster, path string) {
	t.Helper()
	var all []string
	for _, file := range []string{cluster.Certs().ClientCert, cluster.Certs().ClientKey} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all = append(all, string(text))
	}
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(all, "")), 0o600))
}

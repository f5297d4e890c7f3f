package security

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/tidegate/tidegate/internal/devbroker"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// setPassword makes a user known to SCRAM, or gives it another password.
func setPassword(t *testing.T, cluster *realkafka.Cluster, user, password string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Bootstrap()...))
	require.NoError(t, err)
	defer client.Close()
	altered, err := kadm.NewClient(client).AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{
		{User: user, Mechanism: kadm.ScramSha512, Iterations: 4096, Password: password}})
	require.NoError(t, err)
	require.NoError(t, altered.Error())
}

// TestSessionsGoOnBeyondTheirEndAndAChangedPasswordEndsTheJob: a broker hangs up on whoever does not log in anew in time
// (KIP-368), and the client does. When it is refused then, the process ends, and goes on with the new password.
func TestSessionsGoOnBeyondTheirEndAndAChangedPasswordEndsTheJob(t *testing.T) {
	cluster := realkafka.SharedSecure(t)
	p := newPipeline(t, cluster)
	const user, before, after = "carol", "hunter4-before", "hunter5-after"
	setPassword(t, cluster, user, before)
	lifetime := sessionLifetime(t, cluster, user, before)
	require.Equal(t, 3*time.Second, lifetime)
	p.listener, p.level = realkafka.ScramOnly, "TRACE"
	p.connection = trusted + "sasl: [ { mechanism: SCRAM-SHA-512, username: carol, password: '${KAFKA_PASSWORD}' } ]\n"

	// Something to do all the time.
	ctx, cancel := context.WithCancel(t.Context())
	producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.Bootstrap()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer producer.Close()
	var written atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		load := devbroker.Load{Topic: p.in, Partitions: 2, Began: time.Now()}
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			n := written.Load()
			if producer.ProduceSync(context.Background(), load.Record(n)).FirstErr() == nil {
				written.Add(1)
			}
		}
	}()
	defer func() { cancel(); <-ended }()

	dir := t.TempDir()
	out := p.observe(t)
	j := startIn(t, dir, p.yaml(), "KAFKA_PASSWORD="+before)
	out.until(t, j, 1)
	start := len(j.log(t))
	for began := time.Now(); time.Since(began) < 3*lifetime; {
		out.until(t, j, len(out.times)+1)
	}
	require.NotContains(t, j.log(t)[start:], "level=error")
	require.NotContains(t, j.log(t)[start:], "level=warn", "nobody notices that the client logs in anew")

	setPassword(t, cluster, user, after)
	last := j.fatalLine(t)
	require.Contains(t, last, "SASL_AUTHENTICATION_FAILED")
	require.Contains(t, last, "password")
	j.keepsSecrets(t, before)

	j = startIn(t, dir, p.yaml(), "KAFKA_PASSWORD="+after)
	out.until(t, j, len(out.times)+1)
	cancel()
	<-ended
	out.until(t, j, int(written.Load()))
	j.stops(t)
	out.once(t)
	j.keepsSecrets(t, before, after)
}

// lifetimes takes from the log of a client how long its sessions last.
type lifetimes chan time.Duration

func (lifetimes) Level() kgo.LogLevel { return kgo.LogLevelDebug }
func (l lifetimes) Log(_ kgo.LogLevel, _ string, keyvals ...any) {
	for i := 0; i+1 < len(keyvals); i += 2 {
		if d, ok := keyvals[i+1].(time.Duration); ok && keyvals[i] == "session_lifetime" {
			select {
			case l <- d:
			default:
			}
		}
	}
}

// sessionLifetime is how long the listener lets a session last.
func sessionLifetime(t *testing.T, cluster *realkafka.Cluster, user, password string) time.Duration {
	t.Helper()
	roots, err := os.ReadFile(cluster.Certs().CA)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(roots))
	told := make(lifetimes, 1)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Listener(realkafka.ScramOnly)), kgo.DialTLSConfig(&tls.Config{RootCAs: pool}),
		kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()), kgo.WithLogger(told))
	require.NoError(t, err)
	defer client.Close()
	// The broker follows the controller, which knows the user first.
	require.Eventually(t, func() bool { return client.Ping(t.Context()) == nil }, limit, limit/1000)
	return <-told
}

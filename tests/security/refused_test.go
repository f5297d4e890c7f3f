package security

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/tests/realkafka"
)

// TestPasswordThatIsRefusedToTheFetchAloneEndsTheJob: every attempt fetches over new connections, while those of the source's
// questions are older than the new password and go on answering. Nothing but the refused connection tells that nothing is
// read any more.
func TestPasswordThatIsRefusedToTheFetchAloneEndsTheJob(t *testing.T) {
	cluster := realkafka.SharedSecure(t)
	p := newPipeline(t, cluster)
	const user, before, after = "dora", "hunter6-before", "hunter7-after"
	setPassword(t, cluster, user, before)
	sessionLifetime(t, cluster, user, before) // the broker knows it
	p.listener = realkafka.SASLSSL
	p.connection = trusted + "sasl: [ { mechanism: SCRAM-SHA-512, username: dora, password: '${KAFKA_PASSWORD}' } ]\n"
	p.load(t, 10)
	input, _, _ := strings.Cut(p.yaml(), "output:")
	j := startIn(t, t.TempDir(), input+"output: { reject: never }\n", "KAFKA_PASSWORD="+before)
	j.said(t, "never") // an attempt has ended, and others follow

	setPassword(t, cluster, user, after)
	last := j.fatalLine(t)
	require.Contains(t, last, "a broker refuses a new connection")
	require.Contains(t, last, `user "dora" was not let in with SCRAM-SHA-512`)
	require.Contains(t, last, "start again with the new one")
	j.keepsSecrets(t, before, after)
}

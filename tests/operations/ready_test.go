package operations

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadyOnceRecoveredAndNotWhileRestarting: a job without its broker is not ready, one that runs is, and one that goes
// back to its last checkpoint is not until it runs again.
func TestReadyOnceRecoveredAndNotWhileRestarting(t *testing.T) {
	t.Parallel()
	refusing := refuse(`count("ready") == 50`) // once: a job that is refused all the time is ready for moments
	port := freePort(t)
	j := run(t, fmt.Sprintf("127.0.0.1:%d", port), "in", "out", refusing)
	j.becomes(http.StatusServiceUnavailable)
	j.eventually("the log says why", func() bool { return len(j.lines("cannot reach Kafka")) > 0 })
	require.Equal(t, http.StatusServiceUnavailable, j.ready(), "as long as there is no broker")

	b := brokers(t, port)
	j.becomes(http.StatusOK)
	require.Len(t, j.lines("sources and sinks are running"), 1)

	feed(t, b.Addrs(), 500)
	j.becomes(http.StatusServiceUnavailable)
	j.becomes(http.StatusOK)
	require.Len(t, j.lines("sources and sinks are running"), 1, "the summary comes once")
}

// TestReadyInStreamsModeIsThatOfAllStreams: one of them cannot reach its broker.
func TestReadyInStreamsModeIsThatOfAllStreams(t *testing.T) {
	t.Parallel()
	b := brokers(t, 0)
	port := freePort(t)
	solo := func(bootstrap string) string {
		return fmt.Sprintf("input:\n  kafka_flink_source:\n    bootstrap_servers: %q\n    topics: [ in ]\n"+
			"    startup: { mode: earliest-offset }\noutput: { drop: {} }\n", bootstrap)
	}
	j := start(t, "", "in", "out", map[string]string{
		"root.yaml": root, "there.yaml": solo(b.Addrs()[0]), "away.yaml": solo(fmt.Sprintf("127.0.0.1:%d", port)),
	}, "streams", "-o", "root.yaml", "there.yaml", "away.yaml")
	j.eventually("one stream runs", func() bool { return len(j.lines("sources and sinks are running without checkpoints")) == 1 })
	require.Equal(t, http.StatusServiceUnavailable, j.ready())
	brokers(t, port)
	j.becomes(http.StatusOK)
}

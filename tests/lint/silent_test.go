package lint

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSilentBrokerIsNamedWithinSeconds: one that is frozen takes connections and answers nothing, which is no error for
// a long time.
func TestSilentBrokerIsNamedWithinSeconds(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // the system takes the connections, nobody serves them
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()

	j := start(t, listener.Addr().String(), good, "run")
	j.said(t, "Launching") // from here on it is the job's own time
	began := time.Now()
	j.said(t, "Kafka has not answered yet")
	require.Less(t, time.Since(began), 10*time.Second, "about 3 s on a machine that is not busy")
	text := string(j.text(t))
	require.Contains(t, text, "bootstrap_servers=\""+listener.Addr().String()+"\"")
	require.Contains(t, text, "waiting_for=\"a first answer of the cluster\"")
	require.Regexp(t, `path=root\.(input|output)`, text, "whichever came first: the other one would say the same")
	require.NotContains(t, text, "none of bootstrap_servers", "the error comes only when it is given up")
	began = time.Now()
	j.Signal(syscall.SIGTERM)
	require.Equal(t, 0, j.end(t), string(j.text(t)))
	require.Less(t, time.Since(began), 10*time.Second, "a stop waits for no answer: Benthos would force it after 15 s")
}

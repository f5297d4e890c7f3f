package lint

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ticker is a stream that has nothing to do with Kafka: a line in a file every few milliseconds.
const ticker = `input: { generate: { interval: 20ms, mapping: 'root = "tick"' } }
output: { file: { path: "${TICKS}", codec: lines } }
`

// TestFatalCauseOfAStreamLeavesTheOthersAlone: in streams mode a stream that cannot go on turns /ready false and says
// why, and the process and its other streams go on.
func TestFatalCauseOfAStreamLeavesTheOthersAlone(t *testing.T) {
	broker := startBroker(t, 0, "in", "out")
	_, checkpointed, _ := strings.Cut(good, "input:")
	for name, tc := range map[string]struct{ stream, want string }{
		"a buffer beside checkpoints": {
			stream: "input:" + checkpointed + "\nbuffer: { memory: {} }\n",
			want:   "buffer: a memory buffer acknowledges records before they are written",
		},
		"a topic that does not exist": {
			stream: `input: { generate: { interval: 20ms, mapping: 'root = "x"' } }
output:
  kafka_flink_sink:
    bootstrap_servers: [ "${BOOTSTRAP}" ]
    topic: nope
`,
			want: `does not exist on this cluster`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TICKS", filepath.Join(t.TempDir(), "ticks"))
			root, address := streamsRoot(t)
			j := startFiles(t, broker.Addrs()[0], map[string]string{
				"root.yaml": root, "broken.yaml": tc.stream, "sound.yaml": ticker,
			}, "streams", "-o", "root.yaml", "broken.yaml", "sound.yaml")
			j.said(t, "the stream has failed; the process and its other streams go on")
			require.Contains(t, string(j.text(t)), tc.want, "the cause is logged")
			require.Contains(t, string(j.text(t)), "stream=broken")

			j.launched(t)
			j.eventually(t, "ticks", func() bool { return ticks() > 0 })
			before := ticks()
			for range 3 { // not ready, and it stays so
				j.eventually(t, "an answer of /ready", func() bool { return status(address+"/ready") == http.StatusServiceUnavailable })
				j.eventually(t, "more ticks", func() bool { return ticks() > before })
				before = ticks()
			}
			require.False(t, j.Ended(), "the process goes on")
			require.Equal(t, http.StatusOK, status(address+"/streams/sound"))
			j.Signal(syscall.SIGTERM)
			require.Equal(t, 0, j.end(t), string(j.text(t)))
		})
	}
}

// TestStreamsThatAreSoundAreReady shows that /ready can be true.
func TestStreamsThatAreSoundAreReady(t *testing.T) {
	broker := startBroker(t, 0, "out")
	t.Setenv("TICKS", filepath.Join(t.TempDir(), "ticks"))
	root, address := streamsRoot(t)
	j := startFiles(t, broker.Addrs()[0], map[string]string{
		"root.yaml": root, "sound.yaml": ticker,
		"writing.yaml": `input: { generate: { interval: 20ms, mapping: 'root = "x"' } }
output: { kafka_flink_sink: { bootstrap_servers: [ "${BOOTSTRAP}" ], topic: out } }
`,
		"transactional.yaml": `input: { generate: { interval: 20ms, mapping: 'root = "x"' } }
output:
  kafka_flink_sink:
    bootstrap_servers: [ "${BOOTSTRAP}" ]
    topic: out
    delivery_guarantee: exactly-once
    transactional_id_prefix: job
`,
	}, "streams", "-o", "root.yaml", "writing.yaml", "transactional.yaml", "sound.yaml")
	j.launched(t)
	j.eventually(t, "readiness", func() bool { return status(address+"/ready") == http.StatusOK })
	j.Signal(syscall.SIGTERM)
	require.Equal(t, 0, j.end(t), string(j.text(t)))
}

// streamsRoot is what all streams of a process have in common, and the address of its HTTP API.
func streamsRoot(t *testing.T) (config, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address = listener.Addr().String()
	require.NoError(t, listener.Close())
	return fmt.Sprintf(`http: { address: %q }
shutdown_timeout: 10s
cache_resources:
  - label: state
    pebble: { path: "${STATE_DIR}" }
`, address), "http://" + address
}

// startFiles is start with several files, in whose folder the binary runs.
func startFiles(t *testing.T, bootstrap string, files map[string]string, args ...string) *job {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return startIn(t, dir, connect, bootstrap, args...)
}

// launched waits until Benthos has made its streams: before that it adds paths to the router of its HTTP API while it serves
// them, without a lock, so whoever asks then makes a race-built process report it.
func (j *job) launched(t *testing.T) {
	t.Helper()
	j.said(t, "use CTRL+C to close")
}

// eventually waits for a condition while the job runs.
func (j *job) eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(limit)
	for !is() {
		select {
		case <-tick.C:
		case <-j.Done():
			t.Fatalf("the job ended before there was %s: %s", what, j.text(t))
		case <-timeout:
			t.Fatalf("there never was %s: %s", what, j.text(t))
		}
	}
}

func ticks() int {
	text, err := os.ReadFile(os.Getenv("TICKS"))
	if err != nil {
		return 0
	}
	return bytes.Count(text, []byte("tick"))
}

// status is that of an HTTP answer, 0 where there is none.
func status(url string) int {
	resp, err := http.Get(url) //nolint:noctx // the address is this test's own
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

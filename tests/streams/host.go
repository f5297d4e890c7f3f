package streams

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/child"
	"github.com/tidegate/tidegate/tests/binary"
)

// Patience is how long anything may take on a busy machine.
const Patience = 30 * time.Second

// poll is how often a process is asked.
const poll = 30 * time.Millisecond

// Host is a running process.
type Host struct {
	t       testing.TB
	dir     string
	address string
	process *child.Process
	log     string
}

// Start starts the binary in streams mode, with one cache for checkpoints, labelled state. It ends with the test.
func Start(t testing.TB) *Host {
	t.Helper()
	h := &Host{t: t, dir: t.TempDir()}
	h.log = filepath.Join(h.dir, "log")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	h.address = "http://" + listener.Addr().String()
	require.NoError(t, listener.Close())
	root, resources := filepath.Join(h.dir, "root.yaml"), filepath.Join(h.dir, "resources.yaml")
	require.NoError(t, os.WriteFile(root, fmt.Appendf(nil, `http: { address: %q }
shutdown_timeout: 10s
logger: { format: json }
metrics: { json_api: {} }
`, listener.Addr()), 0o600))
	require.NoError(t, os.WriteFile(resources, []byte("cache_resources: [ { label: state, checkpoint_memory: {} } ]\n"), 0o600))
	cmd := exec.Command(binary.Connect(t), "streams", "-o", root, "-r", resources)
	cmd.Dir = h.dir
	h.process, err = child.Start(cmd, h.log)
	require.NoError(t, err)
	t.Cleanup(func() {
		h.process.Kill()
		if t.Failed() {
			t.Log(child.Tail(h.log, 40))
		}
	})
	require.Eventually(t, func() bool { code, _ := h.ask(http.MethodGet, "/ping", nil); return code == http.StatusOK }, Patience, poll)
	return h
}

// ask sends a request and returns status and body; status 0 where there is no answer.
func (h *Host) ask(method, path string, body []byte) (code int, answer string) {
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.address+path, bytes.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// Run starts a stream that reads with the kafka_flink_source that is given. A name that is free again goes on from the
// last checkpoint of the stream that had it.
func (h *Host) Run(name string, source map[string]any) *Stream {
	h.t.Helper()
	return h.RunMapped(name, source, "root = this")
}

// RunMapped is Run with a mapping of its own, which gets a record as a list of what a Row has.
func (h *Host) RunMapped(name string, source map[string]any, mapping string) *Stream {
	h.t.Helper()
	s := &Stream{host: h, name: name, over: make(chan struct{}), stop: make(chan struct{})}
	file, err := os.CreateTemp(h.dir, name+"-*")
	require.NoError(h.t, err)
	require.NoError(h.t, file.Close())
	s.path = file.Name()
	text, err := json.Marshal(map[string]any{
		"input": map[string]any{"kafka_flink_source": source},
		"pipeline": map[string]any{"threads": 1, "processors": []any{
			map[string]any{"mapping": `root = [ @kafka_topic, @kafka_partition, @kafka_offset, content().string(), @kafka_timestamp_ms ]`},
			map[string]any{"mapping": mapping},
		}},
		"output": map[string]any{"file": map[string]any{"path": s.path, "codec": "lines"}},
	})
	require.NoError(h.t, err)
	if code, answer := h.ask(http.MethodPost, "/streams/"+name, text); code != http.StatusOK {
		s.failure = answer
		close(s.over)
		return s
	}
	s.watching.Go(s.watch)
	return s
}

// Logged are the log's entries of a stream that have a message.
func (h *Host) Logged(stream, message string) []map[string]string {
	text, err := os.ReadFile(h.log)
	if err != nil {
		return nil
	}
	var out []map[string]string
	for line := range bytes.Lines(text) {
		if !bytes.Contains(line, []byte(message)) {
			continue
		}
		var entry map[string]any
		if json.Unmarshal(line, &entry) != nil || entry["stream"] != stream {
			continue
		}
		fields := make(map[string]string, len(entry))
		for k, v := range entry {
			fields[k] = fmt.Sprint(v)
		}
		out = append(out, fields)
	}
	return out
}

// Count is the sum of a stream's counter over its labels.
func (h *Host) Count(stream, counter string) (sum int64) {
	_, text := h.ask(http.MethodGet, "/stats", nil)
	var all map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &all) != nil {
		return 0
	}
	for name, value := range all {
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err == nil && strings.HasPrefix(name, counter+"{") && strings.Contains(name, fmt.Sprintf("stream=%q", stream)) {
			sum += n
		}
	}
	return sum
}

package operations

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/child"
	"github.com/tidegate/tidegate/internal/devbroker"
	"github.com/tidegate/tidegate/tests/binary"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// connect is the path of the binary, built once for all tests of the package.
var connect string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tidegate-operations-")
	if err == nil {
		connect, err = binary.Build(dir)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	realkafka.Main(m)
}

// pipeline copies one topic to another exactly once. Cases change a part of it.
const pipeline = `input:
  kafka_flink_source:
    bootstrap_servers: "${BOOTSTRAP}"
    topics: [ "${IN}" ]
    group_id: job
    isolation_level: read_committed
    startup: { mode: earliest-offset }
    checkpoint:
      interval: 200ms
      store: state
pipeline:
  threads: 1
  processors:
    - mapping: root = content()
output:
  kafka_flink_sink:
    bootstrap_servers: "${BOOTSTRAP}"
    topic: "${OUT}"
    delivery_guarantee: exactly-once
    transactional_id_prefix: job
`

// refuse is the pipeline with records that are refused where a mapping says so: each refusal is a restart.
func refuse(where string) string {
	text := strings.Replace(pipeline, "mapping: root = content()",
		`mapping: 'root = if `+where+` { throw("refused") } else { content() }'`, 1)
	head, sink, _ := strings.Cut(text, "output:\n")
	return head + "output:\n  reject_errored:\n" + regexp.MustCompile("(?m)^(.)").ReplaceAllString(sink, "  $1")
}

const root = `http: { address: "127.0.0.1:%d" }
cache_resources:
  - label: state
    pebble: { path: ./state }
`

// limit is how long anything may take here: the start of a binary with the race detector on a busy machine.
const limit = 60 * time.Second

// job is a run of the binary.
type job struct {
	*child.Process
	t         *testing.T
	log, http string
	launched  bool // its streams are made, see get
}

// start runs the binary on files in a folder of its own. root.yaml and, in its place for `run`, job.yaml get the port.
func start(t *testing.T, bootstrap, in, out string, files map[string]string, args ...string) *job {
	t.Helper()
	dir, port := t.TempDir(), freePort(t)
	for name, text := range files {
		text = strings.ReplaceAll(text, "%d", fmt.Sprint(port))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	cmd := exec.Command(connect, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "BOOTSTRAP="+bootstrap, "IN="+in, "OUT="+out)
	j := &job{t: t, log: filepath.Join(dir, "log"), http: fmt.Sprintf("http://127.0.0.1:%d", port)}
	var err error
	j.Process, err = child.Start(cmd, j.log)
	require.NoError(t, err)
	t.Cleanup(j.Kill)
	return j
}

// run runs one pipeline.
func run(t *testing.T, bootstrap, in, out, text string) *job {
	t.Helper()
	return start(t, bootstrap, in, out, map[string]string{"job.yaml": root + text}, "run", "job.yaml")
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// get asks the job's HTTP server. The status is 0 while there is none, and until Benthos has made its streams: before that
// it adds paths to the router while it serves them, without a lock, and a race-built process reports that.
func (j *job) get(path string) (status int, body string) {
	if !j.launched {
		if j.launched = strings.Contains(j.text(), "use CTRL+C to close"); !j.launched {
			return 0, ""
		}
	}
	resp, err := http.Get(j.http + path)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

func (j *job) ready() int {
	status, _ := j.get("/ready")
	return status
}

// eventually waits for what must happen while the job runs.
func (j *job) eventually(what string, happened func() bool) {
	j.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(limit)
	for !happened() {
		select {
		case <-tick.C:
		case <-j.Done():
			j.t.Fatalf("the job ended before %s%s", what, child.Tail(j.log, 30))
		case <-timeout:
			j.t.Fatalf("in vain: %s%s", what, child.Tail(j.log, 30))
		}
	}
}

func (j *job) text() string {
	text, err := os.ReadFile(j.log)
	require.NoError(j.t, err)
	return string(text)
}

// lines are those of the log that hold a text.
func (j *job) lines(text string) (found []string) {
	for line := range bytes.Lines([]byte(j.text())) {
		if bytes.Contains(line, []byte(text)) {
			found = append(found, string(line))
		}
	}
	return found
}

func (j *job) becomes(status int) {
	j.t.Helper()
	j.eventually(fmt.Sprintf("/ready answers %d", status), func() bool { return j.ready() == status })
}

// brokers starts an embedded cluster on the given ports, 0 for free ones.
func brokers(t *testing.T, ports ...int) *devbroker.Broker {
	t.Helper()
	b, err := devbroker.Start(devbroker.Options{
		Ports: ports, ClusterID: "operations", Topics: []devbroker.Topic{{Name: "in", Partitions: 2}, {Name: "out", Partitions: 2}},
	})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

// feed produces records to the topic in, until the test ends.
func feed(t *testing.T, addrs []string, records int64) {
	t.Helper()
	load := devbroker.Load{Topic: "in", Partitions: 2, Records: records, Began: time.Now()}
	require.NoError(t, load.Run(t.Context(), addrs))
}

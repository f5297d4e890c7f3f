package lint

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/child"
	"github.com/tidegate/tidegate/tests/binary"
)

// connect is the path of the binary, built once for all tests of the package.
var connect string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tidegate-lint-")
	if err == nil {
		connect, err = binary.Build(dir)
	}
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Println(err)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// good is a job that runs. Cases change a part of it.
const good = `http: { enabled: false }
cache_resources:
  - label: state
    pebble: { path: "${STATE_DIR}" }
  - label: forgetful
    memory: {}
input:
  kafka_flink_source:
    bootstrap_servers: [ "${BOOTSTRAP}" ]
    topics: [ in ]
    group_id: job
    startup: { mode: earliest-offset }
    checkpoint:
      interval: 100ms
      store: state
pipeline:
  threads: 1
  processors:
    - mapping: root = content()
output:
  kafka_flink_sink:
    bootstrap_servers: [ "${BOOTSTRAP}" ]
    topic: out
    delivery_guarantee: exactly-once
    transactional_id_prefix: job
`

// changed is the good job with a part replaced.
func changed(t *testing.T, old, replacement string) string {
	t.Helper()
	require.Equal(t, 1, strings.Count(good, old), "%q stands in the good job once", old)
	return strings.Replace(good, old, replacement, 1)
}

// job is a run of the binary with a config.
type job struct {
	*child.Process
	log string
}

// start runs a command of the binary on a config.
func start(t *testing.T, bootstrap, text string, command ...string) *job {
	t.Helper()
	return startBinary(t, connect, bootstrap, text, command...)
}

// startBinary is start with another binary.
func startBinary(t *testing.T, path, bootstrap, text string, command ...string) *job {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "job.yaml"), []byte(text), 0o600))
	return startIn(t, dir, path, bootstrap, append(command, filepath.Join(dir, "job.yaml"))...)
}

// startIn runs a binary in a folder, which gets its log and its state.
func startIn(t *testing.T, dir, path, bootstrap string, args ...string) *job {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "BOOTSTRAP="+bootstrap, "STATE_DIR="+filepath.Join(dir, "state"))
	j := &job{log: filepath.Join(dir, "log")}
	var err error
	j.Process, err = child.Start(cmd, j.log)
	require.NoError(t, err)
	t.Cleanup(j.Kill)
	return j
}

// limit is how long anything may take here: the start of a binary with the race detector on a busy machine.
const limit = 30 * time.Second

// end waits for the job's end and returns its exit code.
func (j *job) end(t *testing.T) int {
	t.Helper()
	select {
	case <-j.Done():
	case <-time.After(limit):
		t.Fatalf("the job goes on%s", child.Tail(j.log, 20))
	}
	var exit *exec.ExitError
	if err := j.Err(); err != nil {
		require.ErrorAs(t, err, &exit)
		return exit.ExitCode()
	}
	return 0
}

// said waits until the log holds a text.
func (j *job) said(t *testing.T, text string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(limit)
	for !bytes.Contains(j.text(t), []byte(text)) {
		select {
		case <-tick.C:
		case <-j.Done():
			t.Fatalf("the job ended before it said %q%s", text, child.Tail(j.log, 20))
		case <-timeout:
			t.Fatalf("the job never said %q%s", text, child.Tail(j.log, 20))
		}
	}
}

func (j *job) text(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(j.log)
	require.NoError(t, err)
	return text
}

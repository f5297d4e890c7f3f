package failures

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/child"
	"github.com/tidegate/tidegate/tests/binary"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// connect is the path of the binary, built once for all tests of the package.
var connect string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tidegate-failures-")
	if err == nil {
		connect, err = binary.Build(dir)
	}
	code := 1
	if err == nil {
		code = realkafka.Run(m)
	} else {
		fmt.Println(err)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// limit is how long anything may take: a binary with the race detector, and brokers that start, on a busy machine.
const limit = time.Minute

// text is a pipeline; exactlyOnce and plain are its two kinds.
const text = `http: { address: "127.0.0.1:{PORT}" }
cache_resources:
  - label: state
    pebble: { path: ./state }
input:
  kafka_flink_source:
    bootstrap_servers: "{SERVERS}"
    topics: [ {IN} ]
    group_id: {ID}
    startup: { mode: group-offsets, offset_reset: earliest }
{CONNECTION}{SOURCE}
pipeline:
  threads: 1
  processors:
    - mapping: 'root = "%s %s %s".format(@kafka_topic, @kafka_partition.string(), content().string())'
output:
  kafka_flink_sink:
    bootstrap_servers: "{SERVERS}"
    topic: {OUT}
{CONNECTION}{SINK}`

const (
	exactlyOnceSource = `    checkpoint: { interval: 200ms, store: state }
`
	exactlyOnceSink = `    delivery_guarantee: exactly-once
    transactional_id_prefix: {ID}
`
)

// pipeline is a copy into a topic of one partition, with where each record came from.
type pipeline struct {
	servers, connection string
	in                  []string
	out, id             string
	// plain is set where there are no checkpoints.
	plain bool
}

func (p pipeline) yaml(port int) string {
	source, sink := exactlyOnceSource, exactlyOnceSink
	if p.plain {
		source, sink = "", ""
	}
	s := strings.NewReplacer("{SOURCE}", source, "{SINK}", sink, "{CONNECTION}", p.connection).Replace(text)
	return strings.NewReplacer("{PORT}", strconv.Itoa(port), "{SERVERS}", p.servers, "{IN}", strings.Join(p.in, ", "),
		"{OUT}", p.out, "{ID}", p.id).Replace(s)
}

// job is a run of the binary in a folder, which holds its config, its log and its state.
type job struct {
	*child.Process
	t    *testing.T
	dir  string
	http string
}

func (p pipeline) start(t *testing.T, dir string) *job {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "job.yaml"), []byte(p.yaml(port)), 0o600))
	cmd := exec.Command(connect, "run", "job.yaml")
	cmd.Dir = dir
	started, err := child.Start(cmd, filepath.Join(dir, "log"))
	require.NoError(t, err)
	t.Cleanup(started.Kill)
	return &job{Process: started, t: t, dir: dir, http: fmt.Sprintf("http://127.0.0.1:%d", port)}
}

func (j *job) log() string {
	content, err := os.ReadFile(filepath.Join(j.dir, "log"))
	require.NoError(j.t, err)
	return strings.ReplaceAll(string(content), `\"`, `"`)
}

// lines are those of the log that hold a text.
func (j *job) lines(text string) (found []string) {
	for line := range strings.Lines(j.log()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// eventually waits for what must happen while the job runs.
func (j *job) eventually(what string, happened func() bool) {
	j.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for timeout := time.After(limit); !happened(); {
		select {
		case <-tick.C:
		case <-j.Done():
			j.t.Fatalf("the job ended before %s\n%s", what, j.log())
		case <-timeout:
			j.t.Fatalf("in vain: %s\n%s", what, j.log())
		}
	}
}

// said waits for a line of the log.
func (j *job) said(text string) {
	j.t.Helper()
	j.eventually(fmt.Sprintf("it said %q", text), func() bool { return len(j.lines(text)) > 0 })
}

// metric sums up all series of a name.
func (j *job) metric(name string) (sum float64) {
	resp, err := http.Get(j.http + "/metrics")
	if err != nil {
		return -1
	}
	defer func() { _ = resp.Body.Close() }()
	for scan := bufio.NewScanner(resp.Body); scan.Scan(); {
		series, number, _ := strings.Cut(scan.Text(), " ")
		if found, _, _ := strings.Cut(series, "{"); found == name {
			v, err := strconv.ParseFloat(number, 64)
			require.NoError(j.t, err)
			sum += v
		}
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return sum
}

// fails waits for the job to end with exit code 1, and returns its last line.
func (j *job) fails() string {
	j.t.Helper()
	select {
	case <-j.Done():
	case <-time.After(limit):
		j.t.Fatalf("the job goes on\n%s", j.log())
	}
	var exit *exec.ExitError
	require.True(j.t, errors.As(j.Err(), &exit) && exit.ExitCode() == 1, "%v\n%s", j.Err(), j.log())
	lines := strings.Split(strings.TrimSpace(j.log()), "\n")
	last := lines[len(lines)-1]
	require.Contains(j.t, last, "fatal: ")
	j.t.Log(last)
	return last
}

// stops stops the job, which commits everything.
func (j *job) stops() {
	j.t.Helper()
	j.Signal(syscall.SIGTERM)
	select {
	case <-j.Done():
	case <-time.After(limit):
		j.t.Fatalf("the job does not stop\n%s", j.log())
	}
	require.NoError(j.t, j.Err(), j.log())
}

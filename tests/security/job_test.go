package security

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
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
	dir, err := os.MkdirTemp("", "tidegate-security-")
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

// limit is how long anything may take: the start of a binary with the race detector on a busy machine.
const limit = time.Minute

// pipeline is a copy, whose connection is what a test is about.
type pipeline struct {
	cluster *realkafka.Cluster
	in, out string
	// listener names the listener that both ends connect to, connection is what they have beside.
	listener, connection string
	// source and sink are added to theirs.
	source, sink string
	id           string // of group and prefix
	level        string // of the log
}

func newPipeline(t *testing.T, cluster *realkafka.Cluster) pipeline {
	t.Helper()
	return pipeline{cluster: cluster, in: cluster.Topic(t, 2), out: cluster.Topic(t, 2), id: realkafka.Name(t)}
}

const pipelineText = `http: { enabled: false }
logger: { level: %s }
cache_resources:
  - label: state
    pebble: { path: ./state }
input:
  kafka_flink_source:
    bootstrap_servers: %q
    topics: [ %s ]
    group_id: %s
    startup: { mode: earliest-offset }
    checkpoint: { interval: 200ms, store: state }
%s
pipeline:
  threads: 1
output:
  kafka_flink_sink:
    bootstrap_servers: %q
    topic: %s
    delivery_guarantee: exactly-once
    transactional_id_prefix: %s
%s
`

func (p pipeline) yaml() string {
	certs := p.cluster.Certs()
	addrs := p.cluster.BootstrapString()
	if p.listener != "" {
		addrs = p.cluster.Listener(p.listener)
	}
	text := fmt.Sprintf(pipelineText, cmp.Or(p.level, "INFO"), addrs, p.in, p.id, block(p.connection+"\n"+p.source),
		addrs, p.out, p.id, block(p.connection+"\n"+p.sink))
	return strings.NewReplacer("{CA}", certs.CA, "{STRANGER_CA}", certs.StrangerCA, "{CERT}", certs.ClientCert, "{KEY}", certs.ClientKey,
		"{STRANGER_CERT}", certs.StrangerCert, "{STRANGER_KEY}", certs.StrangerKey).Replace(text)
}

// block indents lines to stand in a component.
func block(lines string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\n    ")
}

// job is a run of the binary in a folder of its own, which holds its config, its log and its state.
type job struct {
	*child.Process
	dir string
}

func start(t *testing.T, text string) *job {
	t.Helper()
	return startIn(t, t.TempDir(), text)
}

func startIn(t *testing.T, dir, text string, env ...string) *job {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "job.yaml"), []byte(text), 0o600))
	cmd := exec.Command(connect, "run", "job.yaml")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	p, err := child.Start(cmd, filepath.Join(dir, "log"))
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return &job{Process: p, dir: dir}
}

func (j *job) log(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(j.dir, "log"))
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), `\"`, `"`)
}

// fatalLine waits for the job to end with exit code 1, and returns its last line.
func (j *job) fatalLine(t *testing.T) string {
	t.Helper()
	select {
	case <-j.Done():
	case <-time.After(limit):
		t.Fatalf("the job goes on\n%s", j.log(t))
	}
	var exit *exec.ExitError
	require.True(t, errors.As(j.Err(), &exit) && exit.ExitCode() == 1, "%v\n%s", j.Err(), j.log(t))
	lines := strings.Split(strings.TrimSpace(j.log(t)), "\n")
	last := lines[len(lines)-1]
	t.Log(last)
	return last
}

// said waits until the log holds a match of a pattern.
func (j *job) said(t *testing.T, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for timeout := time.After(limit); !re.MatchString(j.log(t)); {
		select {
		case <-tick.C:
		case <-j.Done():
			t.Fatalf("the job ended before it said %q\n%s", pattern, j.log(t))
		case <-timeout:
			t.Fatalf("the job never said %q\n%s", pattern, j.log(t))
		}
	}
}

// keepsSecrets looks through everything that the job has left (rules 10 and 13).
func (j *job) keepsSecrets(t *testing.T, secrets ...string) {
	t.Helper()
	require.NoError(t, filepath.Walk(j.dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() || filepath.Base(path) == "job.yaml" {
			return err
		}
		content, err := os.ReadFile(path)
		for _, s := range secrets {
			require.NotContains(t, string(content), s, path)
			require.False(t, bytes.Contains(content, []byte(s)), path)
		}
		return err
	}))
}

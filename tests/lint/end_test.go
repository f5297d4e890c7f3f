package lint

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/devbroker"
)

// foreign builds testdata/foreign once: a build of somebody else's with our plugins.
var foreign = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(connect), "foreign")
	out, err := exec.Command("go", "build", "-o", path, "./testdata/foreign").CombinedOutput()
	if err != nil {
		return string(out), err
	}
	return path, nil
})

func foreignBuild(t *testing.T, main string) string {
	t.Helper()
	path, err := foreign()
	require.NoError(t, err, path)
	t.Setenv("FOREIGN_MAIN", main)
	return path
}

func lastLine(t *testing.T, j *job) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(string(j.text(t))), "\n")
	return lines[len(lines)-1]
}

// TestFatalCauseEndsABuildOfSomebodyElse: whatever main is around the plugins, a cause that nothing heals ends the
// process with 1 and is printed; where it is ours, it is also the last line.
func TestFatalCauseEndsABuildOfSomebodyElse(t *testing.T) {
	broker := startBroker(t, 0, "in", "out")
	for name, tc := range map[string]struct{ main, old, replacement, want string }{
		"nobody looks at the config": {
			"", "topics: [ in ]", "topics: [ in ]", "checkpoints need a look at the whole config, which this build does not take",
		},
		"no such topic":                {"checks", "topics: [ in ]", "topics: [ nope ]", `"nope": no such topic in the cluster`},
		"no such topic, with our main": {"host", "topics: [ in ]", "topics: [ nope ]", `"nope": no such topic in the cluster`},
		"too few ids":                  {"checks", "interval: 100ms", "interval: 100ms\n      max_concurrent: 4", "needs at least 6"},
	} {
		t.Run(name, func(t *testing.T) {
			j := startBinary(t, foreignBuild(t, tc.main), broker.Addrs()[0], changed(t, tc.old, tc.replacement), "run")
			require.Equal(t, 1, j.end(t), string(j.text(t)))
			_, cause, _ := strings.Cut(string(j.text(t)), "fatal: ")
			require.Contains(t, cause, tc.want)
			if tc.main == "host" {
				require.True(t, strings.HasPrefix(lastLine(t, j), "fatal: "), lastLine(t, j))
				require.NotContains(t, string(j.text(t)), "Received SIG", "nobody has sent one")
				require.Contains(t, string(j.text(t)), "Shutting down the service", "in order")
			}
		})
	}
}

// TestFatalCauseEndsTheProcessThoughBatchesAreUnacknowledged: a batch that stays somewhere for ever does not keep the
// process, whose shutdown_timeout bounds what is waited for.
func TestFatalCauseEndsTheProcessThoughBatchesAreUnacknowledged(t *testing.T) {
	const shutdown = 3 * time.Second
	broker := startBroker(t, 0, "in", "out")
	load := devbroker.Load{Topic: "in", Partitions: 2, Records: 200, Began: time.Now()}
	require.NoError(t, load.Run(t.Context(), broker.Addrs()))
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	require.NoError(t, err)
	defer func() { _ = silent.Close() }()

	// No barrier comes to its end, and the first failure is the last.
	text := "shutdown_timeout: " + shutdown.String() + "\n" +
		changed(t, "interval: 100ms", "interval: 100ms\n      timeout: 1s\n      max_restarts: 0")
	processor := strings.Replace(text, "mapping: root = content()", "sleep: { duration: 1h }", 1)
	output, _, _ := strings.Cut(text, "output:")
	output = strings.Replace(output, "interval: 100ms", "mode: at-least-once\n      interval: 100ms", 1) +
		"output: { http_client: { url: \"http://" + silent.Addr().String() + "\", timeout: 1h } }\n"
	for name, tc := range map[string]struct{ main, text string }{
		"in a processor":                    {"host", processor},
		"in an output":                      {"host", output},
		"in a processor of another's build": {"checks", processor},
		"in an output of another's build":   {"checks", output},
	} {
		t.Run(name, func(t *testing.T) {
			j := startBinary(t, foreignBuild(t, tc.main), broker.Addrs()[0], tc.text, "run")
			j.said(t, "the process ends")
			began := time.Now()
			require.Equal(t, 1, j.end(t), string(j.text(t)))
			took := time.Since(began)
			t.Logf("%s: ended %v after the cause", name, took.Round(time.Millisecond))
			require.Less(t, took, 3*shutdown, "on a busy machine")
			require.Contains(t, string(j.text(t)), "fatal: ")
			require.Contains(t, string(j.text(t)), "max_restarts")
		})
	}
}

// TestStopThatIsForcedIsNoSuccess: Benthos ends with 0 also where it had to force the stop, and there was no last
// checkpoint.
func TestStopThatIsForcedIsNoSuccess(t *testing.T) {
	broker := startBroker(t, 0, "in", "out")
	load := devbroker.Load{Topic: "in", Partitions: 2, Records: 200, Began: time.Now()}
	require.NoError(t, load.Run(t.Context(), broker.Addrs()))
	for _, shutdown := range []string{"1s", "4s"} { // with and without time for Benthos to be patient first
		t.Run(shutdown, func(t *testing.T) {
			text := "shutdown_timeout: " + shutdown + "\n" + changed(t, "mapping: root = content()", "log: { message: \"it is held\" }\n    - sleep: { duration: 1h }")
			j := start(t, broker.Addrs()[0], text, "run")
			j.said(t, "it is held")
			j.Signal(syscall.SIGTERM)
			require.Equal(t, 1, j.end(t), string(j.text(t)))
			require.Contains(t, lastLine(t, j), "stopped without a last checkpoint; the next start goes on from the one before")
		})
	}
}

// TestStopThatComesEarlyIsInOrder: a SIGTERM that comes before Benthos listens for it, while the stream is only being
// built, is not lost and does not kill.
func TestStopThatComesEarlyIsInOrder(t *testing.T) {
	broker := startBroker(t, 0, "in", "out")
	j := startBinary(t, foreignBuild(t, "host, stopped early"), broker.Addrs()[0], good, "run")
	require.Equal(t, 0, j.end(t), "by the signal it would have no exit code: %s", j.text(t))
	require.Contains(t, string(j.text(t)), "Launching", "it came before this")
	require.NotContains(t, string(j.text(t)), "fatal: ")
	require.Contains(t, string(j.text(t)), "Received SIGTERM", "Benthos has heard of it")
}

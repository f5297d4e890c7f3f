package lint

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/child"
	"github.com/tidegate/tidegate/internal/devbroker"
)

// The parts of a job without checkpoints. GROUP is another one for each, so that each reads everything.
const (
	soloSource = `kafka_flink_source: { bootstrap_servers: [ "${BOOTSTRAP}" ], topics: [ in ], group_id: GROUP, startup: { offset_reset: earliest }, auto_commit: { interval: 50ms } }`
	soloSink   = `kafka_flink_sink: { bootstrap_servers: [ "${BOOTSTRAP}" ], topic: out }`
)

// seesAll waits until as many different records are in the topic out as were loaded, times times each at least.
func seesAll(t *testing.T, broker *devbroker.Broker, j *job, records, times int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker.Addrs()...), kgo.ConsumeTopics("out"))
	require.NoError(t, err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	seen := map[string]int{}
	for done := 0; done < records; {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d records came%s", done, records, child.Tail(j.log, 30))
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if seen[string(r.Value)]++; seen[string(r.Value)] == times {
				done++
			}
		})
	}
}

// TestWithoutCheckpointsNoSurroundingIsRefused runs a source without checkpoints in what is refused around one that has
// some.
func TestWithoutCheckpointsNoSurroundingIsRefused(t *testing.T) {
	const records = 400
	for name, tc := range map[string]struct {
		text  string
		times int // each record is to come
	}{
		"a buffer": {text: `
input: { SOURCE }
buffer: { memory: {} }
output: { SINK }`},
		"a batch policy without a period": {text: `
input: { SOURCE }
output:
  broker:
    outputs: [ { SINK } ]
    batching: { count: 100 }`},
		"dynamic outputs": {text: `
input: { SOURCE }
output:
  dynamic:
    outputs:
      one: { SINK }`},
		"a sequence": {times: 2, text: `
input:
  sequence:
    inputs:
      - ` + strings.Replace(soloSource, "GROUP,", "first, bounded: { mode: latest-offset },", 1) + `
      - SOURCE
output: { SINK }`},
		"another input": {text: `
input:
  broker:
    inputs:
      - SOURCE
      - generate: { mapping: root = "other", interval: 10ms }
output: { SINK }`},
		"several threads, several writers": {text: `
input: { SOURCE }
pipeline: { threads: 4, processors: [ { mapping: root = content() } ] }
output:
  ` + strings.Replace(soloSink, "topic: out", "topic: out, max_in_flight: 16", 1)},
		"a sink that waits for nothing": {text: `
input: { SOURCE }
output:
  ` + strings.Replace(soloSink, "topic: out", "topic: out, delivery_guarantee: none", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			broker := startBroker(t, 0, "in", "out")
			load := devbroker.Load{Topic: "in", Partitions: 2, Records: records, Began: time.Now()}
			require.NoError(t, load.Run(t.Context(), broker.Addrs()))
			text := strings.NewReplacer("SOURCE", strings.Replace(soloSource, "GROUP", "job", 1), "SINK", soloSink).Replace(tc.text)
			j := start(t, broker.Addrs()[0], "http: { enabled: false }\nshutdown_timeout: 4s\n"+text, "run")
			seesAll(t, broker, j, records, max(1, tc.times))
			j.Signal(syscall.SIGTERM)
			require.Equal(t, 0, j.end(t), string(j.text(t)))
		})
	}
}

// TestBoundedJobWithoutCheckpointsEndsWithEverythingWritten holds each guarantee: also with none nothing is left in a
// buffer at the end.
func TestBoundedJobWithoutCheckpointsEndsWithEverythingWritten(t *testing.T) {
	const records = 400
	for _, guarantee := range []string{"at-least-once", "none"} {
		t.Run(guarantee, func(t *testing.T) {
			broker := startBroker(t, 0, "in", "out")
			load := devbroker.Load{Topic: "in", Partitions: 2, Records: records, Began: time.Now()}
			require.NoError(t, load.Run(t.Context(), broker.Addrs()))
			j := start(t, broker.Addrs()[0], "http: { enabled: false }\ninput:\n  "+
				strings.Replace(soloSource, "GROUP,", "job, bounded: { mode: latest-offset },", 1)+"\noutput:\n  "+
				strings.Replace(soloSink, "topic: out", "topic: out, delivery_guarantee: "+guarantee, 1), "run")
			require.Equal(t, 0, j.end(t), string(j.text(t)))
			fence, err := devbroker.FenceOf(t.Context(), broker.Addrs(), "out")
			require.NoError(t, err)
			var written int64
			for _, end := range fence {
				written += end
			}
			require.EqualValues(t, records, written)
			require.Contains(t, string(j.text(t)), "running without checkpoints")
		})
	}
}

// TestWithoutCheckpointsAReloadGoesOn changes the file of a job that runs under -w.
func TestWithoutCheckpointsAReloadGoesOn(t *testing.T) {
	broker := startBroker(t, 0, "in", "out")
	config := func(mapping string) string {
		return "http: { enabled: false }\ninput:\n  " + strings.Replace(soloSource, "GROUP", "job", 1) +
			"\npipeline:\n  processors:\n    - mapping: " + mapping + "\noutput:\n  " + soloSink + "\n"
	}
	j := start(t, broker.Addrs()[0], config("root = content()"), "run", "-w")
	j.said(t, "running without checkpoints")
	load := devbroker.Load{Topic: "in", Partitions: 2, Records: 100, Began: time.Now()}
	require.NoError(t, load.Run(t.Context(), broker.Addrs()))
	seesAll(t, broker, j, 100, 1)
	j.rewritten(t, config(`root = "anew "+content().string()`), func() bool {
		return bytes.Count(j.text(t), []byte("running without checkpoints")) > 1
	})
	require.NoError(t, load.Run(t.Context(), broker.Addrs()))
	seesAll(t, broker, j, 200, 1)
	j.Signal(syscall.SIGTERM)
	require.Equal(t, 0, j.end(t), string(j.text(t)))
}

// TestWithoutCheckpointsStreamsModeRuns adds, changes and removes jobs by the API of streams mode.
func TestWithoutCheckpointsStreamsModeRuns(t *testing.T) {
	broker := startBroker(t, 0, "in", "out")
	load := devbroker.Load{Topic: "in", Partitions: 2, Records: 100, Began: time.Now()}
	require.NoError(t, load.Run(t.Context(), broker.Addrs()))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	j := start(t, broker.Addrs()[0], "{}", "streams", "--no-api=false", "--set", "http.address="+addr)
	call := func(method, path, body string) (status int, text string) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, strings.NewReader(body))
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		answer, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(answer)
	}
	j.launched(t)
	require.Eventually(t, func() bool { status, _ := call("GET", "/ready", ""); return status == http.StatusOK }, limit, 20*time.Millisecond)
	text := func(group string) string {
		return strings.ReplaceAll(fmt.Sprintf("input:\n  %s\noutput:\n  %s\n", strings.Replace(soloSource, "GROUP", group, 1), soloSink), "${BOOTSTRAP}", broker.Addrs()[0])
	}
	for i, step := range []struct{ method, path, body string }{
		{"POST", "/streams/one", text("one")},
		{"POST", "/streams/two", text("two")},
		{"PUT", "/streams/one", text("three")},
	} {
		status, answer := call(step.method, step.path, step.body)
		require.Equal(t, http.StatusOK, status, answer)
		seesAll(t, broker, j, 100, i+1)
	}
	status, answer := call("DELETE", "/streams/two", "")
	require.Equal(t, http.StatusOK, status, answer)
	j.Signal(syscall.SIGTERM)
	require.Equal(t, 0, j.end(t), string(j.text(t)))
}

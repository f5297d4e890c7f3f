package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/devbroker"
)

// example is what one file of config/ does with records of devbroker.Load in the topic orders.
type example struct {
	to, group string
	wanted    func(n int64) bool
	value     func(n int64, in []byte) string
	// other runs an example that is none of copying.
	other func(t *testing.T, file string)
}

func same(_ int64, in []byte) string { return string(in) }

var examples = map[string]example{
	"copy-exactly-once.yaml":   {to: "orders-copy", group: "orders-copy", value: same},
	"at-least-once.yaml":       {to: "orders-copy", group: "orders-copy", value: same},
	"without-checkpoints.yaml": {to: "orders-copy", group: "orders-copy", value: same},
	"http-to-kafka.yaml":       {other: runHTTPExample},
	"tls-and-sasl.yaml":        {other: runSecureExample},
	"header-filter.yaml": {
		to: "orders-kept", group: "orders-kept", value: same,
		wanted: func(n int64) bool { return n >= 100 && n != 500 && n != 501 && n != 777 && n != 778 },
	},
	"transform.yaml": {
		to: "orders-clean", group: "orders-clean",
		wanted: func(n int64) bool { return !devbroker.Cancelled(n) },
		value: func(n int64, _ []byte) string {
			cents := devbroker.Cents(n)
			return fmt.Sprintf(`{"cents":%d,"customer":"customer-%05d","n":%d,"vat_cents":%d}`, cents, n%1000, n, cents*19/100)
		},
	},
}

func exampleFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../config/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

func TestExamplesHaveNoLints(t *testing.T) {
	for _, file := range exampleFiles(t) {
		out, err := connect(t, "lint", file).CombinedOutput()
		require.NoError(t, err, string(out))
	}
}

func TestExamplesDoWhatTheySay(t *testing.T) {
	for _, file := range exampleFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			ex, ok := examples[filepath.Base(file)]
			require.True(t, ok, "describe what %s does in this test", file)
			if ex.other != nil {
				ex.other(t, file)
				return
			}
			ex.run(t, file)
		})
	}
}

// run has the example copy records until all are there, stops it, and looks at what it left.
func (ex example) run(t *testing.T, file string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	broker, err := devbroker.Start(devbroker.Options{Topics: []devbroker.Topic{{Name: "orders", Partitions: 4}, {Name: ex.to, Partitions: 4}}})
	require.NoError(t, err)
	defer broker.Close()
	load := devbroker.Load{Topic: "orders", Partitions: 4, Records: 2000, Began: time.Now().Truncate(time.Millisecond)}
	require.NoError(t, load.Run(ctx, broker.Addrs()))

	t.Setenv("BOOTSTRAP_SERVERS", broker.Addrs()[0])
	ex.copies(ctx, t, file, load, broker.Addrs())
}

// copies runs the example over what was loaded. The addresses are those for the witness.
func (ex example) copies(ctx context.Context, t *testing.T, file string, load devbroker.Load, bootstrap []string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t.Setenv("STATE_DIR", filepath.Join(t.TempDir(), "state"))
	cmd := connect(t, "run", "--set", "http.enabled=false", file)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		cancel() // nobody is to wait for records of a process that is gone
	}()

	audit := devbroker.NewAudit(ex.expectation(load))
	observer, err := devbroker.Observe(bootstrap, ex.to)
	require.NoError(t, err)
	defer observer.Close()
	for audit.Seen() < audit.Expected() && err == nil {
		err = observer.Poll(ctx, audit.See)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM) // fails where it has ended by itself, which is told below
	stopped := <-ended
	require.NoError(t, err, "%d records seen; log:\n%s", audit.Seen(), &log)
	require.NoError(t, stopped, "a graceful stop; log:\n%s", &log)
	ex.checkEnd(t, bootstrap, observer, audit)
}

// checkEnd checks that nothing is open or behind after the stop.
func (ex example) checkEnd(t *testing.T, bootstrap []string, observer *devbroker.Observer, audit *devbroker.Audit) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	fence, err := devbroker.FenceOf(ctx, bootstrap, ex.to)
	require.NoError(t, err)
	require.NoError(t, observer.PollTo(ctx, fence, audit.See))
	require.NoError(t, audit.Err())

	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...))
	require.NoError(t, err)
	defer cl.Close()
	committed, err := kadm.NewClient(cl).FetchOffsets(ctx, ex.group)
	require.NoError(t, err)
	ends, err := devbroker.FenceOf(ctx, bootstrap, "orders")
	require.NoError(t, err)
	for p, end := range ends {
		o, ok := committed.Lookup("orders", p)
		require.True(t, ok, "partition %d is in the group", p)
		require.Equal(t, end, o.At, "partition %d", p)
	}
}

func (ex example) expectation(load devbroker.Load) devbroker.Expectation {
	return devbroker.Expectation{
		Records: load.Records,
		Wanted:  ex.wanted,
		Intact: func(n int64, r *kgo.Record) error {
			if want := ex.value(n, load.Record(n).Value); string(r.Value) != want {
				return fmt.Errorf("value is %s, not %s", r.Value, want)
			}
			return load.SameEnvelope(n, r)
		},
	}
}

func TestExamplesNameThemselvesInTheirInstructions(t *testing.T) {
	for _, file := range exampleFiles(t) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(text), "connect run config/"+filepath.Base(file))
	}
}

package lint

import (
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/child"
	"github.com/tidegate/tidegate/internal/devbroker"
)

func startBroker(t *testing.T, port int, topics ...string) *devbroker.Broker {
	t.Helper()
	options := devbroker.Options{Ports: []int{port}}
	for _, topic := range topics {
		options.Topics = append(options.Topics, devbroker.Topic{Name: topic, Partitions: 2})
	}
	broker, err := devbroker.Start(options)
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	return broker
}

// TestWrongConfigsAreRefusedByTheirField holds what `lint` says, and what `run` says, which must not start such a job.
func TestWrongConfigsAreRefusedByTheirField(t *testing.T) {
	for name, tc := range map[string]struct{ old, replacement, want string }{
		"unknown field of the source":  {"group_id: job", "group_id: job\n    grup: job", "field grup not recognised"},
		"unknown field of the sink":    {"topic: out", "topic: out\n    topik: out", "field topik not recognised"},
		"unknown field of a cache":     {`path: "${STATE_DIR}"`, `path: "${STATE_DIR}", size: 1`, "field size not recognised"},
		"no topics":                    {"topics: [ in ]", "topics: []", "topics names no topic"},
		"interval in words":            {"interval: 100ms", "interval: often", `checkpoint.interval: "often" is not a duration`},
		"no store":                     {"store: state", "timeout: 1s", "checkpoint.store is required"},
		"store without interval":       {"interval: 100ms\n      ", "", "checkpoint.store has no effect without checkpoint.interval"},
		"auto commit and checkpoints":  {"group_id: job", "group_id: job\n    auto_commit: { interval: 1s }", "auto_commit and checkpoint.interval contradict each other"},
		"no prefix":                    {"    transactional_id_prefix: job\n", "", "transactional_id_prefix is required with delivery_guarantee: exactly-once"},
		"transaction timeout in words": {"topic: out", "topic: out\n    transactions: { timeout: long }", `transactions.timeout: "long" is not a duration`},
	} {
		t.Run(name, func(t *testing.T) {
			text := changed(t, tc.old, tc.replacement)
			for _, command := range [][]string{{"lint", "--skip-env-var-check"}, {"run"}} {
				j := start(t, "127.0.0.1:1", text, command...)
				require.Equal(t, 1, j.end(t), "%s: %s", command[0], j.text(t))
				said := strings.ReplaceAll(string(j.text(t)), `\"`, `"`)
				require.Contains(t, said, tc.want, command[0])
			}
		})
	}
}

func TestGoodConfigHasNoLints(t *testing.T) {
	j := start(t, "127.0.0.1:1", good, "lint", "--skip-env-var-check")
	require.Equal(t, 0, j.end(t), string(j.text(t)))
	require.Empty(t, string(j.text(t)))
}

// TestStartThatCannotSucceedEndsWithItsCause holds the last line of a job that lints cannot refuse.
func TestStartThatCannotSucceedEndsWithItsCause(t *testing.T) {
	broker := startBroker(t, 0, "in", "out")
	for name, tc := range map[string]struct{ old, replacement, want string }{
		"store without a cache":         {"store: state", "store: absent", `fatal: input: checkpoint.store: "absent": no cache has this label`},
		"store that forgets":            {"store: state", "store: forgetful", `fatal: input: checkpoint.store: "forgetful": this cache cannot hold checkpoints`},
		"transaction timeout too short": {"topic: out", "topic: out\n    transactions: { timeout: 30s }", "fatal: output: transactions.timeout is 30s, less than checkpoint.interval 100ms + checkpoint.timeout 10m0s"},
		"too few ids":                   {"interval: 100ms", "interval: 100ms\n      max_concurrent: 4", `fatal: output "output": transactions.pool_size is 5, checkpoint.max_concurrent 4 needs at least 6`},
		"input topic is not there":      {"topics: [ in ]", "topics: [ in, nope ]", `"nope": no such topic in the cluster`},
	} {
		t.Run(name, func(t *testing.T) {
			j := start(t, broker.Addrs()[0], changed(t, tc.old, tc.replacement), "run")
			require.Equal(t, 1, j.end(t), string(j.text(t)))
			lines := strings.Split(strings.TrimSpace(string(j.text(t))), "\n")
			require.Contains(t, lines[len(lines)-1], tc.want, "the last line tells the cause")
			require.True(t, strings.HasPrefix(lines[len(lines)-1], "fatal: "), lines[len(lines)-1])
		})
	}
}

func TestBrokerThatIsAwayIsNamedAndWaitedFor(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := listener.Addr().(*net.TCPAddr)
	require.NoError(t, listener.Close()) // nobody listens there now

	j := start(t, addr.String(), good, "run")
	j.said(t, addr.String())
	startBroker(t, addr.Port, "in", "out")
	j.said(t, "sources and sinks are running")
	j.Signal(syscall.SIGTERM)
	require.Equal(t, 0, j.end(t), string(j.text(t)))
}

func TestOutputTopicThatIsMissingIsNamed(t *testing.T) {
	broker := startBroker(t, 0, "in")
	j := start(t, broker.Addrs()[0], good, "run")
	j.said(t, "`topic`: \\\"out\\\" does not exist on this cluster")
	require.Equal(t, 1, j.end(t), "nobody waits for a topic for ever: %s", j.text(t))
}

func TestSecondJobOnOneStateFolderIsToldSo(t *testing.T) {
	broker := startBroker(t, 0, "in", "out")
	text := strings.Replace(good, "${STATE_DIR}", t.TempDir(), 1)
	first := start(t, broker.Addrs()[0], text, "run")
	first.said(t, "sources and sinks are running")
	second := start(t, broker.Addrs()[0], text, "run")
	require.Equal(t, 1, second.end(t), string(second.text(t)))
	require.Contains(t, string(second.text(t)), "fatal: ")
	require.Contains(t, string(second.text(t)), "another process")
	first.Signal(syscall.SIGTERM)
	require.Equal(t, 0, first.end(t), string(first.text(t)))
}

// TestTwoJobsWithOnePrefixFenceEachOther: with a state folder each, they cannot know of each other. The one whose ids the
// other has initialised later ends and says why, and does not come back.
func TestTwoJobsWithOnePrefixFenceEachOther(t *testing.T) {
	broker := startBroker(t, 0, "in", "out")
	one := start(t, broker.Addrs()[0], good, "run")
	one.said(t, "sources and sinks are running")
	other := start(t, broker.Addrs()[0], good, "run")
	other.said(t, "sources and sinks are running")
	load := devbroker.Load{Topic: "in", Partitions: 2, Records: 200, Began: time.Now()}
	require.NoError(t, load.Run(t.Context(), broker.Addrs()))
	select {
	case <-one.Done():
	case <-other.Done():
		one, other = other, one
	case <-time.After(limit):
		t.Fatalf("both go on%s%s", child.Tail(one.log, 20), child.Tail(other.log, 20))
	}
	require.Equal(t, 1, one.end(t), string(one.text(t)))
	// Fenced while writing, or between the seal and the commit of a transaction.
	require.Regexp(t, `fatal: .*(transactional_id_prefix|initialised again)`, string(one.text(t)))
	other.Signal(syscall.SIGTERM)
	require.Equal(t, 0, other.end(t), string(other.text(t)))
}

package realkafka

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimEnv); dir != "" {
		victim(dir)
		return
	}
	Main(m)
}

func TestSharedBrokerTakesRecordsAndItsOwnToolReadsThem(t *testing.T) {
	c := Shared(t)
	topic := c.Topic(t, 1, "max.message.bytes", "100000")
	client := newClient(t, c)
	err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("hello")}).FirstErr()
	require.NoError(t, err)
	out, err := c.Tool(t.Context(), "org.apache.kafka.tools.GetOffsetShell",
		"--bootstrap-server", c.BootstrapString(), "--topic", topic)
	require.NoError(t, err)
	require.Equal(t, topic+":0:1", strings.TrimSpace(out))
}

func TestToolErrorHoldsWhatTheToolSaid(t *testing.T) {
	_, err := Shared(t).Tool(t.Context(), "org.apache.kafka.tools.GetOffsetShell", "--no-such-option")
	require.ErrorContains(t, err, "no-such-option")
}

func TestFeaturesAndPropertiesReachTheBroker(t *testing.T) {
	c := Start(t, Options{
		Features:   map[string]int{"transaction.version": 0},
		Properties: map[string]string{"transaction.max.timeout.ms": "12345"},
	})
	admin := kadm.NewClient(newClient(t, c))
	configs, err := admin.DescribeBrokerConfigs(t.Context(), 1)
	require.NoError(t, err)
	values := map[string]string{}
	for _, config := range configs[0].Configs {
		values[config.Key] = config.MaybeValue()
	}
	require.Equal(t, "12345", values["transaction.max.timeout.ms"])
	require.Equal(t, "3000", values["broker.session.timeout.ms"])

	out, err := c.Tool(t.Context(), "org.apache.kafka.tools.FeatureCommand",
		"--bootstrap-server", c.BootstrapString(), "describe")
	require.NoError(t, err)
	require.Regexp(t, `transaction.version\s.*FinalizedVersionLevel: 0`, out)
}

func TestThreeBrokersOutliveOneThatIsKilledPausedAndRestarted(t *testing.T) {
	c := Start(t, Options{Brokers: 3})
	topic := c.Topic(t, 1)
	client := newClient(t, c)
	leader := func() int {
		topics, err := kadm.NewClient(client).ListTopics(t.Context(), topic)
		require.NoError(t, err)
		return int(topics[topic].Partitions[0].Leader) - 1
	}
	produce := func(value string) {
		err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr()
		require.NoError(t, err)
	}
	produce("before")
	first := leader()
	require.NoError(t, c.Kill(first))
	require.False(t, c.Running(first))
	produce("one is killed")
	require.NotEqual(t, first, leader())
	require.NoError(t, c.Restart(first))
	require.True(t, c.Running(first))

	second := leader()
	require.NoError(t, c.Pause(second))
	produce("one is paused")
	require.NoError(t, c.Continue(second))
	require.NoError(t, c.Stop(second))
	produce("one is stopped")
	require.NoError(t, c.Restart(second))

	offsets, err := kadm.NewClient(client).ListEndOffsets(t.Context(), topic)
	require.NoError(t, err)
	end, _ := offsets.Lookup(topic, 0)
	require.Equal(t, int64(4), end.Offset)
}

func TestStartThatFailsShowsTheBrokersLog(t *testing.T) {
	need(t)
	_, err := StartProcess(t.Context(), Options{Properties: map[string]string{"num.network.threads": "none"}}, t.TempDir())
	require.ErrorContains(t, err, "num.network.threads")
}

// victimEnv makes the test binary start a cluster in a folder, tell its address and wait to be killed.
const victimEnv = "REALKAFKA_VICTIM_DIR"

func victim(dir string) {
	c, err := StartProcess(context.Background(), Options{}, dir)
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Println(c.BootstrapString())
	select {}
}

func TestBrokerEndsWithAProcessThatIsKilled(t *testing.T) {
	need(t)
	count(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimEnv+"="+t.TempDir())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	addr := strings.TrimSpace(line)
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err, "the broker of the child listens")

	require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
	_ = cmd.Wait()
	// The kernel closes the connection when the broker dies; a broker that lives on would keep an idle one for minutes.
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestTestsAgainstRealKafkaAreCounted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	t.Setenv(countEnv, file)
	count(t)
	count(t)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	line := "github.com/tidegate/tidegate/tests/realkafka TestTestsAgainstRealKafkaAreCounted\n"
	require.Equal(t, line+line, string(text))
}

func TestClusterOfOnesOwnIsUsedButNotKilled(t *testing.T) {
	t.Setenv(countEnv, "") // no broker is there
	t.Setenv(brokerEnv, "127.0.0.1:1,127.0.0.1:2")
	c := Start(t, Options{})
	require.Equal(t, []string{"127.0.0.1:1", "127.0.0.1:2"}, c.Bootstrap())
	for name, do := range map[string]func(*Cluster){
		"kill":    func(c *Cluster) { _ = c.Kill(0) },
		"restart": func(c *Cluster) { _ = c.Restart(0) },
	} {
		require.True(t, skips(t, func(t testing.TB) { do(Start(t, Options{})) }), name)
	}
	require.True(t, skips(t, func(t testing.TB) { Start(t, Options{Brokers: 3}) }), "chosen")
}

// skipRecorder is a test that notes being skipped instead of telling the runner.
type skipRecorder struct {
	testing.TB
	skipped bool
}

func (r *skipRecorder) Skip(...any)          { r.skipped = true; panic(r) }
func (r *skipRecorder) Skipf(string, ...any) { r.skipped = true; panic(r) }

func skips(t *testing.T, do func(testing.TB)) (skipped bool) {
	r := &skipRecorder{TB: t}
	defer func() {
		if cause := recover(); cause != nil && cause != any(r) {
			panic(cause)
		}
		skipped = r.skipped
	}()
	do(r)
	return r.skipped
}

func newClient(t *testing.T, c *Cluster) *kgo.Client {
	// Short timeouts: a paused broker answers nothing, and the default is to wait 20 s for it, twice.
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...),
		kgo.ProduceRequestTimeout(time.Second), kgo.RequestTimeoutOverhead(time.Second))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

package realkafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// brokerEnv names a cluster of the user's own, host:port[,host:port].
	brokerEnv = "TIDEGATE_KAFKA"
	// countEnv names a file to which every test that runs against a real Kafka adds its name.
	countEnv = "TIDEGATE_KAFKA_TESTS_LOG"
)

// Start starts a cluster for one test, which ends with it. It skips the test, or fails it where CI=true, when there is
// no Java or no way to fetch Kafka.
func Start(t testing.TB, options Options) *Cluster {
	t.Helper()
	if c := external(t, options.chosen()); c != nil {
		return c
	}
	need(t)
	c, err := StartProcess(t.Context(), options, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.t = t
	count(t)
	return c
}

// oneForAll is a cluster of all tests of this process.
type oneForAll struct {
	options Options
	once    sync.Once
	cluster *Cluster
	dir     string
	err     error
}

var shared, sharedOld = &oneForAll{}, &oneForAll{options: Options{Features: map[string]int{"transaction.version": 0}}}

// Shared returns a cluster of one broker that all tests of the process use; Main ends it. Tests take topics, groups and
// transactional ids of their own (Name makes one), and leave the broker running.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	return shared.get(t)
}

// SharedOld is Shared with transaction.version 0, the protocol before KIP-890.
func SharedOld(t testing.TB) *Cluster {
	t.Helper()
	return sharedOld.get(t)
}

// Password is that of every user of SharedSecure.
const Password = "hunter2-of-the-tests"

// sharedSecure has every listener. Who logs in at ScramOnly has to do so again after three seconds (KIP-368).
var sharedSecure = &oneForAll{options: Options{
	Secure: &Secure{
		Users:     map[string]string{"alice": Password, "bob": Password},
		Listeners: []string{SASLSSL, SASLPlaintext, SSL, TLSOnly, ScramOnly, Expired, WrongHost},
	},
	Properties: map[string]string{
		"listener.name.scramonly.scram-sha-256.connections.max.reauth.ms": "3000",
		"listener.name.scramonly.scram-sha-512.connections.max.reauth.ms": "3000",
	},
}}

// SharedSecure is Shared with every listener of Secure, and the users alice and bob.
func SharedSecure(t testing.TB) *Cluster {
	t.Helper()
	return sharedSecure.get(t)
}

func (o *oneForAll) get(t testing.TB) *Cluster {
	t.Helper()
	if c := external(t, o.options.chosen()); c != nil {
		return c
	}
	need(t)
	o.once.Do(func() {
		//nolint:usetesting // the folder outlives the test that happens to be the first
		o.dir, o.err = os.MkdirTemp("", "tidegate-kafka-")
		if o.err == nil {
			o.cluster, o.err = StartProcess(context.Background(), o.options, o.dir)
		}
	})
	if o.err != nil {
		t.Fatal(o.err)
	}
	count(t)
	return o.cluster
}

func (o *oneForAll) end() {
	if o.cluster != nil {
		o.cluster.Close()
	}
	if o.dir != "" {
		_ = os.RemoveAll(o.dir)
	}
}

// Main runs the tests of a package and then ends the clusters of Shared, SharedOld and SharedSecure. Use it as TestMain.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is Main for a TestMain that has something to clear away itself.
func Run(m *testing.M) int {
	code := m.Run()
	shared.end()
	sharedOld.end()
	sharedSecure.end()
	return code
}

// Topic creates a topic for a test and returns its name. The configs are pairs of name and value; without one for
// retention.ms nothing is deleted, however old its timestamp.
func (c *Cluster) Topic(t testing.TB, partitions int32, configs ...string) string {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...))
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	defer client.Close()
	forEver := "-1"
	all := map[string]*string{"retention.ms": &forEver}
	for i := 0; i+1 < len(configs); i += 2 {
		all[configs[i]] = &configs[i+1]
	}
	name := Name(t)
	_, err = kadm.NewClient(client).CreateTopic(t.Context(), partitions, -1, all, name)
	// The name is nobody else's. A topic that is there was made by a request that the client has sent twice, because the
	// first answer was late on a busy machine.
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Fatalf("creating topic %s: %v", name, err)
	}
	return name
}

// names counts what Name has made, so that one test can ask several times.
var names struct {
	sync.Mutex
	next int
}

// Name makes a name that Kafka takes for a topic, a group or a transactional id, and that no other test run uses.
func Name(t testing.TB) string {
	names.Lock()
	defer names.Unlock()
	names.next++
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, t.Name())
	return fmt.Sprintf("%.150s-%s-%d", clean, newClusterID()[:6], names.next)
}

// external returns the cluster of brokerEnv, if it is set, and skips a test that asks for a cluster of its own making.
func external(t testing.TB, chosen bool) *Cluster {
	t.Helper()
	addrs := os.Getenv(brokerEnv)
	if addrs == "" {
		return nil
	}
	if chosen {
		t.Skipf("the test chooses features, properties or the number of brokers, and %s=%s is not ours to choose", brokerEnv, addrs)
	}
	c := &Cluster{t: t, external: strings.Split(addrs, ","), logConfig: filepath.Join(t.TempDir(), "log4j2.properties")}
	if err := os.WriteFile(c.logConfig, log4j2, 0o644); err != nil {
		t.Fatalf("writing the log settings: %v", err)
	}
	count(t)
	return c
}

// need skips or fails the test where Java or Kafka's jars are missing.
func need(t testing.TB) {
	t.Helper()
	_, err := findJava()
	if err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI=true, so the tests against a real Kafka must run: %v", err)
	}
	t.Skipf("no real Kafka to test against: %v", err)
}

// count notes that the test runs against a real Kafka. One short write to a file opened for appending is not mixed up
// with those of other processes.
func count(t testing.TB) {
	t.Helper()
	path := os.Getenv(countEnv)
	if path == "" {
		return
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatalf("counting a test against real Kafka in %s: %v", countEnv, err)
	}
	defer func() { _ = file.Close() }()
	pkg := os.Args[0]
	if info, ok := debug.ReadBuildInfo(); ok {
		pkg = strings.TrimSuffix(info.Path, ".test")
	}
	if _, err := fmt.Fprintf(file, "%s %s\n", pkg, t.Name()); err != nil {
		t.Fatalf("counting a test against real Kafka in %s: %v", countEnv, err)
	}
}

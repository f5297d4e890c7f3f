package crash

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/tests/binary"
	"github.com/tidegate/tidegate/tests/realkafka"
)

var (
	flagN        = flag.Int("crash.n", 0, "how often the pipeline is killed; 0: a few times")
	flagSeed     = flag.Uint64("crash.seed", 0, "seed of what is random; 0: another one each time")
	flagSignal   = flag.String("crash.signal", "", "KILL or TERM; empty: first one, then the other")
	flagTV       = flag.String("crash.tv", "2", "the cluster's transaction.version, or several separated by commas; 0 is the protocol before KIP-890")
	flagScenario = flag.String("crash.scenario", "", "scenarios and troubles, separated by commas, or all: "+scenarioNames()+", "+troubleNames()+", "+strings.Join(behind, ", "))
)

func TestCrashLosesAndDoublesNothing(t *testing.T) {
	picked, err := pickScenarios(*flagScenario)
	require.NoError(t, err)
	kills := map[syscall.Signal]int{syscall.SIGKILL: 5, syscall.SIGTERM: 3}
	signals := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}
	switch *flagSignal {
	case "":
	case "KILL":
		signals = signals[:1]
	case "TERM":
		signals = signals[1:]
	default:
		t.Fatalf("-crash.signal=%s is neither KILL nor TERM", *flagSignal)
	}
	if len(picked) == 0 {
		t.Skip("the scenarios that are asked for are none of this test's")
	}
	connect := binary.Connect(t)
	eachVersion(t, func(t *testing.T, tv int) {
		cluster := clusterOf(t, tv)
		for _, s := range picked {
			for _, sig := range signals {
				n := *flagN
				if n == 0 {
					n = kills[sig]
				}
				t.Run(s.name+"/"+signalName(sig), func(t *testing.T) { crash(t, s, cluster, tv, connect, sig, n) })
			}
		}
	})
}

// eachVersion runs a test for each transaction.version that is asked for.
func eachVersion(t *testing.T, test func(t *testing.T, tv int)) {
	for word := range strings.SplitSeq(*flagTV, ",") {
		tv, err := strconv.Atoi(word)
		require.NoError(t, err, "-crash.tv=%s", *flagTV)
		t.Run("tv"+word, func(t *testing.T) { test(t, tv) })
	}
}

func optionsOf(t testing.TB, tv int) realkafka.Options {
	options, err := withSecurity(realkafka.Options{})
	require.NoError(t, err)
	if tv != 2 {
		options.Features = map[string]int{"transaction.version": tv}
	}
	return options
}

// clusterOf is a cluster of one broker that stays up.
func clusterOf(t *testing.T, tv int) *realkafka.Cluster {
	if tv == 2 && *flagSecurity == "" {
		return realkafka.Shared(t)
	}
	return realkafka.Start(t, optionsOf(t, tv))
}

// crash runs one scenario and prints its line.
func crash(t *testing.T, s scenario, cluster *realkafka.Cluster, tv int, connect string, sig syscall.Signal, n int) {
	seed := seedOf(t)
	if s.brokerToo {
		options := optionsOf(t, tv)
		options.Brokers = 1
		cluster = realkafka.Start(t, options)
	}
	tr, err := newTrial(s, namesOf(t, cluster, tv), cluster, connect, rand.New(rand.NewPCG(seed, 0)))
	require.NoError(t, err)
	defer tr.close()
	began := time.Now()
	for i := range n {
		require.NoError(t, tr.strike(sig), "%d of %d, seed %d", i+1, n, seed)
		if (i+1)%10 == 0 && i+1 < n {
			fmt.Printf("%s/%s: %d of %d, %d records seen\n", s.name, signalName(sig), i+1, n, tr.checker.distinct)
		}
	}
	v, err := tr.finish()
	tr.summarize(sig, seed, v, time.Since(began))
	require.NoError(t, err, "seed %d", seed)
	require.True(t, v.clean(s.repeats), "seed %d: %v", seed, v)
	require.Positive(t, v.in, "records were written")
}

// summarize prints the line of a scenario.
func (tr *trial) summarize(sig syscall.Signal, seed uint64, v verdict, took time.Duration) {
	brokerKills, security := "", ""
	if len(tr.names.Kafka.fields) > 0 {
		security = ", " + *flagSecurity
	}
	if tr.scenario.brokerToo {
		brokerKills = fmt.Sprintf(", broker kills %d", tr.brokerKills)
	}
	fmt.Printf("%s: seed %d, transaction.version %d, SIG%s %d times (%d while starting)%s%s, %v, longest pause %v, longest stop %v, took %v\n",
		tr.scenario.name, seed, tr.names.TransactionVersion, signalName(sig), tr.kills, tr.early, brokerKills, security, v,
		tr.longestPause.Round(time.Millisecond), tr.longestStop.Round(time.Millisecond), took.Round(time.Second))
}

func signalName(sig syscall.Signal) string {
	if sig == syscall.SIGTERM {
		return "TERM"
	}
	return "KILL"
}

func seedOf(t *testing.T) uint64 {
	seed := *flagSeed
	if seed == 0 {
		seed = rand.Uint64N(1_000_000) + 1
	}
	t.Logf("seed %d", seed)
	return seed
}

// namesOf makes the topics of a trial, and names for all else it needs of its own.
func namesOf(t *testing.T, cluster *realkafka.Cluster, tv int) names {
	return names{
		TransactionVersion: tv, Dir: t.TempDir(), Kafka: connectionTo(cluster),
		In: cluster.Topic(t, partitions), Out: cluster.Topic(t, partitions),
		Group: realkafka.Name(t), Prefix: realkafka.Name(t),
	}
}

func TestEveryScenarioIsKnownByName(t *testing.T) {
	everything, err := pickScenarios("all")
	require.NoError(t, err)
	for _, s := range everything {
		picked, err := pickScenarios("proxy,copy," + s.name)
		require.NoError(t, err)
		require.Equal(t, s.name, picked[len(picked)-1].name)
		text, err := s.config(names{Dir: "/tmp/x", Prefix: "p"})
		require.NoError(t, err)
		require.NotContains(t, string(text), "<no value>")
	}
	_, err = pickScenarios("copy,none")
	require.ErrorContains(t, err, `scenario "none" is none of copy, filter, drop`)
	picked, err := pickTroubles("copy,zombie")
	require.NoError(t, err)
	require.Len(t, picked, 1)
}

// openlyOnly skips what puts a proxy in between, which has to read the requests.
func openlyOnly(t testing.TB) {
	t.Helper()
	if *flagSecurity != "" {
		t.Skipf("a proxy stands in between, which cannot read what -crash.security=%s encrypts", *flagSecurity)
	}
}

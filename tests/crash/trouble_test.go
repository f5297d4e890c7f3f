package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/child"
	"github.com/tidegate/tidegate/tests/kafkaproxy"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// transactionTimeout is that of the pipelines under trouble, which also ends what a dead one has left open.
const transactionTimeout = 6 * time.Second

// patient is the scenario of the troubles.
var patient = scenario{
	name: "copy", store: pebbleStore, processors: asIs, perSecond: 100,
	checkpoint: everySome + "\n      timeout: 4s",
	sink:       exactlyOnce + "\n    transactions: { timeout: 6s, on_lost_transaction: replay }",
}

// lasting is the sink of pipelines whose only broker is away for longer than transactionTimeout, and whose transactions
// are to outlast that.
var lasting = exactlyOnce + "\n    transactions: { timeout: 5m, on_lost_transaction: replay }"

// maxDeaths is how often a pipeline may end by itself until one trouble is over.
const maxDeaths = 3

func TestTroublesLoseAndDoubleNothing(t *testing.T) {
	picked, err := pickTroubles(*flagScenario)
	require.NoError(t, err)
	few := *flagScenario == ""
	if few {
		picked = []string{"zombie", "reload", "streams", "stop", "disk"}
	}
	if len(picked) == 0 {
		t.Skip("the scenarios that are asked for are none of this test's")
	}
	connect := killable(t)
	eachVersion(t, func(t *testing.T, tv int) {
		seed := seedOf(t)
		for _, name := range picked {
			w := &ward{tv: tv, connect: connect, seed: seed, few: few}
			t.Run(name, map[string]func(*testing.T){
				"brokers": w.brokers, "proxy": w.proxies, "freeze": w.freeze, "zombie": w.zombie, "reload": w.reload, "streams": w.streams,
				"stop": w.stop, "disk": w.disk,
			}[name])
		}
	})
}

// ward is where the troubles of one transaction.version happen.
type ward struct {
	tv      int
	connect string
	seed    uint64
	// few is set where only a little is wanted.
	few bool
}

// times is how often something is done: what is asked for, else so often.
func (w *ward) times(usual int) int {
	if *flagN > 0 {
		return *flagN
	}
	return usual
}

// sufferer is a trial whose pipeline goes through a trouble, and is started again where it ends by itself.
type sufferer struct {
	*trial
	proxy *kafkaproxy.Proxy
	p     *child.Process
	// words are the last ones of each pipeline that has ended by itself.
	words []string
	// before is what had been found when the trouble began.
	before verdict
	lost   int64
}

// newSufferer starts a pipeline behind a proxy.
func (w *ward) newSufferer(t *testing.T, s scenario, cluster *realkafka.Cluster, stream uint64, command ...string) *sufferer {
	openlyOnly(t)
	proxy, err := kafkaproxy.New(cluster.Bootstrap())
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	n := namesOf(t, cluster, w.tv)
	n.Kafka = connection{bootstrap: strings.Join(proxy.Bootstrap(), ",")}
	tr, err := newTrial(s, n, cluster, w.connect, rand.New(rand.NewPCG(w.seed, stream)))
	require.NoError(t, err)
	t.Cleanup(tr.close)
	tr.command = command
	su := &sufferer{trial: tr, proxy: proxy}
	require.NoError(t, su.run())
	t.Cleanup(func() { su.p.Kill() })
	return su
}

// run starts the pipeline.
func (su *sufferer) run(env ...string) (err error) {
	su.p, err = su.start(env...)
	return err
}

// begin notes what has been found before a trouble.
func (su *sufferer) begin() { su.before, su.words, su.lost = su.checker.found, nil, 0 }

// heal waits until everything that was written by now has come out. A pipeline that ends with an error is started again.
func (su *sufferer) heal() error {
	written := su.producer.soFar()
	for {
		if su.lost = su.checker.missing(written); su.lost == 0 {
			break
		}
		if err := su.goOn(); err != nil {
			return fmt.Errorf("%d records are missing: %w", su.lost, err)
		}
	}
	return su.goOn() // what comes twice may come late
}

// goOn waits for something new.
func (su *sufferer) goOn() error {
	for {
		err := su.progress(su.p)
		if !errors.Is(err, errEnded) {
			if err != nil {
				return su.failed(err)
			}
			return nil
		}
		code, words := lastWords(su.p, su.log())
		su.words = append(su.words, words)
		if code != 1 || len(su.words) > maxDeaths {
			return su.brokenRun(su.p, err)
		}
		if err := su.run(); err != nil {
			return err
		}
	}
}

// line is what a trouble has come to.
func (su *sufferer) line() string {
	now := su.checker.found
	wrong := now.disordered - su.before.disordered + now.altered - su.before.altered + now.foreign - su.before.foreign
	text := fmt.Sprintf("lost %d, doubled %d", su.lost, now.doubled-su.before.doubled)
	if wrong > 0 {
		text += fmt.Sprintf(", WRONG %d", wrong)
	}
	for _, w := range su.words {
		text += "; ended with: " + w
	}
	return text
}

// dirty tells whether a trouble has left anything it should not.
func (su *sufferer) dirty() bool {
	before := su.before
	before.first = su.checker.found.first
	before.out = su.checker.found.out
	return su.lost != 0 || fmt.Sprint(before) != fmt.Sprint(su.checker.found)
}

// end stops the pipeline after everything has come out, and checks all of it.
func (su *sufferer) end(t *testing.T, what string) {
	v, err := su.finishWith(su.p)
	fmt.Printf("%s, transaction.version %d: in the end %v\n", what, su.names.TransactionVersion, v)
	require.NoError(t, err)
	require.True(t, v.clean(su.scenario.repeats), v)
	require.Positive(t, v.in)
}

// awaitWords waits until the log, from a place on, holds a text.
func awaitWords(p *child.Process, log string, from int64, text string) error {
	return awaitWordsFor(p, log, from, text, stallLimit)
}

func awaitWordsFor(p *child.Process, log string, from int64, text string, limit time.Duration) error {
	timeUp := time.After(limit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		said, err := os.ReadFile(log)
		if err == nil && int64(len(said)) > from && strings.Contains(string(said[from:]), text) {
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("%w before it said %q%s", errEnded, text, child.Tail(log, logLines))
		case <-timeUp:
			return fmt.Errorf("it never said %q%s", text, child.Tail(log, logLines))
		case <-tick.C:
		}
	}
}

package crash

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/child"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// stopGrace is what a stop may take beyond the shutdown_timeout, on a busy machine.
const stopGrace = 5 * time.Second

// unfinished are what a pipeline says that ends before its last checkpoint is committed.
var unfinished = regexp.MustCompile(`the next start goes on from|last checkpoint declined`)

// hardship is how a pipeline is stopped.
type hardship struct {
	name     string
	scenario scenario
	// meet lets the trouble begin, and send sends the signal; nil: SIGTERM.
	meet func(*hardBench) error
	send func(*hardBench)
	few  bool
}

// hardBench is a pipeline that is stopped at bad moments.
type hardBench struct {
	*sufferer
	// over ends the trouble, after the stop.
	over func() error
}

// impatient is a pipeline whose stop is forced soon.
func impatient(shutdown, processors string) scenario {
	s := patient
	s.shutdown = shutdown
	s.processors = processors
	return s
}

const (
	// stopAfter is the shutdown_timeout where the test does not say another one.
	stopAfter = "8s"
	// slow takes so long for a message that no batch ends before a stop does.
	slow = `
    - sleep: { duration: 1s }` + asIs
)

func hardships() []hardship {
	usual := impatient(stopAfter, asIs)
	failing := usual
	failing.stumbles = true
	return []hardship{
		{name: "broker frozen", scenario: usual, meet: (*hardBench).freezeBroker},
		{name: "broker killed", scenario: usual, meet: (*hardBench).killBroker},
		{name: "network severed", scenario: usual, meet: (*hardBench).sever},
		{name: "while recovering", scenario: usual, meet: (*hardBench).recover, few: true},
		{name: "while recovering, broker frozen", scenario: usual, meet: (*hardBench).recoverFrozen},
		{name: "twice by SIGINT", scenario: usual, meet: (*hardBench).run1, send: (*hardBench).interruptTwice},
		{name: "twice by SIGINT, broker frozen", scenario: usual, meet: (*hardBench).freezeBroker, send: (*hardBench).interruptTwice},
		{name: "shutdown_timeout 1s, slow processor", scenario: impatient("1s", slow), meet: (*hardBench).emit, few: true},
		{name: "shutdown_timeout 4s, slow processor", scenario: impatient("4s", slow), meet: (*hardBench).emit},
		{name: "during a failover", scenario: failing, meet: (*hardBench).failOver},
	}
}

// stop ends pipelines in every kind of trouble, and looks at how they end and at what the next ones make of it.
func (w *ward) stop(t *testing.T) {
	cluster := clusterOf(t, w.tv)
	if !w.few {
		options := optionsOf(t, w.tv)
		options.Brokers = 1
		cluster = realkafka.Start(t, options) // which is frozen and killed
	}
	for i, h := range hardships() {
		n := w.times(10)
		if w.few {
			n = 1
		}
		if w.few && !h.few {
			continue // long, or too hard for a cluster that others use: make test-crash SCENARIO=stop
		}
		t.Run(h.name, func(t *testing.T) {
			b := &hardBench{sufferer: w.newSufferer(t, h.scenario, cluster, uint64(i))}
			t.Cleanup(func() {
				if b.over != nil {
					_ = b.over()
				}
			})
			usual := impatient(stopAfter, asIs)
			usual.sink, usual.refusing = h.scenario.sink, h.scenario.stumbles // the same sink at the same place
			for range n {
				require.NoError(t, b.moved(h.scenario, b.names.Dir))
				require.NoError(t, w.stopInTrouble(b, h, usual))
			}
			b.end(t, "stop: "+h.name)
		})
	}
}

// stopInTrouble stops a pipeline in trouble, ends the trouble, and lets the next pipeline do what was left.
func (w *ward) stopInTrouble(b *hardBench, h hardship, usual scenario) error {
	b.begin()
	b.over = func() error { return nil }
	b.p.Kill()
	if err := h.meet(b); err != nil {
		return err
	}
	took, err := b.stopNow(h)
	if err := errors.Join(err, b.over()); err != nil {
		return err
	}
	what, err := b.leaves()
	if err != nil {
		return err
	}
	if err := b.moved(usual, b.names.Dir); err != nil {
		return err
	}
	if err = b.run(); err == nil {
		err = b.heal()
	}
	fmt.Printf("stop: %s, transaction.version %d: %s; ended after %v %s\n", h.name, w.tv, b.line(), took.Round(100*time.Millisecond), what)
	if err == nil && b.dirty() {
		err = b.failed(fmt.Errorf("%s, first %v", b.line(), b.checker.found.first))
	}
	return err
}

// stopNow sends the signal and waits for the end.
func (b *hardBench) stopNow(h hardship) (time.Duration, error) {
	limit, err := time.ParseDuration(h.scenario.shutdown)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if h.send != nil {
		h.send(b)
	} else {
		b.p.Signal(syscall.SIGTERM)
	}
	select {
	case <-b.p.Done():
	case <-time.After(limit + 2*stopGrace):
		b.p.Kill()
		return 0, b.failed(fmt.Errorf("%s: it goes on %v after it was to stop", h.name, time.Since(began)))
	}
	took := time.Since(began)
	if took > limit+stopGrace {
		err = b.failed(fmt.Errorf("%s: the stop took %v, and shutdown_timeout is %v", h.name, took, limit))
	}
	return took, err
}

// leaves checks what a pipeline that has ended says, and that it leaves nothing behind if that is what it says.
func (b *hardBench) leaves() (string, error) {
	code, words := lastWords(b.p, b.log())
	text, err := os.ReadFile(b.log())
	if err != nil {
		return "", err
	}
	said := string(text[b.logBefore:])
	forced := strings.Contains(said, "Exiting forcefully")
	switch {
	case code == 0 && !strings.Contains(said, "restoring from a checkpoint") && !strings.Contains(said, "sources and sinks are running"):
		return "with 0: nothing was begun", nil
	case code == 0:
		if err := b.checkStopped(); err != nil {
			return "", b.failed(fmt.Errorf("exit code 0: %w", err))
		}
		return "with 0: everything is committed", nil
	case code == 1 && forced:
		return "with 1, forced by Benthos", nil
	case code == 1 && unfinished.MatchString(said):
		return "with 1: " + words, nil
	}
	return "", b.failed(fmt.Errorf("exit code %d, and no word of where the next start goes on: %s", code, child.Tail(b.log(), logLines)))
}

// run1 starts the pipeline and lets it write for a while.
func (b *hardBench) run1() error {
	if err := b.run(); err != nil {
		return err
	}
	// What the one before has committed may come out only now, when this one does not listen for signals yet.
	if err := awaitWords(b.p, b.log(), b.logBefore, "sources and sinks are running"); err != nil {
		return err
	}
	if err := b.goOn(); err != nil {
		return err
	}
	_, err := b.follows(300 * time.Millisecond)
	return err
}

func (b *hardBench) freezeBroker() error {
	if err := b.run1(); err != nil {
		return err
	}
	b.over = func() error { return b.cluster.Continue(0) }
	if err := b.cluster.Pause(0); err != nil {
		return err
	}
	_, err := b.follows(time.Second)
	return err
}

func (b *hardBench) killBroker() error {
	if err := b.run1(); err != nil {
		return err
	}
	b.over = func() error { return b.cluster.Restart(0) }
	if err := b.cluster.Kill(0); err != nil {
		return err
	}
	_, err := b.follows(time.Second)
	return err
}

func (b *hardBench) sever() error {
	if err := b.run1(); err != nil {
		return err
	}
	b.over = func() error { b.proxy.Sever(false); return nil }
	b.proxy.Sever(true)
	_, err := b.follows(time.Second)
	return err
}

// recover starts the pipeline after a kill, which has left a transaction as a rule, and comes while it recovers.
func (b *hardBench) recover() error {
	if err := b.run1(); err != nil {
		return err
	}
	b.p.Kill()
	if err := b.run(); err != nil {
		return err
	}
	if err := b.awaitHandler(b.p); err != nil {
		return err
	}
	_, err := b.follows(700 * time.Millisecond)
	return err
}

func (b *hardBench) recoverFrozen() error {
	if err := b.run1(); err != nil {
		return err
	}
	b.p.Kill()
	b.over = func() error { return b.cluster.Continue(0) }
	if err := b.run(); err != nil {
		return err
	}
	if err := b.awaitHandler(b.p); err != nil {
		return err
	}
	if _, err := b.follows(700 * time.Millisecond); err != nil {
		return err
	}
	if err := b.cluster.Pause(0); err != nil {
		return err
	}
	_, err := b.follows(time.Second)
	return err
}

// emit starts a pipeline whose processor holds what the source has emitted.
func (b *hardBench) emit() error {
	if err := b.run(); err != nil {
		return err
	}
	if err := awaitWords(b.p, b.log(), b.logBefore, "sources and sinks are running"); err != nil {
		return err
	}
	_, err := b.follows(time.Second)
	return err
}

// failOver waits until a message was refused.
func (b *hardBench) failOver() error {
	if err := b.run(); err != nil {
		return err
	}
	if err := awaitWords(b.p, b.log(), b.logBefore, "restarting from the last checkpoint"); err != nil {
		return err
	}
	_, err := b.follows(2 * time.Second)
	return err
}

func (b *hardBench) interruptTwice() {
	b.p.Signal(syscall.SIGINT)
	select {
	case <-time.After(time.Duration(b.rng.Int64N(int64(50 * time.Millisecond)))):
	case <-b.p.Done():
	}
	b.p.Signal(syscall.SIGINT)
}

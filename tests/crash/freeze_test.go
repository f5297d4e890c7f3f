package crash

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/child"
)

// frozen is what a test build says when it is about to stop itself.
const frozen = "killpoint: "

// freeze stops the pipeline with SIGSTOP until the broker has aborted its transactions, and lets it go on: at random
// moments, and at every action of the coordinator.
func (w *ward) freeze(t *testing.T) {
	cluster := clusterOf(t, w.tv)
	b := &stepBench{t: t, cluster: cluster, tv: w.tv, connect: w.connect, seed: w.seed, rng: rand.New(rand.NewPCG(w.seed, 0)), table: newTable()}
	points := []point{{}}
	for range w.times(10) - 1 {
		points = append(points, point{}) // a random moment
	}
	for _, p := range b.explore(stepsOfCopy) {
		if strings.Contains(p.name, "/action/") && !p.stop {
			points = append(points, p)
		}
	}
	queue := make(chan point, len(points))
	for _, p := range points {
		queue <- p
	}
	close(queue)
	var wg sync.WaitGroup
	for i := range 6 {
		su := w.newSufferer(t, patient, cluster, uint64(i))
		wg.Go(func() {
			for p := range queue {
				if err := w.freezeAt(su, p); err != nil {
					t.Errorf("freeze: %s: %v", p.name, err)
					return
				}
			}
			su.end(t, "freeze: all of one pipeline")
		})
	}
	wg.Wait()
}

func (w *ward) freezeAt(su *sufferer, p point) error {
	su.begin()
	what, err := w.freezeNow(su, p)
	if err != nil || what == "" {
		return err
	}
	// The longest a transaction can live behind its last sign of life, where the broker knows of none.
	<-time.After(transactionTimeout)
	if err := su.awaitAborts(); err != nil {
		return err
	}
	su.p.Signal(syscall.SIGCONT)
	err = su.heal()
	fmt.Printf("freeze: %s, transaction.version %d: %s\n", what, w.tv, su.line())
	if err == nil && su.dirty() {
		err = fmt.Errorf("%s, first %v", su.line(), su.checker.found.first)
	}
	return err
}

// freezeNow freezes the pipeline and says where; nothing where the step did not come.
func (w *ward) freezeNow(su *sufferer, p point) (string, error) {
	if p.at == "" {
		if err := su.goOn(); err != nil {
			return "", err
		}
		after := time.Duration(su.rng.Int64N(int64(300 * time.Millisecond)))
		if err := su.followFor(su.p, after); err != nil {
			return "", err
		}
		su.p.Signal(syscall.SIGSTOP)
		return fmt.Sprintf("%v after a new record", after.Round(time.Millisecond)), nil
	}
	su.p.Kill()
	came, err := su.stoppedAt(p.at, su.rng.IntN(3)+1)
	if err == nil && !came {
		su.p.Kill()
		came, err = su.stoppedAt(p.at, 1)
	}
	if err != nil || !came {
		fmt.Printf("freeze: %s, transaction.version %d: did not come\n", p.name, w.tv)
		if err == nil { // not with this one, which would stop at the step when it is to end
			su.p.Kill()
			err = su.run()
		}
		return "", err
	}
	return p.name, nil
}

// stoppedAt starts the pipeline and waits until it has stopped itself at a step, or until it is clear that it will not.
func (su *sufferer) stoppedAt(at string, nth int) (bool, error) {
	if err := su.run(fmt.Sprintf("TIDEGATE_KILL_AT=%s#%d", at, nth), "TIDEGATE_KILL_WITH=STOP"); err != nil {
		return false, err
	}
	return waitsFor(su.p, su.log(), su.logBefore, frozen)
}

// waitsFor is awaitWords for a text that may not come.
func waitsFor(p *child.Process, log string, from int64, text string) (bool, error) {
	err := awaitWordsFor(p, log, from, text, 10*stepWait)
	if err != nil && p.Ended() {
		return false, err
	}
	return err == nil, nil
}

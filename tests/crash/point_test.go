package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/child"
	"github.com/tidegate/tidegate/tests/kafkaproxy"
)

// stepWait is how long a run waits for its step before it is stopped by SIGTERM, which has steps of its own.
const stepWait = 1500 * time.Millisecond

const (
	// beforeCommit is the step between a durable record and the commit of its transactions.
	beforeCommit = "running/action/Commit"
	// closing is the step at which the pipeline hears that it is to stop.
	closing = "running/event/Closing"
)

// point is a moment at which the pipeline is killed: at a step of its own, or while a request of its is under way.
type point struct {
	name string
	// at is what TIDEGATE_KILL_AT is set to, without the count; stop is set where that comes only after SIGTERM.
	at   string
	stop bool
	// hold is the frame that never arrives; settled asks that the process before has left something to commit.
	hold    *kafkaproxy.Rule
	settled bool
}

func stepPoint(step string) point { return point{name: step, at: step} }

func stopPoint(step string) point {
	return point{name: "stopping: " + step, at: closing + ">" + step, stop: true}
}

// sentPoints are the moments after a request was sent and before its answer has come: before the broker has got it, and
// after.
func sentPoints(tv int) []point {
	var points []point
	for _, key := range []kmsg.Key{kmsg.EndTxn, kmsg.InitProducerID, kmsg.Produce, kmsg.AddPartitionsToTxn, kmsg.OffsetCommit} {
		if key == kmsg.AddPartitionsToTxn && tv >= 2 {
			continue // the broker adds them by itself
		}
		for side, when := range map[kafkaproxy.Side]string{kafkaproxy.Request: "on its way", kafkaproxy.Answer: "done, not answered"} {
			rule := &kafkaproxy.Rule{Key: key, Side: side, Effect: kafkaproxy.Drop, Times: 1}
			points = append(points, point{name: fmt.Sprintf("sent: %s %s", key.Name(), when), hold: rule})
			if key == kmsg.EndTxn {
				points = append(points, point{name: fmt.Sprintf("sent: %s of a recovery %s", key.Name(), when), hold: rule, settled: true})
			}
		}
	}
	return points
}

// steps kills a pipeline of a test build at one point after the other.
type steps struct {
	*trial
	proxy *kafkaproxy.Proxy
}

func newSteps(b *stepBench, s scenario, rng *rand.Rand) (*steps, error) {
	openlyOnly(b.t)
	proxy, err := kafkaproxy.New(b.cluster.Bootstrap())
	if err != nil {
		return nil, err
	}
	n := namesOf(b.t, b.cluster, b.tv)
	n.Kafka = connection{bootstrap: strings.Join(proxy.Bootstrap(), ",")}
	tr, err := newTrial(s, n, b.cluster, b.connect, rng)
	if err != nil {
		proxy.Close()
		return nil, err
	}
	return &steps{trial: tr, proxy: proxy}, nil
}

func (st *steps) close() {
	st.trial.close()
	st.proxy.Close()
}

// try kills the pipeline at a point, lets it suffer the outcome and tells what has become of the records.
func (st *steps) try(o outcome, p point, others []point) (c cell) {
	before := st.checker.found
	defer func() {
		now := st.checker.found
		c.doubled = now.doubled - before.doubled
		c.wrong = now.disordered - before.disordered + now.altered - before.altered + now.foreign - before.foreign
	}()
	if c.hit, c.err = st.killSomehow(p); c.err != nil || !c.hit {
		return c
	}
	switch o {
	case twice:
		c.second, c.err = st.killAgain(others)
	case down:
		c.err = st.awaitAborts()
	}
	if c.err == nil {
		c.lost, c.err = st.heal()
	}
	return c
}

// killSomehow kills the pipeline at a point. Most come again and again, some once in a process, and some only where the
// process before has left a checkpoint that is recorded and not committed.
func (st *steps) killSomehow(p point) (hit bool, err error) {
	if !p.settled {
		if hit, err = st.killAt(p, st.rng.IntN(3)); hit || err != nil {
			return hit, err
		}
		if hit, err = st.killAt(p, 0); hit || err != nil {
			return hit, err
		}
	}
	if _, err = st.killAt(stepPoint(beforeCommit), 0); err != nil {
		return false, err
	}
	return st.killAt(p, 0)
}

// killAgain kills the pipeline, which was just killed, at another point.
func (st *steps) killAgain(others []point) (string, error) {
	for range 5 {
		p := others[st.rng.IntN(len(others))]
		if hit, err := st.killAt(p, 0); hit || err != nil {
			return p.name, err
		}
	}
	return "", nil
}

// killAt runs the pipeline until it dies at a point, which has come so many times before, and tells whether it has.
func (st *steps) killAt(p point, after int) (hit bool, err error) {
	env := []string{}
	if p.hold != nil {
		rule := *p.hold
		rule.After = after
		st.proxy.Set(rule)
		defer st.proxy.Clear()
	} else {
		env = append(env, fmt.Sprintf("TIDEGATE_KILL_AT=%s#%d", p.at, after+1))
	}
	proc, err := st.start(env...)
	if err != nil {
		return false, err
	}
	defer proc.Kill()
	st.kills++
	// What comes out may be of the process before. SIGTERM needs one that runs, or at least one that has a handler.
	switch {
	case p.stop:
		if err = awaitWords(proc, st.log(), st.logBefore, "sources and sinks are running"); err == nil {
			err = st.progress(proc)
		}
	default:
		if err = st.awaitHandler(proc); err != nil {
			break
		}
		err = st.await(proc, stepWait, p.hold != nil)
	}
	if err == nil && st.held(p) {
		proc.Kill()
		return true, nil
	}
	if err == nil {
		proc.Signal(syscall.SIGTERM)
		err = st.await(proc, exitLimit, p.hold != nil)
	}
	switch {
	case err == nil && st.held(p):
		proc.Kill()
		return true, nil
	case err == nil:
		return false, st.failed(fmt.Errorf("the pipeline goes on %v after SIGTERM", exitLimit))
	case !errors.Is(err, errEnded):
		return false, st.failed(err)
	case killedBy(proc.Err()) == syscall.SIGKILL:
		return true, nil
	case proc.Err() != nil:
		// So it is to end where SIGTERM comes between two attempts, in a recovery, or before an acknowledgement is back.
		_, words := lastWords(proc, st.log())
		for _, allowed := range []string{"stopped while restarting", unrecovered, "stopped without a last checkpoint"} {
			if strings.Contains(words, allowed) {
				return false, nil
			}
		}
		return false, st.brokenRun(proc, err)
	}
	return false, nil
}

func (st *steps) held(p point) bool { return p.hold != nil && st.proxy.Hits() > 0 }

// await waits until the pipeline has ended, a frame is held, or the time is up; only the first is an error.
func (st *steps) await(p *child.Process, limit time.Duration, holding bool) error {
	timeUp := time.After(limit)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.Done():
			return errEnded
		case <-timeUp:
			return nil
		case <-tick.C:
			if holding && st.proxy.Hits() > 0 {
				return nil
			}
		}
	}
}

// heal starts the pipeline, waits until everything that was written by now has come out, and kills it. It tells how
// many records have not.
func (st *steps) heal() (lost int64, err error) {
	written := st.producer.soFar()
	p, err := st.start()
	if err != nil {
		return 0, err
	}
	defer p.Kill()
	for lost = st.checker.missing(written); lost > 0; lost = st.checker.missing(written) {
		if err := st.progress(p); err != nil {
			return lost, st.brokenRun(p, fmt.Errorf("%d records are missing: %w", lost, err))
		}
	}
	// What comes twice may come late.
	return 0, st.progress(p)
}

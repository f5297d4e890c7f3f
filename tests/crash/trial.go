package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/child"
	"github.com/tidegate/tidegate/internal/devbroker"
	"github.com/tidegate/tidegate/tests/realkafka"
)

const (
	// stallLimit is how long nothing new may come out of a pipeline that runs.
	stallLimit = time.Minute
	// exitLimit is how long a pipeline may take to stop by SIGTERM.
	// It takes less than a second; one that Benthos has to force takes more than 20.
	exitLimit = 15 * time.Second
	logLines  = 40
)

var (
	errEnded  = errors.New("the pipeline has ended")
	errTimeUp = errors.New("the time is up")
)

// trial is one scenario under way: its pipeline, what is written into it and what has come out.
type trial struct {
	scenario scenario
	names    names
	cluster  *realkafka.Cluster
	binary   string
	// command is what the binary is told, beside the config; nil: run.
	command []string
	// env is what its environment has beside this process's.
	env []string
	rng *rand.Rand

	producer *producer
	observer *devbroker.Observer
	checker  *checker
	callee   *callee // nil: nobody is called
	// shaken is set where something else breaks brokers meanwhile.
	shaken bool
	stall  time.Duration // stallLimit, but for tests of the trial itself

	kills, early, brokerKills int
	// endedWhole and endedEarly count pipelines that have ended by themselves, with and without their last checkpoint.
	endedWhole, endedEarly int
	lastNew                time.Time
	// logBefore is how long the log was when the pipeline was started.
	logBefore int64
	// longestPause is the longest time in which nothing new came out, longestStop that from SIGTERM to the end.
	longestPause, longestStop time.Duration
}

// newTrial writes the scenario's config, and starts to write to its input and to look at its output.
func newTrial(s scenario, n names, cluster *realkafka.Cluster, binary string, rng *rand.Rand) (*trial, error) {
	tr := &trial{scenario: s, names: n, cluster: cluster, binary: binary, rng: rng, stall: stallLimit}
	text, err := s.config(n)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(tr.conf(), text, 0o644); err != nil {
		return nil, fmt.Errorf("writing the config: %w", err)
	}
	if tr.producer, err = newProducer(cluster.Bootstrap(), s.inTopics(n), s.each()); err != nil {
		return nil, err
	}
	if s.grows > 0 {
		tr.producer.open.Store(partitions)
	}
	tr.producer.start(s.rate(), s.recordOf)
	if err := tr.look(); err != nil {
		tr.close()
		return nil, err
	}
	return tr, nil
}

// look begins to look at the output.
func (tr *trial) look() (err error) {
	topics := tr.scenario.outTopics(tr.names)
	tr.observer, err = devbroker.Observe(tr.cluster.Bootstrap(), topics[0], topics[1:]...)
	tr.checker = tr.scenario.newChecker(tr.names, tr.producer.record)
	return err
}

// close stops reading and writing.
func (tr *trial) close() {
	tr.producer.stop()
	<-tr.producer.ended
	tr.producer.client.Close()
	if tr.observer != nil {
		tr.observer.Close()
	}
}

func (tr *trial) conf() string { return filepath.Join(tr.names.Dir, "job.yaml") }
func (tr *trial) log() string  { return filepath.Join(tr.names.Dir, "job.log") }

// start starts the pipeline.
func (tr *trial) start(env ...string) (*child.Process, error) {
	tr.logBefore = fileSize(tr.log())
	command := tr.command
	if command == nil {
		command = []string{"run"}
	}
	cmd := exec.Command(tr.binary, slices.Concat(command, []string{tr.conf()})...)
	cmd.Env = slices.Concat(os.Environ(), tr.env, env)
	return child.Start(cmd, tr.log())
}

// failed adds the end of the pipeline's log to an error.
func (tr *trial) failed(err error) error {
	return fmt.Errorf("%w%s", err, child.Tail(tr.log(), logLines))
}

// see takes a record of the output.
func (tr *trial) see(r *kgo.Record) {
	before := tr.checker.distinct
	tr.checker.see(r)
	if tr.checker.distinct > before {
		now := time.Now()
		if !tr.lastNew.IsZero() {
			tr.longestPause = max(tr.longestPause, now.Sub(tr.lastNew))
		}
		tr.lastNew = now
	}
}

// follow reads the output until done says so, the pipeline ends (errEnded) or the time is up (errTimeUp).
func (tr *trial) follow(p *child.Process, limit time.Duration, done func() bool) error {
	return tr.followWith(p, limit, done, tr.see)
}

// followWith is follow for one who wants to see each record.
func (tr *trial) followWith(p *child.Process, limit time.Duration, done func() bool, see func(*kgo.Record)) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-p.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	defer func() {
		cancel()
		<-watching
	}()
	for !done() {
		err := tr.observer.Poll(ctx, see)
		switch {
		case p.Ended():
			return errEnded
		case ctx.Err() != nil:
			return errTimeUp
		case err != nil:
			return err
		}
	}
	return nil
}

// followFor reads the output for a while.
func (tr *trial) followFor(p *child.Process, d time.Duration) error {
	err := tr.follow(p, d, func() bool { return false })
	if errors.Is(err, errTimeUp) {
		return nil
	}
	return err
}

// strike starts the pipeline and ends it by the signal at a random moment: while it starts up and recovers, or after
// its first new record has come out.
func (tr *trial) strike(sig syscall.Signal) error {
	p, err := tr.start()
	if err != nil {
		return err
	}
	defer p.Kill()
	tr.kills++
	if tr.rng.IntN(3) == 0 {
		tr.early++
		if sig == syscall.SIGTERM {
			err = tr.awaitHandler(p)
		}
		if err != nil {
			return tr.brokenRun(p, err)
		}
		err = tr.followFor(p, time.Duration(tr.rng.Int64N(int64(time.Second))))
	} else {
		err = tr.progress(p)
		if err == nil && tr.scenario.brokerToo && tr.rng.IntN(3) == 0 {
			err = tr.killBroker()
		}
		if err == nil {
			err = tr.followFor(p, time.Duration(tr.rng.Int64N(int64(500*time.Millisecond))))
		}
	}
	switch {
	case tr.endedWell(p):
		return tr.endedItself(p)
	case err != nil:
		return tr.brokenRun(p, err)
	case sig == syscall.SIGKILL:
		p.Kill()
		if killedBy(p.Err()) != syscall.SIGKILL {
			return tr.brokenRun(p, errEnded)
		}
		return nil
	}
	return tr.stop(p)
}

// progress waits until something new has come out.
func (tr *trial) progress(p *child.Process) error {
	before := tr.checker.distinct
	err := tr.follow(p, tr.stall, func() bool { return tr.checker.distinct > before })
	if errors.Is(err, errTimeUp) {
		return fmt.Errorf("nothing new has come out for %s", tr.stall)
	}
	return err
}

// brokenRun describes the end of a run that should have gone on.
func (tr *trial) brokenRun(p *child.Process, err error) error {
	if p.Ended() {
		err = fmt.Errorf("%w by itself, without error: it should have gone on", err)
		if how := p.Err(); how != nil {
			err = fmt.Errorf("%w by itself: %w", errEnded, how)
		}
	}
	return tr.failed(err)
}

// awaitHandler waits until the pipeline has said its first word: before that it has no handler for signals yet, and dies
// like any other process.
func (tr *trial) awaitHandler(p *child.Process) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for fileSize(tr.log()) == tr.logBefore {
		select {
		case <-p.Done():
			return errEnded
		case <-tick.C:
		}
	}
	return nil
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// killBroker kills the broker and starts it again.
func (tr *trial) killBroker() error {
	tr.brokerKills++
	if err := tr.cluster.Kill(0); err != nil {
		return err
	}
	return tr.cluster.Restart(0)
}

// stop ends the pipeline by SIGTERM and checks what it leaves.
func (tr *trial) stop(p *child.Process) error {
	// What the process before has committed may come out only now, so there may be progress before the first word.
	if err := tr.awaitHandler(p); err != nil {
		return tr.brokenRun(p, err)
	}
	began := time.Now()
	p.Signal(syscall.SIGTERM)
	if err := tr.followFor(p, exitLimit); !errors.Is(err, errEnded) {
		return tr.failed(fmt.Errorf("the pipeline goes on %s after SIGTERM", exitLimit))
	}
	tr.longestStop = max(tr.longestStop, time.Since(began))
	if tr.stumbledAtTheEnd(p) {
		return nil
	}
	if err := p.Err(); err != nil {
		return tr.failed(fmt.Errorf("a graceful stop: %w", err))
	}
	if err := tr.checkStopped(); err != nil {
		return tr.failed(fmt.Errorf("after a graceful stop: %w", err))
	}
	return nil
}

// finish starts the pipeline, lets it copy everything that was written, stops it and returns the verdict.
func (tr *trial) finish() (verdict, error) {
	p, err := tr.start()
	if err != nil {
		return verdict{}, err
	}
	defer p.Kill()
	return tr.finishWith(p)
}

// finishWith is finish with a pipeline that runs.
func (tr *trial) finishWith(p *child.Process) (verdict, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stallLimit)
	defer cancel()
	written, err := tr.producer.end(ctx)
	if err != nil {
		return verdict{}, err
	}
	due := tr.scenario.due(written)
	expected := tr.checker.expected(due)
	for through := false; !through; {
		if through, err = tr.through(p, written, expected); err == nil {
			continue
		}
		if !tr.endedWell(p) {
			return tr.checker.result(due), tr.brokenRun(p, fmt.Errorf("after %d of %d records: %w", tr.checker.distinct, expected, err))
		}
		if err := tr.endedItself(p); err != nil {
			return tr.checker.result(due), err
		}
		if p, err = tr.start(); err != nil {
			return verdict{}, err
		}
		defer p.Kill()
	}
	if tr.callee != nil {
		tr.callee.calm.Store(true)
	}
	if err := tr.stop(p); err != nil {
		return tr.checker.result(due), err
	}
	text, err := os.ReadFile(tr.log())
	if err != nil {
		return verdict{}, fmt.Errorf("reading the pipeline's log: %w", err)
	}
	if strings.Contains(string(text), "WARNING: DATA RACE") {
		err = fmt.Errorf("the race detector has found something, see %s", tr.log())
	}
	return tr.checker.result(due), err
}

// through follows the pipeline by a step, and tells whether everything is through it.
func (tr *trial) through(p *child.Process, written []int64, expected int64) (bool, error) {
	if tr.checker.distinct >= expected {
		return true, nil
	}
	if !tr.scenario.lossy {
		return false, tr.progress(p)
	}
	// What is lost never comes, but the consumer group passes it.
	ctx, cancel := context.WithTimeout(context.Background(), stallLimit)
	defer cancel()
	offsets, err := tr.committed(ctx)
	if err != nil || slices.Equal(offsets, written) {
		return err == nil, err
	}
	return false, tr.followFor(p, 200*time.Millisecond)
}

package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/child"
)

// perJob is how many records a job with an end has to copy from each partition, and killsPerJob how often it is
// killed at most before it may come to its end.
const (
	perJob      = 300
	killsPerJob = 3
)

// tryBounded runs jobs of a shape whose input has an end, kills them at random, near the end above all, and checks what
// they leave when they end: that has to be everything.
func (b *shapeBench) tryBounded(t *testing.T, s scenario, row *shapeRow) error {
	n := b.namesOf(t, s)
	p, err := writeAll(b.cluster.Bootstrap(), s.inTopics(n), partitions, perJob)
	if err != nil {
		return err
	}
	called := s.calls(&n)
	defer called.close()
	var usual time.Duration
	rng := rand.New(rand.NewPCG(b.seed, row.order))
	for jobs := 0; jobs == 0 || row.kills < b.kills; jobs++ {
		if jobs > 10+3*b.kills {
			return fmt.Errorf("%d jobs could be killed only %d times", jobs, row.kills)
		}
		own := b.namesOf(t, s)
		own.In, own.In2, own.Callee, own.Last = n.In, n.In2, n.Callee, perJob-1
		tr := &trial{scenario: s, names: own, cluster: b.cluster, binary: b.connect, rng: rng, stall: stallLimit, producer: p}
		kills := min(killsPerJob, b.kills-row.kills)
		if jobs == 0 {
			kills = 0
		}
		v, took, err := tr.endure(kills, usual, p.written)
		switch {
		case jobs == 0:
			usual = took // the first one shows it
		case tr.kills == 0:
			usual = max(usual*3/4, 100*time.Millisecond) // too late for any kill
		}
		row.kills += tr.kills
		row.verdict.add(v)
		if err != nil {
			return fmt.Errorf("job %d: %w", jobs+1, err)
		}
		row.sides = []string{fmt.Sprintf("%d jobs", jobs+1)}
	}
	return nil
}

// endure runs a job to its end, through so many kills, and then once more, which is to change nothing. It tells how long
// the job took.
func (tr *trial) endure(kills int, usual time.Duration, written []int64) (v verdict, took time.Duration, err error) {
	if err := tr.rewrite(); err != nil {
		return v, 0, err
	}
	if err := tr.look(); err != nil {
		return v, 0, err
	}
	defer tr.observer.Close()
	due, began := tr.scenario.due(written), time.Now()
	for ended := false; !ended; {
		if ended, err = tr.runOrKill(tr.kills < kills, usual, tr.checker.expected(due)); err != nil {
			return tr.checker.result(due), 0, err
		}
	}
	took = time.Since(began)
	if err := tr.checkStopped(); err != nil {
		return tr.checker.result(due), took, tr.failed(fmt.Errorf("after the end of the job: %w", err))
	}
	v = tr.checker.result(due)
	if !tr.scenario.kept(v) {
		return v, took, tr.failed(fmt.Errorf("the job has ended, exit code 0: promised %s, and came: %v", tr.scenario.promise(), v))
	}
	if err := tr.onceMore(due, v); err != nil {
		return v, took, tr.failed(fmt.Errorf("starting the job once more after its end: %w", err))
	}
	return v, took, nil
}

// onceMore starts a job that has ended.
func (tr *trial) onceMore(due []int64, before verdict) error {
	if _, err := tr.runOrKill(false, 0, 0); err != nil {
		return err
	}
	if err := tr.checkStopped(); err != nil {
		return err
	}
	if after := tr.checker.result(due); after.out != before.out {
		return fmt.Errorf("%d records came out again", after.out-before.out)
	}
	return nil
}

// runOrKill runs the job to its end, or kills it: at any moment, or when nearly everything has come out.
func (tr *trial) runOrKill(kill bool, usual time.Duration, expected int64) (ended bool, err error) {
	p, err := tr.start()
	if err != nil {
		return false, err
	}
	defer p.Kill()
	if kill {
		err = tr.awaitMoment(p, usual, expected)
		if err == nil && !p.Ended() {
			p.Kill()
			tr.kills++
			return false, nil
		}
	} else {
		err = tr.follow(p, tr.stall, func() bool { return false })
	}
	if err != nil && !errors.Is(err, errEnded) {
		return false, tr.failed(fmt.Errorf("the job does not end: %w", err))
	}
	if how := p.Err(); how != nil {
		return false, tr.failed(fmt.Errorf("the job has ended by: %w", how))
	}
	return true, nil
}

// awaitMoment waits for a random moment.
func (tr *trial) awaitMoment(p *child.Process, usual time.Duration, expected int64) error {
	if tr.rng.IntN(3) > 0 {
		return tr.followFor(p, time.Duration(tr.rng.Int64N(int64(usual))))
	}
	near := expected - tr.rng.Int64N(expected/5+1)
	if err := tr.follow(p, tr.stall, func() bool { return tr.checker.distinct >= near }); err != nil {
		return err
	}
	return tr.followFor(p, time.Duration(tr.rng.Int64N(int64(100*time.Millisecond))))
}

// add adds up what has become of the records of several jobs.
func (v *verdict) add(o verdict) {
	v.in, v.out = v.in+o.in, v.out+o.out
	v.lost, v.doubled, v.disordered = v.lost+o.lost, v.doubled+o.doubled, v.disordered+o.disordered
	v.altered, v.foreign = v.altered+o.altered, v.foreign+o.foreign
	v.first = append(v.first, o.first...)
}

package parity

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidegate/tidegate/tests/streams"
	"github.com/tidegate/tidegate/tests/topics"
)

// engine runs jobs.
type engine interface {
	name() string
	// start starts the job of a trial, from what an earlier one saved, if anything.
	start(tr *trial, saved string) job
	// patience is how long it may take to do what is awaited, settle how long nothing has to happen to count as nothing.
	patience() time.Duration
	settle() time.Duration
}

// job is a job that was started.
type job interface {
	// rows are those that have come so far.
	rows() []streams.Row
	// done is closed when the job has ended by itself; failure is empty where it has ended well.
	done() <-chan struct{}
	failure() string
	// save stops the job with a savepoint, and returns what start needs to go on; cancel stops it at once.
	save() string
	cancel()
}

// trial is a case under way in an engine.
type trial struct {
	parityCase
	t      testing.TB
	world  *topics.World
	engine engine
	// id names the job: letters, digits and underscores.
	id  string
	job job
	// steps that did not come about.
	missed []string
}

// step is something to wait for, or to do.
type step struct {
	name string
	// until is waited for; a job that ends first passes over the steps that remain.
	until func(tr *trial) bool
	// still waits for nothing to happen.
	still bool
	do    func(tr *trial)
}

// rows waits until so many have come, ready until the group has offsets for so many partitions, which a source commits
// when it has resolved where it begins.
func rows(n int) step {
	return step{name: fmt.Sprintf("%d rows", n), until: func(tr *trial) bool { return len(tr.job.rows()) >= n }}
}

func ready(n int) step {
	return step{name: fmt.Sprintf("offsets of %d partitions", n), until: func(tr *trial) bool { return len(tr.world.Offsets(tr.group)) >= n }}
}

// still waits and sees that the job goes on.
var still = step{name: "still running", still: true}

func appendTo(topic string, p int32, n int) step {
	return step{do: func(tr *trial) { tr.world.Append(tr.world.Topic(topic), p, n) }}
}

func addPartitions(topic string, to int) step {
	return step{do: func(tr *trial) { tr.world.AddPartitions(tr.world.Topic(topic), to) }}
}

func create(topic string) step { return step{do: func(tr *trial) { tr.world.Create(topic) }} }

func endTransaction(commit bool) step {
	return step{do: func(tr *trial) { tr.world.End(commit) }}
}

// restart stops the job with a savepoint, does something, and goes on from there.
func restart(do ...step) step {
	return step{do: func(tr *trial) {
		saved := tr.job.save()
		for _, s := range do {
			s.do(tr)
		}
		tr.job = tr.engine.start(tr, saved)
	}}
}

// run runs a case in an engine.
func run(t testing.TB, e engine, c parityCase, w *topics.World, id string) outcome {
	tr := &trial{parityCase: c, t: t, world: w, engine: e, id: id}
	tr.job = e.start(tr, "")
	steps := c.steps
	for i, s := range steps {
		if !tr.step(s) {
			for _, left := range steps[i+1:] {
				if left.still { // what is awaited no longer can be; that it does not go on is a finding
					tr.missed = append(tr.missed, "not "+left.name)
				}
			}
			break
		}
	}
	if len(steps) == 0 || !steps[len(steps)-1].still {
		tr.wait(tr.job.done(), e.patience())
	}
	return tr.outcome()
}

// step does one step. It returns false where the job ended by itself before that.
func (tr *trial) step(s step) bool {
	switch {
	case s.do != nil:
		s.do(tr)
	case s.still:
		if tr.wait(tr.job.done(), tr.engine.settle()) {
			tr.missed = append(tr.missed, "not "+s.name)
			return false
		}
	default:
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		timeout := time.After(tr.engine.patience())
		for !s.until(tr) {
			select {
			case <-tick.C:
			case <-tr.job.done():
				if s.until(tr) { // it came together with the end
					return true
				}
				tr.missed = append(tr.missed, "not "+s.name)
				return false
			case <-timeout:
				tr.missed = append(tr.missed, "not "+s.name)
				return true
			}
		}
	}
	return true
}

func (tr *trial) wait(done <-chan struct{}, d time.Duration) bool {
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}

// over tells whether the job has ended by itself.
func (tr *trial) over() bool {
	select {
	case <-tr.job.done():
		return true
	default:
		return false
	}
}

func (tr *trial) outcome() outcome {
	o := outcome{End: "running", Steps: tr.missed}
	if tr.over() {
		o.End = "ended"
		if cause := tr.job.failure(); cause != "" {
			o.End, o.Cause = "failed", anonymous(tr.world, cause)
			o.Kind = kindOf(tr.engine.name(), o.Cause)
		}
	}
	o.Rows = streams.Ranges(tr.job.rows(), tr.world.Logical)
	if tr.committed {
		o.Committed = tr.world.Offsets(tr.group)
	}
	tr.job.cancel()
	return o
}

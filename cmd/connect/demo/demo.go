package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidegate/tidegate/internal/child"
	"github.com/tidegate/tidegate/internal/devbroker"
)

// logTail is how many lines of the pipeline's log a failure shows.
const logTail = 25

// Options are the settings of a demo.
type Options struct {
	// Records is how many records are loaded, Kills how often the pipeline is killed.
	Records int64
	Kills   int
	// Seed decides when; the same seed plans the same kills.
	Seed uint64
	// Keep keeps the folder with the pipeline's YAML, log and state.
	Keep bool
	// Command runs a pipeline; the path of its YAML is appended.
	Command []string
	// Stall is how long nothing may be committed before the demo gives up.
	Stall time.Duration
	// Out gets the progress and the table; Terminal says that lines may be overwritten.
	Out      io.Writer
	Terminal bool
}

// Run runs a demo to its end and returns nil only where every figure holds.
func Run(ctx context.Context, o Options) (err error) {
	if o.Records < 1 || o.Kills < 0 {
		return fmt.Errorf("--records %d --kills %d: there must be at least one record, and no fewer than 0 kills", o.Records, o.Kills)
	}
	ctx, cancel := context.WithTimeout(ctx, timeLimit(o))
	defer cancel()
	dir, err := os.MkdirTemp("", "tidegate-demo-")
	if err != nil {
		return fmt.Errorf("making a folder for the demo: %w", err)
	}
	defer func() { err = errors.Join(err, leave(dir, o)) }()

	broker, err := devbroker.Start(devbroker.Options{Topics: []devbroker.Topic{
		{Name: topicIn, Partitions: partitions}, {Name: topicOut, Partitions: partitions},
	}})
	if err != nil {
		return err
	}
	defer broker.Close()
	fmt.Fprintf(o.Out, "Embedded Kafka broker on %s. Seed %d.\n", broker.Addrs()[0], o.Seed)
	d := &demo{
		Options:  o,
		progress: &progress{out: o.Out, terminal: o.Terminal, began: time.Now()},
		brokers:  broker.Addrs(),
		conf:     filepath.Join(dir, "pipeline.yaml"),
		log:      filepath.Join(dir, "pipeline.log"),
		load:     devbroker.Load{Topic: topicIn, Partitions: partitions, Records: o.Records, Began: time.Now().Truncate(time.Millisecond)},
	}
	conf, err := renderPipeline(broker.Addrs()[0], filepath.Join(dir, "state"), o.Records)
	if err != nil {
		return err
	}
	if err := os.WriteFile(d.conf, conf, 0o600); err != nil {
		return fmt.Errorf("writing the pipeline: %w", err)
	}
	return d.run(ctx)
}

// timeLimit is a minute, and more where more is asked for.
func timeLimit(o Options) time.Duration {
	return time.Minute + time.Duration(o.Records/20_000)*time.Second/2 + time.Duration(max(0, o.Kills-3))*5*time.Second
}

// leave removes the demo's folder, or says where it is.
func leave(dir string, o Options) error {
	if o.Keep {
		fmt.Fprintf(o.Out, "Kept: %s\n", dir)
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing the demo's folder: %w", err)
	}
	return nil
}

// demo is one demo under way.
type demo struct {
	Options
	progress  *progress
	brokers   []string
	conf, log string
	load      devbroker.Load
	watch     *watch
	kills     int // that have happened
}

// run loads, watches, has the pipeline run and killed, and judges.
func (d *demo) run(ctx context.Context) error {
	if err := d.load.Run(ctx, d.brokers); err != nil {
		return err
	}
	in, err := devbroker.FenceOf(ctx, d.brokers, topicIn)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.Out, "%s records with headers loaded into %q, %d partitions. The pipeline copies them to %q, exactly once:\n",
		thousands(in.Total()), topicIn, partitions, topicOut)
	if d.watch, err = newWatch(d.brokers, expectation(d.load)); err != nil {
		return err
	}
	defer d.watch.observer.Close()

	if err := d.superviseWatched(ctx); err != nil {
		d.progress.end()
		if errors.Is(ctx.Err(), context.Canceled) {
			return err // by the user: the pipeline has nothing to say about it
		}
		return fmt.Errorf("%w%s", err, child.Tail(d.log, logTail))
	}
	out, err := devbroker.FenceOf(ctx, d.brokers, topicOut)
	if err != nil {
		return err
	}
	settled, cancel := context.WithTimeout(ctx, d.Stall)
	defer cancel()
	unfinished := d.watch.toEnd(settled, out)
	d.progress.show(d.status("done"))
	d.progress.end()
	result{In: in.Total(), Counts: d.watch.audit.Counts(), Kills: d.kills, LongestPause: d.watch.longest}.print(d.Out)
	if err := errors.Join(unfinished, d.watch.audit.Err()); err != nil {
		return fmt.Errorf("the figures don't hold: %w", err)
	}
	return nil
}

// superviseWatched runs the pipeline to its end while the output is watched.
func (d *demo) superviseWatched(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := d.watch.run(watching); watching.Err() == nil {
			failed <- err
		}
	}()
	plan := planKills(rand.New(rand.NewPCG(d.Seed, 0)), d.Kills, d.watch.audit.Expected())
	err := d.supervise(ctx, plan, failed)
	stop()
	<-ended
	return err
}

// supervise starts the pipeline, kills it as planned, starts it again, and returns when it ended by itself.
func (d *demo) supervise(ctx context.Context, plan []kill, failed <-chan error) error {
	for {
		args := append(slices.Clone(d.Command), d.conf)
		pipeline, err := child.Start(exec.Command(args[0], args[1:]...), d.log)
		if err != nil {
			return err
		}
		var next *kill
		if d.kills < len(plan) {
			next = &plan[d.kills]
		}
		killed, err := d.accompany(ctx, pipeline, next, failed)
		if err != nil {
			return err
		}
		if !killed {
			return nil
		}
		d.kills++
	}
}

// accompany stays with one run until it is over. It returns true where the run was killed as planned, and never leaves
// a process behind.
func (d *demo) accompany(ctx context.Context, pipeline *child.Process, next *kill, failed <-chan error) (killed bool, err error) {
	defer pipeline.Kill()
	strike := stoppedTimer()
	defer strike.Stop()
	stall := time.NewTimer(d.Stall)
	defer stall.Stop()
	tick := time.NewTicker(d.progress.every())
	defer tick.Stop()
	arm := func() {
		if next != nil && d.watch.committed() >= next.committed {
			strike.Reset(next.after)
			next = nil
		}
	}
	planned, struck := next != nil, false
	for arm(); ; {
		select {
		case <-pipeline.Done():
			return d.judgeEnd(pipeline.Err(), planned, struck)
		case <-strike.C:
			struck = true
			pipeline.Kill()
		case <-d.watch.grown:
			stall.Reset(d.Stall)
			arm()
		case <-tick.C:
			d.progress.show(d.status("running"))
		case <-stall.C:
			return false, fmt.Errorf("nothing was committed for %v, after %s of %s records", d.Stall,
				thousands(d.watch.committed()), thousands(d.watch.audit.Expected()))
		case err := <-failed:
			return false, err
		case <-ctx.Done():
			return false, fmt.Errorf("stopped after %s of %s records and %d of %d kills: %w", thousands(d.watch.committed()),
				thousands(d.watch.audit.Expected()), d.kills, d.Kills, context.Cause(ctx))
		}
	}
}

// judgeEnd tells what a run's end means.
func (d *demo) judgeEnd(result error, planned, struck bool) (killed bool, err error) {
	switch {
	case result == nil && planned:
		return false, fmt.Errorf("the pipeline ended after %d of %d kills; more --records give them more time", d.kills, d.Kills)
	case result == nil:
		return false, nil
	case struck:
		return true, nil
	default:
		return false, fmt.Errorf("the pipeline ended by itself: %w", result)
	}
}

func (d *demo) status(what string) string {
	return fmt.Sprintf("committed %s of %s, kills %d of %d, %s", thousands(d.watch.committed()),
		thousands(d.watch.audit.Expected()), d.kills, d.Kills, what)
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/child"
)

// soakScenarios are the pipelines of a soak, beside an HTTP server before transactional writes.
func soakScenarios() []scenario {
	const every = "interval: 200ms"
	fanOut := brokerOf("fan_out", both)
	fanOut.name, fanOut.perSecond, fanOut.checkpoint = "fan-out", 100, every
	return shaped(
		scenario{
			// Now and then a message is refused, and the stream goes back.
			name: "copy", checkpoint: every, perSecond: 250, refusing: true,
			processors: `
    - mapping: 'root = if random_int(max: 29999) == 0 { throw("refused now and then") } else { content() }'`,
		},
		scenario{name: "large", checkpoint: every, perSecond: 1, processors: asIs, recordOf: largeRecord},
		scenario{
			name: "at-least-once", checkpoint: every + "\n      mode: at-least-once", perSecond: 100, processors: asIs, repeats: true,
			sink: "\n    delivery_guarantee: at-least-once",
		},
		fanOut,
		scenario{
			name: "uncheckpointed", startup: fromGroup, solo: "auto_commit: { interval: 200ms }", repeats: true, threads: 4, perSecond: 100,
			refusing: true, brokerToo: true,
			processors: `
    - mapping: 'root = if random_int(max: 29999) == 0 { throw("refused now and then") } else { content() }'`,
			sink: `
    delivery_guarantee: at-least-once
    max_in_flight: 16`,
		},
	)
}

// largeRecord is a record of 100 kB and more, one in 16 nearly as large as a broker takes.
func largeRecord(topic string, partition int32, n int64, began time.Time) *kgo.Record {
	r := record(topic, partition, n, began)
	size := 100_000 + 10_000*int(n%7)
	if n%16 == 0 {
		size = 900_000
	}
	r.Value = make([]byte, size)
	for i := range r.Value {
		r.Value[i] = byte(i*i>>3) ^ byte(n)
	}
	return r
}

// soakJob is one pipeline of a soak: how it is run, and what its processes have held.
type soakJob struct {
	name string
	rng  *rand.Rand
	// run starts the pipeline, live lets it run for a while and returns an error where it ends or stands still, stop ends
	// it by SIGTERM. finish lets what was written come through, stops it and judges.
	run    func() (*child.Process, error)
	live   func(p *child.Process, d time.Duration) error
	stop   func(p *child.Process) error
	finish func(t *testing.T, p *child.Process) string
	// pace sets how much is written, as a share of the usual; nil where the pipeline itself sets it.
	pace func(share float64)
	at   patientOf
	// log is its log file, prefix that of its transactional ids.
	log, prefix string

	kills, stops, failovers int

	mu sync.Mutex
	// process is the running one; guarded by mu, as is what follows: pulses are those of the last process, peak is the
	// most memory any of them has had, and sick why a pulse could not be taken.
	process *child.Process
	pulses  []pulse
	peak    int64
	sick    error
}

// start starts the pipeline, for the pulse to be taken.
func (j *soakJob) start() (*child.Process, error) {
	p, err := j.run()
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.process, j.pulses = p, nil
	return p, nil
}

// feel takes the pulse of the process that runs.
func (j *soakJob) feel(at time.Duration) {
	j.mu.Lock()
	p := j.process
	j.mu.Unlock()
	if p == nil || p.Ended() {
		return
	}
	beat, err := j.at.take(p.PID())
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.process != p || p.Ended() {
		return
	}
	if err != nil {
		j.sick = err // also while it starts, and does not listen yet
		return
	}
	beat.at = at
	j.pulses = append(j.pulses, beat)
	j.peak = max(j.peak, beat.peak)
}

// beats is how many pulses there are of the process that runs.
func (j *soakJob) beats() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.pulses)
}

// strike runs the pipeline for up to so long and ends it, mostly by SIGKILL.
func (j *soakJob) strike(ctx context.Context, longest time.Duration, whole *sync.RWMutex) error {
	p, err := j.start()
	if err != nil {
		return err
	}
	defer p.Kill()
	early := j.rng.IntN(4) == 0
	d := time.Duration(j.rng.Int64N(int64(longest)))
	if early {
		d = time.Duration(j.rng.Int64N(int64(time.Second)))
	}
	if err := j.liveOn(ctx, p, time.Now().Add(d)); err != nil {
		return err
	}
	// A stop is to be clean where every broker is there.
	if !early && j.rng.IntN(2) == 0 && whole.TryRLock() {
		defer whole.RUnlock()
		j.stops++
		return j.stop(p)
	}
	j.kills++
	p.Kill()
	if killedBy(p.Err()) != syscall.SIGKILL {
		return fmt.Errorf("%w by itself: %w%s", errEnded, p.Err(), child.Tail(j.log, logLines))
	}
	return nil
}

// liveOn lets the pipeline run until then.
func (j *soakJob) liveOn(ctx context.Context, p *child.Process, then time.Time) error {
	for ctx.Err() == nil {
		d := min(time.Second, time.Until(then))
		if d <= 0 {
			return nil
		}
		if err := j.live(p, d); err != nil {
			return fmt.Errorf("%s: %w", j.name, err)
		}
	}
	return ctx.Err()
}

// trialJob is a job that a trial makes.
func (s *soak) trialJob(t *testing.T, sc scenario, stream uint64) *soakJob {
	n := s.namesOf(t)
	n.In2, n.Out2 = s.cluster.Topic(t, partitions), s.cluster.Topic(t, partitions)
	rng := rand.New(rand.NewPCG(s.seed, stream))
	tr, err := newTrial(sc, n, s.cluster, s.connect, rng)
	require.NoError(t, err)
	t.Cleanup(tr.close)
	tr.shaken = true
	j := &soakJob{name: sc.name, rng: rng, log: tr.log(), prefix: n.Prefix, stop: tr.stop, at: s.patientOf(n)}
	j.run = func() (*child.Process, error) {
		tr.lastNew = time.Now() // it has all its time to bring something
		return tr.start()
	}
	j.live = func(p *child.Process, d time.Duration) error {
		if err := tr.followFor(p, d); err != nil {
			return tr.brokenRun(p, err)
		}
		if missing := tr.checker.missing(sc.due(tr.producer.soFar())); missing > 0 && time.Since(tr.lastNew) > 2*stallLimit {
			return tr.failed(fmt.Errorf("%d records are missing, and nothing new has come out for %s", missing, 2*stallLimit))
		}
		return nil
	}
	j.pace = func(share float64) { tr.producer.perSecond.Store(int64(share * float64(sc.rate()))) }
	j.finish = func(t *testing.T, p *child.Process) string {
		v, err := tr.finishWith(p)
		require.NoError(t, err, "%s, seed %d: %v", sc.name, s.seed, v)
		require.True(t, sc.kept(v), "%s, seed %d, promised %s: %v", sc.name, s.seed, sc.promise(), v)
		require.Positive(t, v.in)
		return v.String()
	}
	return j
}

// httpJob is a job of an HTTP server before transactional writes.
func (s *soak) httpJob(t *testing.T, stream uint64) *soakJob {
	n, address := s.namesOf(t), freeAddress(t)
	config := fmt.Sprintf(behindText, httpInput, "{ unarchive: { format: lines } }")
	rng := rand.New(rand.NewPCG(s.seed, stream))
	w, err := newWrites(n, s.cluster, s.connect, address, config, rng)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	watched := make(chan error, 1)
	go func() { watched <- w.watch(ctx) }()
	senders := newSender("http://"+address+"/in", 100*time.Millisecond)
	t.Cleanup(func() {
		cancel()
		senders.stop()
		if err := <-watched; err != nil {
			t.Errorf("reading what the HTTP server wrote: %v", err)
		}
		w.observer.Close()
	})
	return &soakJob{
		name: "http", rng: rng, log: w.log(), prefix: n.Prefix, at: s.patientOf(n), run: w.start,
		live: func(p *child.Process, d time.Duration) error { return w.pass(p, d, nil) },
		stop: func(p *child.Process) error { return errors.Join(w.progress(p), w.stop(p)) },
		finish: func(t *testing.T, p *child.Process) string {
			require.NoError(t, w.progress(p))
			senders.stop()
			require.NoError(t, w.stop(p))
			cancel()
			require.NoError(t, <-watched)
			watched <- nil // for the clean-up
			require.NoError(t, w.readToEnd())
			return senders.judge(t, &writesOf{name: "http", tv: 2, seed: s.seed}, w)
		},
	}
}

func (s *soak) namesOf(t *testing.T) names {
	n := namesOf(t, s.cluster, 2)
	n.Debug = freeAddress(t)
	return n
}

func (s *soak) patientOf(n names) patientOf {
	at := patientOf{debug: n.Debug, state: filepath.Join(n.Dir, "state"), brokers: map[int]bool{}}
	for _, address := range s.cluster.Bootstrap() {
		at.brokers[portOf(address)] = true
	}
	return at
}

func portOf(address string) (port int) {
	_, text, _ := net.SplitHostPort(address)
	_, _ = fmt.Sscan(text, &port)
	return port
}

// freeAddress is one where nobody listens.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// failoversIn counts how often a stream has gone back, by what a log says from a place on.
func failoversIn(log string, from int64) int {
	text, err := os.ReadFile(log)
	if err != nil || int64(len(text)) < from {
		return 0
	}
	return strings.Count(string(text[from:]), "restarting from the last checkpoint")
}

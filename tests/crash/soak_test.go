package crash

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/tests/binary"
	"github.com/tidegate/tidegate/tests/realkafka"
)

var flagSoak = flag.Duration("crash.soak", 0, "how long pipelines are soaked; 0: a short while")

// shortSoak is how long `make test` takes for it, beside the start of the cluster.
const shortSoak = 30 * time.Second

// smallJVM is for brokers that stand three together beside everything else.
var smallJVM = []string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}

// TestSoakStaysFlatAndLosesNothing runs pipelines of several kinds at a time on a cluster of three brokers, with bursts
// and idle phases. In the first half they are killed and stopped, and brokers go and come all the time but for the end.
// Nothing may be lost or doubled, and what the processes of the second half hold is to be flat.
func TestSoakStaysFlatAndLosesNothing(t *testing.T) {
	if *flagScenario != "" {
		t.Skip("scenarios are asked for, and this is none of them")
	}
	length, short := *flagSoak, false
	if length == 0 {
		length, short = shortSoak, true
	}
	s := &soak{
		cluster: realkafka.Start(t, realkafka.Options{Brokers: 3, JVM: smallJVM}), connect: binary.Connect(t), seed: seedOf(t), length: length, short: short,
	}
	for i, sc := range soakScenarios() {
		if !short || sc.name == "copy" || sc.name == "large" {
			s.jobs = append(s.jobs, s.trialJob(t, sc, uint64(i)))
		}
	}
	s.jobs = append(s.jobs, s.httpJob(t, 100))
	s.run(t)
	s.report(t)
}

// soak is pipelines under way on one cluster.
type soak struct {
	cluster *realkafka.Cluster
	connect string
	seed    uint64
	length  time.Duration
	// short is set where processes live for seconds only.
	short bool
	jobs  []*soakJob

	began time.Time
	// whole is held for writing while a broker is missing, and for reading by who needs all.
	whole                                  sync.RWMutex
	brokerKills, brokerStops, coordinators int
}

// at is the moment when a share of the time is over.
func (s *soak) at(share float64) time.Time {
	return s.began.Add(time.Duration(share * float64(s.length)))
}

// run lets everything happen until the time is up. What is wrong ends it at once.
func (s *soak) run(t *testing.T) {
	s.began = time.Now()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var drivers, others sync.WaitGroup
	stop := func(err error) {
		if err != nil && ctx.Err() == nil {
			cancel(err)
		}
	}
	watch, endWatch := context.WithCancel(ctx)
	defer endWatch()
	others.Go(func() { s.feel(watch) })
	others.Go(func() { stop(s.shake(ctx, rand.New(rand.NewPCG(s.seed, 200)))) })
	for i, j := range s.jobs {
		drivers.Go(func() { stop(s.drive(ctx, j)) })
		if j.pace != nil {
			others.Go(func() { s.pace(watch, j, rand.New(rand.NewPCG(s.seed, 300+uint64(i)))) })
		}
	}
	t.Cleanup(func() {
		for _, j := range s.jobs {
			if j.process != nil {
				j.process.Kill()
			}
		}
	})
	drivers.Wait()
	endWatch()
	others.Wait()
	require.NoError(t, context.Cause(ctx), "seed %d", s.seed)
}

// drive kills and stops a pipeline again and again in the first half, and lets one process live through the second.
func (s *soak) drive(ctx context.Context, j *soakJob) error {
	longest := min(15*time.Second, s.length/6)
	for time.Now().Before(s.at(0.5)) {
		if err := j.strike(ctx, longest, &s.whole); err != nil {
			return fmt.Errorf("%s, start %d: %w", j.name, j.kills+j.stops+1, err)
		}
	}
	before := fileSize(j.log)
	p, err := j.start()
	if err != nil {
		return err
	}
	err = j.liveOn(ctx, p, s.at(1))
	// On a busy machine its predecessor may have taken its time to stop, and itself to start.
	for late := time.Now().Add(2 * stallLimit); err == nil && j.beats() < 2*minPulses && time.Now().Before(late); {
		err = j.liveOn(ctx, p, time.Now().Add(time.Second))
	}
	j.failovers = failoversIn(j.log, before)
	return err
}

// feel takes the pulse of every job.
func (s *soak) feel(ctx context.Context) {
	tick := time.NewTicker(max(250*time.Millisecond, min(5*time.Second, s.length/150)))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, j := range s.jobs {
			j.feel(time.Since(s.began))
		}
	}
}

// pace lets a job have bursts and idle phases, and the usual load at the end.
func (s *soak) pace(ctx context.Context, j *soakJob, rng *rand.Rand) {
	for ctx.Err() == nil && time.Now().Before(s.at(0.8)) {
		for _, share := range []float64{1, 4, 1, 0} {
			j.pace(share)
			pause(ctx, s.part(rng, 12*time.Second))
		}
	}
	j.pace(1)
}

// part is a random time up to the longest, and up to a part of the whole.
func (s *soak) part(rng *rand.Rand, longest time.Duration) time.Duration {
	longest = min(longest, s.length/12)
	return longest/4 + time.Duration(rng.Int64N(int64(longest*3/4)))
}

// shake takes one broker after another away and brings it back, until a while before the end.
func (s *soak) shake(ctx context.Context, rng *rand.Rand) error {
	for {
		pause(ctx, s.part(rng, 20*time.Second))
		if ctx.Err() != nil || time.Now().After(s.at(0.8)) {
			return nil
		}
		if err := s.shakeOne(ctx, rng); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func (s *soak) shakeOne(ctx context.Context, rng *rand.Rand) error {
	s.whole.Lock()
	defer s.whole.Unlock()
	victim := rng.IntN(3)
	if rng.IntN(2) == 0 {
		// All jobs but those that are at least once have such ids.
		at, err := coordinatorOf(ctx, s.cluster, s.jobs[rng.IntN(len(s.jobs))].prefix+"-0-0")
		if err == nil {
			victim = at
			s.coordinators++
		}
	}
	end := s.cluster.Kill
	if rng.IntN(3) == 0 {
		end = s.cluster.Stop
		s.brokerStops++
	} else {
		s.brokerKills++
	}
	if err := end(victim); err != nil {
		return err
	}
	pause(ctx, s.part(rng, 8*time.Second))
	if err := s.cluster.Restart(victim); err != nil {
		return err
	}
	return inSync(ctx, s.cluster.Bootstrap())
}

// inSync waits until every replica is in sync: before that, the loss of another broker would stop partitions.
func inSync(ctx context.Context, bootstrap []string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*stallLimit)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...))
	if err != nil {
		return fmt.Errorf("waiting for replicas: %w", err)
	}
	defer client.Close()
	for {
		topics, err := kadm.NewClient(client).ListTopicsWithInternal(ctx)
		behind := 0
		for _, topic := range topics {
			for _, p := range topic.Partitions {
				if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
					behind++
				}
			}
		}
		if err == nil && behind == 0 {
			return nil
		}
		pause(ctx, 200*time.Millisecond)
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for replicas: %d partitions are not in sync: %w", behind, errors.Join(err, ctx.Err()))
		}
	}
}

// report lets every job finish, and prints and judges what has come.
func (s *soak) report(t *testing.T) {
	table, rising := flatHead(), []string(nil)
	for _, j := range s.jobs {
		rows, wrong := judgeFlat(j.name, j.pulses, s.short)
		table += rows
		if len(wrong) > 0 && j.sick != nil {
			wrong = append(wrong, fmt.Sprintf("%s: a pulse could not be taken: %v", j.name, j.sick))
		}
		if len(wrong) > 0 {
			keepProfile(j)
		}
		rising = append(rising, wrong...)
	}
	for _, j := range s.jobs {
		verdict := j.finish(t, j.process)
		fmt.Printf("%-18s killed %d, stopped %d, then one process of %v with %d failovers; peak RSS of all %.0f MB; %s\n", j.name, j.kills,
			j.stops, (s.length / 2).Round(time.Second), j.failovers, float64(j.peak)/mb, verdict)
	}
	fmt.Printf("soak: seed %d, %v, brokers killed %d and stopped %d times, the coordinator of transactions %d times of these\n%s", s.seed,
		s.length, s.brokerKills, s.brokerStops, s.coordinators, table)
	require.Empty(t, rising, "seed %d", s.seed)
}

// keepProfile keeps what the goroutines of a process do that is not flat.
func keepProfile(j *soakJob) {
	text, err := goroutineProfile(j.at.debug)
	if err == nil {
		path := filepath.Join(os.TempDir(), "tidegate-soak-"+j.name+".goroutines")
		if err = os.WriteFile(path, text, 0o600); err == nil {
			fmt.Printf("%s: its goroutines are in %s\n", j.name, path)
		}
	}
}

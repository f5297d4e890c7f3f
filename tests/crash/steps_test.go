package crash

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/tests/binary"
	"github.com/tidegate/tidegate/tests/realkafka"
)

var flagSteps = flag.String("crash.steps", "", "kill at every step of the protocol whose name matches this; empty: at a few of them")

// fewSteps is how many steps are tried where none are asked for.
const fewSteps = 4

// stepWait is how long a run waits for its step before it is stopped by SIGTERM, which has steps of its own.
const stepWait = 1500 * time.Millisecond

// beforeCommit is the step between a durable record and the commit of its transactions.
const beforeCommit = "running/action/Commit"

// steps kills a pipeline of a test build at every step of the protocol, one after the other.
type steps struct {
	*trial
	list string // file that the pipeline notes its steps in
	// hit are the steps at which it was killed, missed those that did not come in their run.
	hit, missed []string
}

func TestCrashAtEveryStepLosesAndDoublesNothing(t *testing.T) {
	picked, err := pick(*flagScenario)
	require.NoError(t, err)
	matching, err := regexp.Compile(*flagSteps)
	require.NoError(t, err)
	cluster := realkafka.Start(t, clusterOptions())
	connect := binary.Connect(t, "-tags", "killpoints")
	for _, s := range picked {
		if s.brokerToo {
			continue // a matter of time, not of steps
		}
		t.Run(s.name, func(t *testing.T) {
			seed := seedOf(t)
			tr, err := newTrial(s, namesOf(t, cluster), cluster, connect, rand.New(rand.NewPCG(seed, 0)))
			require.NoError(t, err)
			defer tr.close()
			st := &steps{trial: tr, list: filepath.Join(tr.names.Dir, "steps")}
			began := time.Now()
			require.NoError(t, st.all(matching), "seed %d", seed)
			v, err := tr.finish()
			fmt.Printf("%s: killed at %d steps, %d did not come, ", s.name, len(st.hit), len(st.missed))
			tr.summarize(syscall.SIGKILL, seed, v, time.Since(began))
			if len(st.missed) > 0 {
				fmt.Printf("%s: did not come: %s\n", s.name, strings.Join(st.missed, ", "))
			}
			require.NoError(t, err, "seed %d", seed)
			require.True(t, v.clean(s.repeats), "seed %d: %v", seed, v)
			require.NotEmpty(t, st.hit)
		})
	}
}

// all finds the steps there are, kills at each, and goes on with those that only a recovery has.
func (st *steps) all(matching *regexp.Regexp) error {
	if err := st.explore(); err != nil {
		return err
	}
	tried := map[string]bool{}
	for {
		names, err := st.names(matching)
		if err != nil {
			return err
		}
		names = slices.DeleteFunc(names, func(name string) bool { return tried[name] })
		if *flagSteps == "" {
			st.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			names = names[:min(len(names), fewSteps-len(tried))]
		}
		if len(names) == 0 {
			return nil
		}
		for _, name := range names {
			tried[name] = true
			hit, err := st.killSomehow(name)
			if err != nil {
				return fmt.Errorf("killed at %s: %w", name, err)
			}
			if hit {
				st.hit = append(st.hit, name)
			} else {
				st.missed = append(st.missed, name)
			}
		}
	}
}

// explore has the pipeline note its steps: a first start, a stop, a start after it, a kill and a start after that.
func (st *steps) explore() error {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM} {
		p, err := st.start("TIDEGATE_KILL_LIST=" + st.list)
		if err != nil {
			return err
		}
		defer p.Kill()
		if err := st.progress(p); err != nil {
			return st.brokenRun(p, err)
		}
		if sig == syscall.SIGKILL {
			p.Kill()
		} else if err := st.stop(p); err != nil {
			return err
		}
	}
	return nil
}

// names are the steps that the pipeline has noted so far.
func (st *steps) names(matching *regexp.Regexp) ([]string, error) {
	text, err := os.ReadFile(st.list)
	if err != nil {
		return nil, fmt.Errorf("reading the list of steps: %w", err)
	}
	names := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(text)), "\n"), func(name string) bool { return !matching.MatchString(name) })
	slices.Sort(names)
	return slices.Compact(names), nil
}

// killSomehow kills the pipeline at a step. Most steps come again and again, some once in a process, and some only where
// the process before has left a checkpoint that is recorded and not committed.
func (st *steps) killSomehow(name string) (hit bool, err error) {
	if hit, err = st.killAt(name, st.rng.IntN(3)+1); hit || err != nil {
		return hit, err
	}
	if hit, err = st.killAt(name, 1); hit || err != nil {
		return hit, err
	}
	if _, err = st.killAt(beforeCommit, 1); err != nil {
		return false, err
	}
	return st.killAt(name, 1)
}

// killAt runs the pipeline until it kills itself when a step comes for the nth time, and tells whether it came.
func (st *steps) killAt(name string, nth int) (hit bool, err error) {
	p, err := st.start("TIDEGATE_KILL_LIST="+st.list, fmt.Sprintf("TIDEGATE_KILL_AT=%s#%d", name, nth))
	if err != nil {
		return false, err
	}
	defer p.Kill()
	st.kills++
	err = st.followFor(p, stepWait)
	if err == nil {
		p.Signal(syscall.SIGTERM)
		err = st.followFor(p, exitLimit)
	}
	switch {
	case !errors.Is(err, errEnded):
		return false, st.failed(fmt.Errorf("the pipeline goes on after SIGTERM: %w", err))
	case killedBy(p.Err()) == syscall.SIGKILL:
		return true, nil
	case p.Err() != nil:
		return false, st.brokenRun(p, err)
	}
	return false, nil
}

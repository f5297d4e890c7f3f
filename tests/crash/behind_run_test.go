package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"text/template"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/child"
	"github.com/tidegate/tidegate/internal/devbroker"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// behindText is a job of such an input. ADDRESS is where it listens or connects to, RUN the number of the process.
const behindText = `# Written by the crash test.
http: {{ .HTTP }}
logger: { level: INFO, add_timestamp: true }
shutdown_timeout: 30s

input:%s

pipeline:
  threads: 1
  processors: [ %s ]

output:
  kafka_flink_sink:
    {{ .Kafka.Block 4 }}
    topic: {{ .Out }}
    max_in_flight: 64
    delivery_guarantee: exactly-once
    transactional_id_prefix: {{ .Prefix }}
`

// writes is a job under way whose input is not checkpointed, and what a read_committed reader sees of it.
type writes struct {
	names    names
	cluster  *realkafka.Cluster
	binary   string
	address  string
	rng      *rand.Rand
	observer *devbroker.Observer

	runs, kills int
	// logBefore is how long the log was when the job was started.
	logBefore int64

	mu   sync.Mutex
	seen map[string]int // how often each value came
}

func newWrites(n names, cluster *realkafka.Cluster, binary, address, config string, rng *rand.Rand) (*writes, error) {
	w := &writes{names: n, cluster: cluster, binary: binary, address: address, rng: rng, seen: map[string]int{}}
	parsed, err := template.New("behind").Parse(config)
	if err != nil {
		return nil, fmt.Errorf("parsing the config: %w", err)
	}
	var text bytes.Buffer
	if err := parsed.Execute(&text, n); err != nil {
		return nil, fmt.Errorf("writing the config: %w", err)
	}
	if err := os.WriteFile(w.conf(), text.Bytes(), 0o644); err != nil {
		return nil, fmt.Errorf("writing the config: %w", err)
	}
	w.observer, err = devbroker.Observe(cluster.Bootstrap(), n.Out)
	return w, err
}

func (w *writes) conf() string { return filepath.Join(w.names.Dir, "job.yaml") }
func (w *writes) log() string  { return filepath.Join(w.names.Dir, "job.log") }

// watch reads the output until ctx ends.
func (w *writes) watch(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := w.observer.Poll(ctx, w.see); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func (w *writes) see(r *kgo.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[string(r.Value)]++
}

func (w *writes) distinct() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen)
}

func (w *writes) start() (*child.Process, error) {
	w.runs++
	w.logBefore = fileSize(w.log())
	cmd := exec.Command(w.binary, "run", w.conf())
	cmd.Env = append(os.Environ(), "ADDRESS="+w.address, fmt.Sprintf("RUN=%d", w.runs))
	return child.Start(cmd, w.log())
}

// failed adds the end of the job's log to an error.
func (w *writes) failed(err error) error {
	return fmt.Errorf("%w%s", err, child.Tail(w.log(), logLines))
}

// pass lets the job run until done says so, or for a while where that is nil.
func (w *writes) pass(p *child.Process, limit time.Duration, done func() bool) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	over := time.After(limit)
	for done == nil || !done() {
		select {
		case <-p.Done():
			return w.failed(errEnded)
		case <-over:
			if done == nil {
				return nil
			}
			return w.failed(errTimeUp)
		case <-tick.C:
		}
	}
	return nil
}

// strike starts the job and ends it by the signal: while it starts, or once so many more values are to be seen.
func (w *writes) strike(sig syscall.Signal, brokerToo bool) error {
	p, err := w.start()
	if err != nil {
		return err
	}
	defer p.Kill()
	w.kills++
	if sig == syscall.SIGKILL && w.rng.IntN(4) == 0 {
		err = w.pass(p, time.Duration(w.rng.Int64N(int64(time.Second))), nil)
	} else {
		err = w.progress(p)
	}
	if err == nil && brokerToo && w.rng.IntN(3) == 0 {
		if err = w.cluster.Kill(0); err == nil {
			err = w.cluster.Restart(0)
		}
		if err == nil {
			err = w.progress(p)
		}
	}
	if err == nil {
		err = w.pass(p, time.Duration(w.rng.Int64N(int64(500*time.Millisecond))), nil)
	}
	if err != nil {
		return err
	}
	if sig == syscall.SIGTERM {
		return w.stop(p)
	}
	p.Kill()
	if killedBy(p.Err()) != syscall.SIGKILL {
		return w.failed(errEnded)
	}
	return nil
}

// progress waits for new values of a job that is there: those of the one before may come late.
func (w *writes) progress(p *child.Process) error {
	if err := awaitWordsFor(p, w.log(), w.logBefore, "kafka_flink_sink is now active", stallLimit); err != nil {
		return w.failed(err)
	}
	before := w.distinct()
	return w.pass(p, stallLimit, func() bool { return w.distinct() > before+20 })
}

// stop ends the job by SIGTERM.
func (w *writes) stop(p *child.Process) error {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.Done():
	case <-time.After(2 * exitLimit):
		return w.failed(errors.New("the job goes on long after SIGTERM"))
	}
	if err := p.Err(); err != nil {
		return w.failed(fmt.Errorf("a graceful stop: %w", err))
	}
	return nil
}

// readToEnd reads what is there when nobody writes any more. No transaction may have been left open.
func (w *writes) readToEnd() error {
	ctx, cancel := context.WithTimeout(context.Background(), stallLimit)
	defer cancel()
	if err := nothingPending(ctx, w.cluster.Bootstrap(), w.names.Prefix); err != nil {
		return err
	}
	fence, err := devbroker.FenceOf(ctx, w.cluster.Bootstrap(), w.names.Out)
	if err != nil {
		return err
	}
	return w.observer.PollTo(ctx, fence, w.see)
}

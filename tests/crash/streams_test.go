package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/child"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// quickDelete is how long the deletion of a stream that does not run may take.
const quickDelete = 10 * time.Second

// duo is a process in streams mode with two jobs, which have their topics, groups and prefixes, and one store.
type duo struct {
	w       *ward
	dir     string
	address string
	p       *child.Process
	launch  atomic.Pointer[launch]
	rng     *rand.Rand
	jobs    []*trial
	// runs are the configs that the jobs have now.
	runs []scenario
	// lost is what of each had not come out when it was last looked at.
	lost []int64
	// third is a job that comes and goes.
	third names
	// unwhole is set where a stream of this process was never stopped with its last checkpoint.
	unwhole bool
}

// streams lets streams come, change, fail and go by the HTTP API, and kills the process in between.
func (w *ward) streams(t *testing.T) {
	rounds := []struct {
		name string
		play func(*duo, int) (string, error)
		few  bool
	}{
		{"changed", (*duo).change, true},
		{"deleted and made again", (*duo).remake, false},
		{"a third one with the first one's prefix", (*duo).rival, false},
		{"a third one with a buffer", (*duo).buffered, true},
		{"one fails", (*duo).fail, true},
		{"killed", (*duo).killed, false},
		{"ids taken by another process", (*duo).taken, false},
		{"stopped", (*duo).stopped, false},
	}
	cluster := clusterOf(t, w.tv)
	n := w.times(10)
	if w.few {
		n = 1
	}
	d := w.newDuo(t, cluster)
	for round := range n {
		for _, r := range rounds {
			if w.few && !r.few {
				continue // long: make test-crash SCENARIO=streams
			}
			require.NoError(t, d.suffer("streams: "+r.name, func() (string, error) { return r.play(d, round) }), "round %d", round+1)
		}
	}
	d.end(t)
}

func (w *ward) newDuo(t *testing.T, cluster *realkafka.Cluster) *duo {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d := &duo{w: w, dir: t.TempDir(), address: listener.Addr().String(), rng: rand.New(rand.NewPCG(w.seed, 2000))}
	require.NoError(t, listener.Close())
	d.writeFile(t, "root.yaml", fmt.Sprintf("http: { address: %q }\nlogger: { level: INFO, add_timestamp: true }\nshutdown_timeout: 30s\n", d.address))
	d.writeFile(t, "resources.yaml", fmt.Sprintf("cache_resources: [ { label: state, pebble: { path: %q } } ]\n", filepath.Join(d.dir, "state")))
	require.NoError(t, os.Mkdir(filepath.Join(d.dir, "streams"), 0o755))
	for i, name := range []string{"first", "second"} {
		n := namesOf(t, cluster, w.tv)
		// What a job says is in the log of the process.
		require.NoError(t, os.Symlink(d.log(), filepath.Join(n.Dir, "job.log")))
		tr, err := newTrial(patient, n, cluster, w.connect, rand.New(rand.NewPCG(w.seed, uint64(i))))
		require.NoError(t, err)
		t.Cleanup(tr.close)
		d.jobs, d.runs, d.lost = append(d.jobs, tr), append(d.runs, patient), append(d.lost, 0)
		d.writeFile(t, filepath.Join("streams", name+".yaml"), "")
	}
	d.third = namesOf(t, cluster, w.tv)
	d.third.In = d.jobs[0].names.In
	require.NoError(t, d.start())
	t.Cleanup(func() { d.p.Kill() })
	return d
}

func (d *duo) writeFile(t *testing.T, name, text string) {
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o644))
}

func (d *duo) log() string { return filepath.Join(d.dir, "process.log") }

// start starts the process with the streams as they are now.
func (d *duo) start() error {
	for i, id := range []string{"first", "second"} {
		text, err := streamOf(d.runs[i], d.jobs[i].names)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(d.dir, "streams", id+".yaml"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	d.unwhole = false
	cmd := exec.Command(d.w.connect, "streams", "-o", "root.yaml", "-r", "resources.yaml", "streams")
	cmd.Dir = d.dir
	said, err := os.ReadFile(d.log())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if d.p, err = child.Start(cmd, d.log()); err != nil {
		return err
	}
	d.launch.Store(&launch{p: d.p, log: d.log(), from: len(said)})
	return nil
}

// streamOf is the part of a config that is a stream's own.
func streamOf(s scenario, n names) (string, error) {
	s.refusing = true // in all of them: a sink that has another place in the config is another sink
	text, err := s.config(n)
	if err != nil {
		return "", err
	}
	_, own, found := strings.Cut(string(text), "\ninput:")
	if !found {
		return "", fmt.Errorf("the config of %s has no input", s.name)
	}
	return "input:" + own, nil
}

// ask asks the HTTP API.
func (d *duo) ask(method, path, body string) (status int, text string, err error) {
	d.launch.Load().await()
	ctx, cancel := context.WithTimeout(context.Background(), stallLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+d.address+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", d.failed(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(answer), err
}

// do asks for what has to be granted.
func (d *duo) do(method, path, body string) error {
	status, text, err := d.ask(method, path, body)
	if err == nil && status != http.StatusOK {
		err = d.failed(fmt.Errorf("%s %s: %d %s", method, path, status, text))
	}
	return err
}

func (d *duo) put(method string, job int, s scenario) error {
	text, err := streamOf(s, d.jobs[job].names)
	if err != nil {
		return err
	}
	return d.do(method, "/streams/"+[]string{"first", "second"}[job], text)
}

func (d *duo) failed(err error) error { return fmt.Errorf("%w%s", err, child.Tail(d.log(), logLines)) }

// awaitReady waits until /ready answers so.
func (d *duo) awaitReady(want int) error {
	timeUp := time.After(stallLimit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		status, text, err := d.ask(http.MethodGet, "/ready", "")
		if err == nil && status == want {
			return nil
		}
		select {
		case <-d.p.Done():
			return d.failed(errEnded)
		case <-timeUp:
			return d.failed(fmt.Errorf("/ready was to answer %d, and says %d %s (%w)", want, status, text, err))
		case <-tick.C:
		}
	}
}

// goOn waits until a job shows something new.
func (d *duo) goOn(jobs ...int) error {
	for _, i := range jobs {
		for range 2 { // the first may have been under way
			if err := d.jobs[i].progress(d.p); err != nil {
				return d.jobs[i].brokenRun(d.p, fmt.Errorf("job %d: %w", i+1, err))
			}
		}
	}
	return nil
}

// suffer lets the jobs go through a trouble, waits until everything has come out, and prints what has become of it.
func (d *duo) suffer(name string, trouble func() (string, error)) error {
	if err := d.goOn(0, 1); err != nil {
		return err
	}
	what, err := trouble()
	if err == nil {
		err = d.heal()
	}
	var line string
	dirty := false
	for i, tr := range d.jobs {
		v := tr.checker.found
		line += fmt.Sprintf("job %d: lost %d, doubled %d; ", i+1, d.lost[i], v.doubled)
		dirty = dirty || !v.clean(false)
	}
	fmt.Printf("%s, transaction.version %d: %s%s\n", name, d.w.tv, line, what)
	if err == nil && dirty {
		err = fmt.Errorf("first %v, %v", d.jobs[0].checker.found.first, d.jobs[1].checker.found.first)
	}
	return err
}

// heal waits until everything that was written by now has come out of both jobs.
func (d *duo) heal() error {
	for i, tr := range d.jobs {
		written := tr.producer.soFar()
		for d.lost[i] = tr.checker.missing(written); d.lost[i] > 0; d.lost[i] = tr.checker.missing(written) {
			if err := tr.progress(d.p); err != nil {
				return tr.brokenRun(d.p, fmt.Errorf("job %d: %d records are missing: %w", i+1, d.lost[i], err))
			}
		}
	}
	return errors.Join(d.goOn(0, 1), d.awaitReady(http.StatusOK))
}

func (d *duo) variant(round int) (scenario, string) {
	all := variants()
	return all[round%len(all)], fmt.Sprintf("variant %d", round%len(all))
}

func (d *duo) change(round int) (what string, err error) {
	job := round % 2
	d.runs[job], what = d.variant(round)
	return what, d.put(http.MethodPut, job, d.runs[job])
}

func (d *duo) remake(round int) (what string, err error) {
	if err := d.do(http.MethodDelete, "/streams/first", ""); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), stallLimit)
	defer cancel()
	if err := nothingPending(ctx, d.jobs[0].cluster.Bootstrap(), d.jobs[0].names.Prefix); err != nil {
		return "", d.failed(fmt.Errorf("after the deletion: %w", err))
	}
	if err := d.goOn(1); err != nil {
		return "", err
	}
	d.runs[0], what = d.variant(round)
	return what, d.put(http.MethodPost, 0, d.runs[0])
}

// come posts a third stream that cannot run, waits until it says why, and sees the others go on.
func (d *duo) come(s scenario, n names, words string) (string, error) {
	from := fileSize(d.log())
	text, err := streamOf(s, n)
	if err != nil {
		return "", err
	}
	if err := d.do(http.MethodPost, "/streams/third", text); err != nil {
		return "", err
	}
	if err := awaitWords(d.p, d.log(), from, words); err != nil {
		return "", err
	}
	if err := errors.Join(d.goOn(0, 1), d.awaitReady(http.StatusServiceUnavailable)); err != nil {
		return "", err
	}
	began := time.Now()
	err = d.do(http.MethodDelete, "/streams/third", "")
	if took := time.Since(began); err == nil && took > quickDelete {
		err = d.failed(fmt.Errorf("the deletion of a stream that does not run took %v", took))
	}
	return fmt.Sprintf("unready, deleted in %v", time.Since(began).Round(time.Millisecond)), err
}

func (d *duo) rival(int) (string, error) {
	n := d.third
	n.Prefix = d.jobs[0].names.Prefix
	return d.come(d.runs[0], n, "is in use by stream ")
}

func (d *duo) buffered(int) (string, error) {
	s := patient
	s.input = "{{ source .In }}\n\nbuffer:\n  memory: {}"
	return d.come(s, d.third, "buffer: a memory buffer acknowledges records before they are written")
}

// fail gives a job a message that is refused, and no new attempt. The other one goes on, and the first one does when it
// is put there again.
func (d *duo) fail(round int) (string, error) {
	s := patient
	s.stumbles = true
	s.checkpoint += "\n      max_restarts: 0"
	from := fileSize(d.log())
	if err := d.put(http.MethodPut, 0, s); err != nil {
		return "", err
	}
	if err := awaitWords(d.p, d.log(), from, "max_restarts 0 exceeded"); err != nil {
		return "", err
	}
	if err := errors.Join(d.goOn(1), d.awaitReady(http.StatusServiceUnavailable)); err != nil {
		return "", err
	}
	began := time.Now()
	what, err := d.change(2 * round)
	if took := time.Since(began); err == nil && took > quickDelete {
		err = d.failed(fmt.Errorf("putting a stream in place of one that has failed took %v", took))
	}
	return "unready, then " + what, err
}

// taken lets a third stream run until another process takes its ids.
func (d *duo) taken(round int) (string, error) {
	n := d.third
	n.Group, n.Prefix = fmt.Sprintf("%s-%d", n.Group, round), fmt.Sprintf("%s-%d", n.Prefix, round)
	path := fmt.Sprintf("/streams/taken-%d", round)
	text, err := streamOf(patient, n)
	if err != nil {
		return "", err
	}
	if err := errors.Join(d.do(http.MethodPost, path, text), d.awaitReady(http.StatusOK)); err != nil {
		return "", err
	}
	from := fileSize(d.log())
	if err := takeIDs(d.jobs[0].cluster.Bootstrap(), n.Prefix); err != nil {
		return "", err
	}
	d.unwhole = true
	if err := awaitWords(d.p, d.log(), from, "taken over by another owner"); err != nil {
		return "", err
	}
	if err := errors.Join(d.goOn(0, 1), d.awaitReady(http.StatusServiceUnavailable)); err != nil {
		return "", err
	}
	began := time.Now()
	err = d.do(http.MethodDelete, path, "")
	took := time.Since(began)
	if err == nil && took > quickDelete {
		err = d.failed(fmt.Errorf("the deletion of a stream that has failed took %v", took))
	}
	return fmt.Sprintf("unready, deleted in %v", took.Round(time.Millisecond)), err
}

// takeIDs initialises all ids of a prefix.
func takeIDs(bootstrap []string, prefix string) error {
	ctx, cancel := context.WithTimeout(context.Background(), stallLimit)
	defer cancel()
	for n := range 5 {
		client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.TransactionalID(fmt.Sprintf("%s-0-%d", prefix, n)))
		if err != nil {
			return fmt.Errorf("taking ids: %w", err)
		}
		_, _, err = client.ProducerID(ctx)
		client.Close()
		if err != nil {
			return fmt.Errorf("taking ids: %w", err)
		}
	}
	return nil
}

func (d *duo) killed(round int) (string, error) {
	what := "killed"
	if round%2 == 0 { // in the middle of a change
		over := make(chan struct{})
		d.runs[0], what = d.variant(round)
		text, err := streamOf(d.runs[0], d.jobs[0].names)
		if err != nil {
			return "", err
		}
		go func() {
			defer close(over)
			_, _, _ = d.ask(http.MethodPut, "/streams/first", text) // whatever comes of it
		}()
		defer func() { <-over }()
	}
	after := time.Duration(d.rng.Int64N(int64(time.Second)))
	if err := d.jobs[round%2].followFor(d.p, after); err != nil {
		return "", err
	}
	d.p.Kill()
	return fmt.Sprintf("%s, after %v", what, after.Round(time.Millisecond)), d.start()
}

func (d *duo) stopped(int) (string, error) {
	took, err := d.stop()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("in %v", took.Round(time.Millisecond)), d.start()
}

// stop stops the process and checks what it leaves.
func (d *duo) stop() (time.Duration, error) {
	began := time.Now()
	d.p.Signal(syscall.SIGTERM)
	select {
	case <-d.p.Done():
	case <-time.After(exitLimit):
		return 0, d.failed(fmt.Errorf("it goes on %v after SIGTERM", exitLimit))
	}
	took := time.Since(began)
	code, words := lastWords(d.p, d.log())
	switch {
	case d.unwhole && (code != 1 || !strings.Contains(words, `stream "taken-`)):
		return took, d.failed(fmt.Errorf("a stream was left without its last checkpoint, and the exit code is %d", code))
	case !d.unwhole && code != 0:
		return took, d.failed(fmt.Errorf("a graceful stop: exit code %d", code))
	}
	for i, tr := range d.jobs {
		if err := tr.checkStopped(); err != nil {
			return took, d.failed(fmt.Errorf("job %d: %w", i+1, err))
		}
	}
	return took, nil
}

// end waits until everything has come out, stops the process and checks all of it.
func (d *duo) end(t *testing.T) {
	var due [][]int64
	for _, tr := range d.jobs {
		written, err := tr.producer.end(t.Context())
		require.NoError(t, err)
		expected := tr.checker.expected(written)
		for tr.checker.distinct < expected {
			require.NoError(t, tr.progress(d.p), "%d of %d records", tr.checker.distinct, expected)
		}
		due = append(due, slices.Clone(written))
	}
	_, err := d.stop()
	require.NoError(t, err)
	for i, tr := range d.jobs {
		v := tr.checker.result(due[i])
		fmt.Printf("streams: job %d, transaction.version %d: in the end %v\n", i+1, d.w.tv, v)
		require.True(t, v.clean(false), v)
		require.Positive(t, v.in)
	}
	text, err := os.ReadFile(d.log())
	require.NoError(t, err)
	require.NotContains(t, string(text), "WARNING: DATA RACE")
}

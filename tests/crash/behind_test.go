package crash

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/tests/binary"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// senders is how many HTTP clients there are; each waits for its answer before it sends more.
const senders = 16

// onItsWay is how far behind the last value that came one may be missing after a kill: as many as the job can hold, and
// some more, since writers overtake each other.
const onItsWay = 200

// eachBehind runs a test of an input without checkpoints, where it is asked for, with few kills unless it is asked for by
// name.
func eachBehind(t *testing.T, name string, test func(t *testing.T, w *writesOf, kills, stops int)) {
	_, _, picked, err := split(*flagScenario)
	require.NoError(t, err)
	if *flagScenario != "" && !slices.Contains(picked, name) {
		t.Skip("the scenarios that are asked for do not include " + name)
	}
	kills, stops := 3, 1
	if *flagScenario != "" {
		kills, stops = 10, 3
	}
	if *flagN > 0 {
		kills, stops = *flagN, (*flagN+2)/3
	}
	connect := binary.Connect(t)
	eachVersion(t, func(t *testing.T, tv int) {
		test(t, &writesOf{name: name, tv: tv, connect: connect, seed: seedOf(t), alone: *flagScenario != ""}, kills, stops)
	})
}

// writesOf is what the jobs of one test have in common.
type writesOf struct {
	name, connect string
	tv            int
	seed          uint64
	// alone is set where the broker is this test's own, and may be killed.
	alone bool
}

func (o *writesOf) job(t *testing.T, address, input, processors string) *writes {
	var cluster *realkafka.Cluster
	if o.alone {
		options := optionsOf(t, o.tv)
		options.Brokers = 1
		cluster = realkafka.Start(t, options)
	} else {
		cluster = clusterOf(t, o.tv)
	}
	w, err := newWrites(namesOf(t, cluster, o.tv), cluster, o.connect, address, fmt.Sprintf(behindText, input, processors), rand.New(rand.NewPCG(o.seed, 0)))
	require.NoError(t, err)
	t.Cleanup(w.observer.Close)
	return w
}

// suffer kills and stops the job, runs it once more, and reads everything.
func (o *writesOf) suffer(t *testing.T, w *writes, kills, stops int, finish func()) {
	ctx, cancel := context.WithCancel(context.Background())
	watched := make(chan error, 1)
	go func() { watched <- w.watch(ctx) }()
	defer cancel()
	for i := range kills {
		require.NoError(t, w.strike(syscall.SIGKILL, o.alone), "kill %d of %d, seed %d", i+1, kills, o.seed)
	}
	for i := range stops {
		require.NoError(t, w.strike(syscall.SIGTERM, false), "stop %d of %d, seed %d", i+1, stops, o.seed)
	}
	p, err := w.start()
	require.NoError(t, err)
	defer p.Kill()
	require.NoError(t, w.progress(p))
	finish()
	require.NoError(t, w.stop(p))
	cancel()
	require.NoError(t, <-watched)
	require.NoError(t, w.readToEnd())
}

// TestCrashBehindHTTPKeepsWhatWasAnswered: what a sender was told to be there is there, each request as a whole; twice
// only what was sent again because there was no answer.
func TestCrashBehindHTTPKeepsWhatWasAnswered(t *testing.T) {
	eachBehind(t, "http", func(t *testing.T, o *writesOf, kills, stops int) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		address := l.Addr().String()
		require.NoError(t, l.Close())
		w := o.job(t, address, httpInput, "{ unarchive: { format: lines } }")
		s := newSender("http://"+address+"/in", 0)
		defer s.stop()
		o.suffer(t, w, kills, stops, s.stop)
		fmt.Printf("http: seed %d, transaction.version %d, %d kills and stops: %s\n", o.seed, o.tv, w.kills, s.judge(t, o, w))
	})
}

// httpInput is an HTTP server.
const httpInput = `
  http_server:
    address: ${ADDRESS}
    path: /in
    timeout: 60s`

// sender sends requests of three values each, and each again until it is answered with 200.
type sender struct {
	url  string
	end  context.CancelFunc
	wg   sync.WaitGroup
	mu   sync.Mutex
	sent map[string]*request
	// answers counts what came back.
	answers map[string]int
}

type request struct {
	// times is how often it may have been taken: not where nobody listened, nor where it was certainly refused.
	times    int
	answered bool
}

// newSender starts the clients; each rests between two requests.
func newSender(url string, rest time.Duration) *sender {
	s := &sender{url: url, sent: map[string]*request{}, answers: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	s.end = cancel
	for i := range senders {
		s.wg.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for n := 0; ctx.Err() == nil; n++ {
				s.send(ctx, client, fmt.Sprintf("%d-%d", i, n))
				if rest > 0 {
					pause(ctx, rest)
				}
			}
		})
	}
	return s
}

// pause waits, but not beyond the end of the context.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// stop lets every sender get its last answer.
func (s *sender) stop() {
	s.end()
	s.wg.Wait()
}

func (s *sender) send(ctx context.Context, client *http.Client, name string) {
	r := &request{}
	s.mu.Lock()
	s.sent[name] = r
	s.mu.Unlock()
	for {
		answer, taken := s.post(client, name)
		s.mu.Lock()
		s.answers[answer]++
		if taken {
			r.times++
		}
		r.answered = answer == "200"
		s.mu.Unlock()
		if r.answered {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// post returns what came back, and whether the request may have been taken.
func (s *sender) post(client *http.Client, name string) (answer string, taken bool) {
	resp, err := client.Post(s.url, "text/plain", strings.NewReader(name+"/0\n"+name+"/1\n"+name+"/2"))
	if err != nil {
		_, dial := errors.AsType[*net.OpError](err)
		if dial && strings.Contains(err.Error(), "dial") {
			return "nobody listens", false
		}
		return "cut off", true
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return strconv.Itoa(resp.StatusCode), resp.StatusCode != http.StatusBadGateway
}

// judge returns its line.
func (s *sender) judge(t *testing.T, o *writesOf, w *writes) string {
	var answered, lost, partly, doubled, tooOften, foreign int
	for name, r := range s.sent {
		n := w.seen[name+"/0"]
		switch {
		case n != w.seen[name+"/1"] || n != w.seen[name+"/2"]:
			partly++
		case r.answered && n == 0:
			lost++
		case n > r.times:
			tooOften++
		case n > 1:
			doubled++
		}
		if r.answered {
			answered++
		}
	}
	for value := range w.seen {
		name, _, _ := strings.Cut(value, "/")
		if s.sent[name] == nil {
			foreign++
		}
	}
	line := fmt.Sprintf("answered %d of %d requests, lost %d, partly there %d, "+
		"twice after being sent again %d, too often %d, foreign %d; answers %v", answered, len(s.sent), lost, partly, doubled, tooOften, foreign, s.answers)
	require.Zero(t, lost+partly+tooOften+foreign, "seed %d: %s", o.seed, line)
	require.Positive(t, answered)
	return line
}

// TestCrashBehindASocketLosesOnlyWhatWasOnItsWay: a socket has no acknowledgements, so what was taken and not committed
// at a kill is gone; nothing comes twice, and at a stop nothing that was taken is lost.
func TestCrashBehindASocketLosesOnlyWhatWasOnItsWay(t *testing.T) {
	eachBehind(t, "socket", func(t *testing.T, o *writesOf, kills, stops int) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer func() { _ = l.Close() }()
		wg.Go(func() { serveLines(l, &wg) })
		w := o.job(t, l.Addr().String(), `
  socket:
    network: tcp
    address: ${ADDRESS}`, "{ mapping: 'root = content()' }")
		o.suffer(t, w, kills, stops, func() {})
		judgeRuns(t, o, w, kills)
	})
}

// serveLines writes numbered lines to whoever connects, for as long as he stays: "<connection>-<number>".
func serveLines(l net.Listener, wg *sync.WaitGroup) {
	for c := 1; ; c++ {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		wg.Go(func() {
			defer func() { _ = conn.Close() }()
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			out := bufio.NewWriter(conn)
			for n := 0; ; n++ {
				fmt.Fprintf(out, "%d-%d\n", c, n)
				if n%5 != 4 {
					continue
				}
				if err := out.Flush(); err != nil {
					return
				}
				<-tick.C
			}
		})
	}
}

// TestCrashBehindAGeneratorLosesOnlyWhatWasOnItsWay is the same with Benthos's own generator.
func TestCrashBehindAGeneratorLosesOnlyWhatWasOnItsWay(t *testing.T) {
	eachBehind(t, "generate", func(t *testing.T, o *writesOf, kills, stops int) {
		w := o.job(t, "", `
  generate:
    interval: 1ms
    mapping: root = "${RUN}-" + (counter(min:0)).string()`, "{ mapping: 'root = content()' }")
		o.suffer(t, w, kills, stops, func() {})
		judgeRuns(t, o, w, kills)
	})
}

// judgeRuns looks at values "<run>-<number>". Of a run that was killed only the last ones may be missing; of one that was
// stopped, as all runs after the kills were, nothing between the first and the last.
func judgeRuns(t *testing.T, o *writesOf, w *writes, kills int) {
	last := map[int]int{}
	doubled := 0
	for value, times := range w.seen {
		run, n := runOf(t, value)
		last[run] = max(last[run], n)
		if times > 1 {
			doubled++
		}
	}
	gone, lost := 0, 0
	for run, end := range last {
		for n := range end {
			switch {
			case w.seen[fmt.Sprintf("%d-%d", run, n)] > 0:
			case run <= kills && n > end-onItsWay:
				gone++
			default:
				lost++
			}
		}
	}
	fmt.Printf("%s: seed %d, transaction.version %d, %d kills and stops: came %d of %d runs, on their way at a kill and overtaken %d, "+
		"lost %d, doubled %d\n", o.name, o.seed, o.tv, w.kills, len(w.seen), len(last), gone, lost, doubled)
	require.Zero(t, lost+doubled, "seed %d", o.seed)
	require.NotEmpty(t, last)
}

func runOf(t *testing.T, value string) (run, n int) {
	left, right, ok := strings.Cut(value, "-")
	require.True(t, ok, value)
	run, err := strconv.Atoi(left)
	require.NoError(t, err, value)
	n, err = strconv.Atoi(right)
	require.NoError(t, err, value)
	return run, n
}

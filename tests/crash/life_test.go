package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/child"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// lifeBench has pipelines of one scenario live, one after another, until they were killed often enough.
type lifeBench struct {
	scenario scenario
	cluster  *realkafka.Cluster
	tv       int
	connect  string
	kills    int
	rng      *rand.Rand
	producer *producer
	in       string

	// next is the point that is tried next. hits counts the moments at which they were killed, again the kills before anything was durable.
	next    int
	hits    map[string]int
	killed  int
	again   int
	lives   int
	verdict verdict
}

// life is a pipeline from its first start to its last.
type life struct {
	*trial
	bench *lifeBench
	// first is what the store has said when it first held a record; nil before that.
	first *outlook
	// begins and stops are what the config of a bounded one says, with -1 for the end of the log, or nil where it says no
	// numbers; written is how many records there were when it was born.
	begins, stops, written []int64
}

// eachLife runs a test for each of the scenarios that are asked for; unasked, for the first few, with few kills, and then
// wrong, which shows that the test would notice.
func eachLife(t *testing.T, all []scenario, few, fewKills int, wrong, test func(*testing.T, *lifeBench)) {
	picked, kills := pickKind(all, *flagScenario), *flagN
	if *flagScenario == "" {
		picked, kills = all[:few], fewKills
	}
	if len(picked) == 0 {
		t.Skip("the scenarios that are asked for are none of this test's")
	}
	if kills == 0 {
		kills = 20
	}
	connect := killable(t)
	eachVersion(t, func(t *testing.T, tv int) {
		cluster := clusterOf(t, tv)
		for _, s := range picked {
			t.Run(s.name, func(t *testing.T) {
				seed := seedOf(t)
				b := newLifeBench(t, s, cluster, tv, connect, seed)
				b.kills = kills
				began := time.Now()
				defer func() {
					fmt.Printf("%s: seed %d, transaction.version %d, %d lives, SIGKILL %d times (%d before anything was durable), %v, took %v, killed at %v\n",
						s.name, seed, tv, b.lives, b.killed, b.again, b.verdict, time.Since(began).Round(time.Second), b.hits)
				}()
				test(t, b)
			})
		}
		if *flagScenario == "" {
			t.Run("would be noticed", func(t *testing.T) { wrong(t, newLifeBench(t, all[0], cluster, tv, connect, 1)) })
		}
	})
}

// newLifeBench starts to write the topic that all lives read.
func newLifeBench(t *testing.T, s scenario, cluster *realkafka.Cluster, tv int, connect string, seed uint64) *lifeBench {
	b := &lifeBench{
		scenario: s, cluster: cluster, tv: tv, connect: connect, rng: rand.New(rand.NewPCG(seed, 0)), in: cluster.Topic(t, partitions),
		hits: map[string]int{},
	}
	b.next = b.rng.IntN(100) // a few kills are to be others each time
	var err error
	b.producer, err = startProducer(cluster.Bootstrap(), []string{b.in}, partitions, livesRate, clocked)
	require.NoError(t, err)
	t.Cleanup(func() {
		b.producer.stop()
		<-b.producer.ended
		b.producer.client.Close()
	})
	return b
}

// begin is the birth of a pipeline. What it is to do is decided later, so that all it brings counts for now.
func (b *lifeBench) begin(t *testing.T, s scenario) *life {
	b.lives++
	n := namesOf(t, b.cluster, b.tv)
	n.In = b.in
	l := &life{bench: b, trial: &trial{
		scenario: s, names: n, cluster: b.cluster, binary: b.connect, rng: b.rng, stall: stallLimit, producer: b.producer,
	}}
	require.NoError(t, l.look())
	l.checker.wanted = func(int32, int64) bool { return true }
	return l
}

// end adds up what has become of a life.
func (b *lifeBench) end(t *testing.T, l *life, v verdict) {
	l.observer.Close()
	if v.clean(b.scenario.repeats) {
		v.first = nil // records that may come twice are no finding
	}
	b.verdict.add(v)
	require.True(t, v.clean(b.scenario.repeats), "life %d: %v", b.lives, l.failed(fmt.Errorf("%v", v)))
	require.Positive(t, v.in, "life %d has copied something", b.lives)
}

// configure writes the config with an interval between checkpoints.
func (l *life) configure(interval string) error {
	s := l.scenario
	s.checkpoint = "interval: " + interval + "\n" + s.checkpoint
	return l.moved(s, l.names.Dir)
}

// dieAt starts the pipeline and kills it: at a point, or within a time where that is empty. One with an end may come to it
// before.
func (l *life) dieAt(point string, within time.Duration) (ended bool, err error) {
	limit, what := stallLimit, point
	if point == "" {
		limit, what = time.Duration(l.rng.Int64N(int64(within))), "any moment"
	}
	p, err := l.start("TIDEGATE_KILL_AT=" + point)
	if err != nil {
		return false, err
	}
	defer p.Kill()
	if err := l.followFor(p, limit); err != nil && !errors.Is(err, errEnded) {
		return false, l.failed(err)
	}
	if !p.Ended() && point != "" {
		return false, l.failed(fmt.Errorf("%s has not come for %s", point, limit))
	}
	p.Kill()
	switch {
	case killedBy(p.Err()) == syscall.SIGKILL:
		l.kills++
		l.bench.killed++
		l.bench.hits[what]++
	case l.scenario.bounded == "" || p.Err() != nil:
		return false, l.brokenRun(p, errEnded)
	default:
		return true, nil
	}
	return false, nil
}

// outlook is what `connect offsets` says of a pipeline that does not run: where each partition goes on, and where it stops.
type outlook struct {
	// durable is set where a record is there, and checkpoint is the newest one of its, 0 for none.
	durable    bool
	checkpoint uint64
	begin      []int64
	stop       []int64 // -1 for none
}

func (l *life) outlook() (*outlook, error) {
	var out, problems bytes.Buffer
	cmd := exec.Command(l.binary, "offsets", "--json", l.conf())
	cmd.Env, cmd.Stdout, cmd.Stderr = os.Environ(), &out, &problems
	if err := child.Run(cmd); err != nil {
		return nil, l.failed(fmt.Errorf("looking at the offsets: %w: %s", err, &problems))
	}
	var said struct {
		Sources []struct {
			Checkpoint *struct {
				Number uint64 `json:"checkpoint"`
			} `json:"checkpoint"`
			Partitions []struct {
				Offset int64  `json:"offset"`
				Stop   *int64 `json:"stop"`
			} `json:"partitions"`
		} `json:"sources"`
	}
	if err := json.Unmarshal(out.Bytes(), &said); err != nil || len(said.Sources) != 1 {
		return nil, fmt.Errorf("looking at the offsets: %w: %s", err, &out)
	}
	source, o := said.Sources[0], new(outlook)
	if source.Checkpoint != nil {
		o.durable, o.checkpoint = true, source.Checkpoint.Number
	}
	for _, p := range source.Partitions {
		stop := int64(-1)
		if p.Stop != nil {
			stop = *p.Stop
		}
		o.begin, o.stop = append(o.begin, p.Offset), append(o.stop, stop)
	}
	return o, nil
}

// remember looks at the store of a pipeline that was killed. What its first record says is what it has decided, once and
// for all (rule 2): no later one may say otherwise, and before it the group knows nothing.
func (l *life) remember() error {
	o, err := l.outlook()
	if err != nil {
		return err
	}
	group, err := l.groupKnows()
	if err != nil {
		return err
	}
	switch {
	case !o.durable && l.first != nil:
		return l.failed(errors.New("there was a record, and is none any more"))
	case !o.durable && group != nil:
		return l.failed(fmt.Errorf("nothing is durable, and the group has %v", group))
	case !o.durable:
		l.bench.again++
		return nil
	case l.first == nil:
		l.first = o
	}
	switch {
	case !slices.Equal(o.stop, l.first.stop):
		return l.failed(fmt.Errorf("it was to stop at %v, and now at %v", l.first.stop, o.stop))
	case o.checkpoint > 0:
	case !slices.Equal(o.begin, l.first.begin):
		return l.failed(fmt.Errorf("it was to begin at %v, and now at %v", l.first.begin, o.begin))
	case l.begins != nil && !slices.Equal(o.begin, l.begins):
		return l.failed(fmt.Errorf("it is told to begin at %v, and is to begin at %v", l.begins, o.begin))
	case group != nil && !slices.Equal(group, o.begin):
		return l.failed(fmt.Errorf("it is to begin at %v, and the group has %v", o.begin, group))
	}
	return nil
}

// groupKnows are the offsets in the group, nil for none.
func (l *life) groupKnows() ([]int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stallLimit)
	defer cancel()
	offsets, err := groupOffsets(ctx, l.cluster.Bootstrap(), l.names.Group, l.names.In)
	if err != nil || len(offsets) == 0 {
		return nil, err
	}
	return l.committed(ctx)
}

// loseState takes the store away, and has the next start not mind.
func (l *life) loseState() error {
	if err := os.RemoveAll(l.state()); err != nil {
		return err
	}
	l.scenario.startup = "{ ignore_missing_state: true, " + l.scenario.startup[1:]
	return nil
}

func TestLivesAreKnownByName(t *testing.T) {
	require.Len(t, pickKind(lives(), "latest"), len(beginning))
	require.Len(t, pickKind(lives(), "bounded"), len(stopping))
	require.Len(t, pickKind(lives(), "copy,parallelism/two"), 1)
	for _, s := range lives() {
		picked, _, _, err := split(s.name)
		require.NoError(t, err)
		require.Empty(t, picked)
		require.Empty(t, pickShapes(s.name))
		text, err := s.config(names{Dir: "/tmp/x", Prefix: "p"})
		require.NoError(t, err)
		require.NotContains(t, string(text), "<no value>")
	}
}

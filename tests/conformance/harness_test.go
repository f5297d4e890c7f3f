package conformance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/tidegate/tidegate/tests/realkafka"
	"github.com/tidegate/tidegate/tests/streams"
	"github.com/tidegate/tidegate/tests/topics"
)

func TestMain(m *testing.M) { realkafka.Main(m) }

// m is a piece of config.
type m = map[string]any

// env is what all tests share.
type env struct {
	host   *streams.Host
	broker *kfake.Cluster
	// world has the topics that tests only read.
	world *topics.World
}

func newEnv(t *testing.T) *env {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ClusterID("conformance"))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	e := &env{host: streams.Start(t), broker: c, world: topics.New(t, c.ListenAddrs(), "shared")}
	names := []string{"fixture", "pair", "gaps", "empty"}
	for _, topic := range names {
		e.world.Create(topic)
	}
	for _, group := range topics.Groups() {
		e.world.Commit(group, names...)
	}
	return e
}

// job is a test with a stream of its own.
type job struct {
	*env
	t     *testing.T
	world *topics.World
	id    string
}

// own gives the test topics and a group of its own on the embedded broker.
func (j *job) own(group string, names ...string) {
	j.t.Helper()
	j.at(j.broker.ListenAddrs(), group, names...)
}

// onKafka gives it topics on a real Kafka.
func (j *job) onKafka(group string, names ...string) {
	j.t.Helper()
	j.at(realkafka.Shared(j.t).Bootstrap(), group, names...)
}

func (j *job) at(bootstrap []string, group string, names ...string) {
	j.t.Helper()
	j.world = topics.New(j.t, bootstrap, "own-"+j.id)
	for _, name := range names {
		j.world.Create(name)
	}
	j.world.Commit(group, names...)
}

// real are the real names of topics, or of partitions.
func (j *job) real(names []string) []string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = j.world.Topic(n)
	}
	return all
}

// source is a config that reads topics, with whatever else there is.
func (j *job) source(group string, names []string, more m) m {
	s := m{"bootstrap_servers": j.world.Bootstrap}
	if names != nil {
		s["topics"] = j.real(names)
	}
	if group != "" {
		s["group_id"] = j.world.Group(group)
		if more["checkpoint"] == nil && more["auto_commit"] == nil {
			s["auto_commit"] = m{"enabled": false}
		}
	}
	for k, v := range more {
		s[k] = v
	}
	return s
}

// start starts the test's stream, again where it has one that was stopped.
func (j *job) start(source m) *streams.Stream {
	j.t.Helper()
	s := j.host.Run(j.id, source)
	j.t.Cleanup(s.Stop)
	return s
}

// ends waits for the end and returns what was read.
func (j *job) ends(s *streams.Stream) map[string]string {
	j.t.Helper()
	select {
	case <-s.Done():
	case <-time.After(streams.Patience):
		j.t.Fatalf("it goes on, with %v", j.ranges(s))
	}
	require.Empty(j.t, s.Failure())
	return j.ranges(s)
}

func (j *job) ranges(s *streams.Stream) map[string]string {
	return streams.Ranges(s.Rows(), j.world.Logical)
}

// refused waits for the failure.
func (j *job) refused(s *streams.Stream, parts ...string) {
	j.t.Helper()
	select {
	case <-s.Done():
	case <-time.After(streams.Patience):
		j.t.Fatalf("it goes on, with %v", j.ranges(s))
	}
	require.NotEmpty(j.t, s.Failure(), "it has ended well, with %v", j.ranges(s))
	for _, part := range parts {
		require.Contains(j.t, s.Failure(), part)
	}
}

// goesOn makes sure that a stream runs and stays as it is, as far as a while can tell.
func (j *job) goesOn(s *streams.Stream, want map[string]string) {
	j.t.Helper()
	select {
	case <-s.Done():
		j.t.Fatalf("it has ended: %s", s.Failure())
	case <-time.After(400 * time.Millisecond):
	}
	require.Equal(j.t, want, j.ranges(s))
}

// reads waits until a stream has read exactly this.
func (j *job) reads(s *streams.Stream, want map[string]string) {
	j.t.Helper()
	j.eventually(func() bool { return fmt.Sprint(j.ranges(s)) == fmt.Sprint(want) }, func() string { return fmt.Sprint(j.ranges(s)) })
}

// commits waits until the group's offsets are these.
func (j *job) commits(group string, want map[string]int64) {
	j.t.Helper()
	j.eventually(func() bool { return fmt.Sprint(j.world.Offsets(group)) == fmt.Sprint(want) },
		func() string { return fmt.Sprint(j.world.Offsets(group)) })
}

func (j *job) eventually(is func() bool, now func() string) {
	j.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(streams.Patience)
	for !is() {
		select {
		case <-tick.C:
		case <-timeout:
			j.t.Fatalf("after %v there is %s", streams.Patience, now())
		}
	}
}

// fixtureFrom is what is read of the fixture from an offset of each partition to the end.
func fixtureFrom(begin func(p int) int) map[string]string {
	return fixtureRange(begin, func(int) int { return 10 })
}

func fixtureRange(begin, end func(p int) int) map[string]string {
	out := map[string]string{}
	for p := range 10 {
		from, to := begin(p), end(p)-1
		switch {
		case from == to:
			out[fmt.Sprintf("fixture-%d", p)] = fmt.Sprint(from)
		case from < to:
			out[fmt.Sprintf("fixture-%d", p)] = fmt.Sprintf("%d-%d", from, to)
		}
	}
	return out
}

// TestConformance is every id that has a test here.
func TestConformance(t *testing.T) {
	e := newEnv(t)
	byID := map[string][]read{}
	for _, r := range reads() {
		byID[r.id] = append(byID[r.id], r)
	}
	for _, id := range strings.Fields(ids) {
		for i, r := range byID[id] {
			t.Run(id+"/"+r.about, func(t *testing.T) {
				t.Parallel()
				r.run(&job{env: e, t: t, world: e.world, id: fmt.Sprintf("%s_%d", id, i)})
			})
		}
		if do, ok := behaviours[id]; ok {
			t.Run(id, func(t *testing.T) {
				t.Parallel()
				do(&job{env: e, t: t, world: e.world, id: id})
			})
		}
	}
}

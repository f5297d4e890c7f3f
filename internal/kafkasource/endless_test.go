package kafkasource

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/offsets"
)

// keepRunning ends partitions where the group has committed, and stays.
func keepRunning(b *broker, topics ...string) Config {
	cfg := discovering(b, soon, topics...)
	cfg.Start = offsets.Start{Mode: offsets.EarliestStart}
	cfg.Group, cfg.Stop = "g", offsets.Stop{Mode: offsets.GroupStop, Group: "g", KeepRunning: true}
	return cfg
}

// In Flink's setUnbounded(committedOffsets()) the job dies of the partition without a committed offset, again and again.
func TestNewPartitionWithoutACommittedStopWaitsAndHoldsNothingUp(t *testing.T) {
	t.Parallel()
	onBothBrokers(t, func(t *testing.T, b *broker, name string) {
		group := "g-" + name
		b.create(name)
		b.produce(name, 0, "x0", "x1")
		b.commit(group, name, 1)
		cfg := keepRunning(b, name)
		cfg.Group, cfg.Stop.Group = group, group
		s := newSource(t, cfg)
		s.resolve(nil)
		require.Equal(t, []string{name + "-0@0=x0"}, s.read(1))
		known := s.pause()
		waiting := s.background()

		b.grow(name, 2)
		b.produce(name, 1, "y0", "y1")
		b.produce(name, 2, "z0", "z1")
		s.logged(`new partitions are not read yet`)
		stays(t, waiting)
		b.commit(group, name, 1, 0, 1) // nothing before it in one, one record in the other
		got := receive(t, waiting, "the record before the committed offset")
		got.Ack(t.Context(), nil)
		require.Len(t, got.Records, 1)
		require.Equal(t, "z0", string(got.Records[0].Value))
		s.awaitReading(3)
		require.Equal(t, []int64{1, 0, 1}, offsetsOf(s.pause()))
		stays(t, s.background())
		require.LessOrEqual(t, strings.Count(s.log.String(), "level=WARN"), 2, "once for each partition at most: %s", s.log)
		require.Empty(t, s.seat.failed)
		require.Empty(t, s.seat.fatal)

		// A partition that was added while no process ran waits as well, and is read from its beginning once it has an end.
		b.grow(name, 1)
		b.produce(name, 3, "w0", "w1")
		later := newSource(t, cfg)
		require.Len(t, later.resolve(&known).Splits, 3)
		later.logged("new partitions are not read yet")
		waiting = later.background()
		require.Equal(t, "z0", string(receive(t, waiting, "what the old checkpoint lacks").Records[0].Value))
		waiting = later.background()
		b.commit(group, name, 1, 0, 1, 1)
		require.Equal(t, "w0", string(receive(t, waiting, "the record of the new partition").Records[0].Value))
	})
}

// At the first start a partition without a committed offset is a wrong group, as in Flink; and where the end of all is the
// end of the job, one that waits would keep it from ending.
func TestPartitionWithoutACommittedStopEndsTheStartElsewhere(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	_, err := newSource(t, keepRunning(b, "a")).Resolve(t.Context(), nil)
	require.ErrorAs(t, err, new(*offsets.NoCommittedStopError))

	b.commit("g", "a", 0)
	cfg := keepRunning(b, "a")
	cfg.Stop.KeepRunning = false
	known, err := newSource(t, cfg).Resolve(t.Context(), nil)
	require.NoError(t, err)
	b.grow("a", 1)
	_, err = newSource(t, cfg).Resolve(t.Context(), &known)
	require.ErrorAs(t, err, new(*offsets.NoCommittedStopError))
}

// Where nothing looks for new partitions, nobody is to wait for one.
func TestANewPartitionThatWaitsIsSaidToWaitForAStartWhereDiscoveryIsOff(t *testing.T) {
	for name, tc := range map[string]struct {
		interval time.Duration
		says     string
	}{
		"on":  {soon, "they are read once it has"},
		"off": {0, "they are read by the first start after it has"},
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeBroker(t, 1, "a")
			b.commit("g", "a", 0)
			cfg := keepRunning(b, "a")
			cfg.DiscoveryInterval = tc.interval
			known, err := newSource(t, cfg).Resolve(t.Context(), nil)
			require.NoError(t, err)
			b.grow("a", 1)
			s := newSource(t, cfg)
			require.Len(t, s.resolve(&known).Splits, 1)
			require.Contains(t, s.log.String(), tc.says)
		})
	}
}

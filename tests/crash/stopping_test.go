package crash

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ahead is how many records of each partition lie before a bounded pipeline when it is first started, about.
const ahead = 150

// atEnd is when everything is emitted. The last checkpoint follows, and after its commit the closing record.
const atEnd = "running/event/AtEnd"

func (b *lifeBench) pointsOfEnd() []string {
	before, after := "store/pebble/before commit", "store/pebble/after commit"
	if b.scenario.store == filesStore {
		before, after = "store/file/before rename", "store/file/after rename"
	}
	points := []string{atEnd}
	for _, then := range []string{
		"running/action/Pause", "running/event/Drained", "running/event/Flushed", "running/action/Seal", "running/event/Sealed",
		"running/action/Write", before, after, "running/event/WriteDone", "running/action/Commit", "running/event/CommitDone",
		"running/action/CommitOffsets", "running/action/Write#2", before + "#2", after + "#2", "running/event/WriteDone#2",
		"running/action/Finish", "running/event/Closing",
	} {
		points = append(points, atEnd+">"+then)
	}
	return points
}

// TestCrashKeepsTheEnd kills pipelines that have an end, at random and around it, while their input grows beyond it. What
// comes out is what lies before the stop that the first start has decided, and a start after the end changes nothing.
func TestCrashKeepsTheEnd(t *testing.T) {
	eachLife(t, stopping, len(stopping), 1, stopAnew, func(t *testing.T, b *lifeBench) {
		require.NoError(t, b.await(ahead, ahead, ahead, ahead))
		for b.killed < b.kills {
			require.Less(t, b.lives, 3*b.kills+10, "%d lives could be killed only %d times", b.lives, b.killed)
			l := b.beginBounded(t)
			require.NoError(t, l.endUnderKills(), "life %d", b.lives)
			v, err := l.runToEnd()
			require.NoError(t, err, "life %d", b.lives)
			b.end(t, l, v)
		}
	})
}

// await waits until each partition has more than so many records.
func (b *lifeBench) await(records ...int64) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(stallLimit)
	for p := range records {
		for b.producer.soFar()[p] <= records[p] {
			select {
			case <-tick.C:
			case <-limit:
				return fmt.Errorf("partition %d has not got more than %d records", p, records[p])
			}
		}
	}
	return nil
}

// beginBounded is the birth of a pipeline that begins a little before the end of its input.
func (b *lifeBench) beginBounded(t *testing.T) *life {
	s, now := b.scenario, b.producer.soFar()
	begin := slices.Clone(now)
	for p := range begin {
		begin[p] -= ahead
	}
	s.startup = fmt.Sprintf(`{ mode: specific-offsets, specific_offsets: %q }`, eachFrom(begin))
	var stop []int64
	if strings.Contains(s.bounded, "%s") {
		// One stop is waited for, one is the end of the log when it is asked for, one is behind it, and one is where it begins.
		stop = []int64{now[0] + ahead, -1, now[2] - ahead/2, begin[3]}
		s.bounded = fmt.Sprintf(s.bounded, eachFrom(stop))
	}
	l := b.begin(t, s)
	l.begins, l.stops, l.written = begin, stop, now
	l.checker.wanted = func(p int32, n int64) bool { return n >= begin[p] }
	return l
}

// endUnderKills kills the pipeline: every second one on its way, then at a point of its end, then some once more.
func (l *life) endUnderKills() error {
	b := l.bench
	if b.lives%2 == 0 {
		if ended, err := l.dieOnTheWay("", "100ms"); ended || err != nil || b.killed >= b.kills {
			return err
		}
	}
	points := b.pointsOfEnd()
	b.next++
	// With no checkpoint before it the last one has everything to do.
	if ended, err := l.dieOnTheWay(points[b.next%len(points)], "1m"); ended || err != nil || b.killed >= b.kills || l.rng.IntN(4) > 0 {
		return err
	}
	_, err := l.dieOnTheWay("", "100ms")
	return err
}

func (l *life) dieOnTheWay(point, interval string) (ended bool, err error) {
	if err := l.configure(interval); err != nil {
		return false, err
	}
	if ended, err = l.dieAt(point, 1200*time.Millisecond); err != nil {
		return ended, err
	}
	return ended, l.remember()
}

// runToEnd runs the pipeline to its end, and once more, and says what has become of the records before its stop.
func (l *life) runToEnd() (verdict, error) {
	if err := l.configure("100ms"); err != nil {
		return verdict{}, err
	}
	if ended, err := l.runOrKill(false, 0, 0); err != nil || !ended {
		return verdict{}, err
	}
	if err := l.checkStopped(); err != nil {
		return verdict{}, l.failed(fmt.Errorf("after the end: %w", err))
	}
	if err := l.remember(); err != nil {
		return verdict{}, err
	}
	after, err := l.outlook()
	if err != nil {
		return verdict{}, err
	}
	if err := l.asDecided(after); err != nil {
		return verdict{}, l.failed(err)
	}
	v := l.checker.result(l.first.stop)
	if err := l.bench.await(l.first.stop...); err != nil {
		return v, err
	}
	if err := l.onceMore(l.first.stop, v); err != nil {
		return v, l.failed(fmt.Errorf("starting it once more after its end: %w", err))
	}
	return v, nil
}

// asDecided compares what a pipeline has come to with its config.
func (l *life) asDecided(after *outlook) error {
	if !slices.Equal(after.begin, l.first.stop) {
		return fmt.Errorf("it has ended at %v, and was to stop at %v", after.begin, l.first.stop)
	}
	for p, stop := range l.first.stop {
		switch {
		case l.stops != nil && l.stops[p] >= 0:
			if stop != l.stops[p] {
				return fmt.Errorf("partition %d was to stop at %d, and did at %d", p, l.stops[p], stop)
			}
		case strings.Contains(l.scenario.bounded, "timestamp"):
			if stop <= l.begins[p] {
				return fmt.Errorf("partition %d was to stop about now, and did at %d, where it began", p, stop)
			}
		case stop < l.written[p]:
			return fmt.Errorf("partition %d had %d records before the start, and stopped at %d", p, l.written[p], stop)
		}
	}
	return nil
}

// stopAnew takes the record of the first stop away: the trial notices what comes from beyond it.
func stopAnew(t *testing.T, b *lifeBench) {
	require.NoError(t, b.await(ahead, ahead, ahead, ahead))
	l := b.beginBounded(t)
	defer l.observer.Close()
	ended, err := l.dieOnTheWay("running/action/StartSource", "100ms")
	require.NoError(t, err)
	require.False(t, ended)
	first := *l.first
	require.NoError(t, l.loseState())
	l.first = nil
	v, err := l.runToEnd()
	require.NoError(t, err)
	require.True(t, v.clean(false), "it is as it was decided anew")
	l.first = &first
	require.ErrorContains(t, l.remember(), "it was to stop at")
	require.Positive(t, l.checker.result(first.stop).foreign)
}

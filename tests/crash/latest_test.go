package crash

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The moments of a first start, in their order: before its positions are durable, while they become so, and right after.
// The last ones are before the first checkpoint is durable.
const firstWrite, firstCheckpoint = "first record/action/Write", "running/action/Write"

func (b *lifeBench) pointsOfFirstStart() []string {
	store := []string{"store/pebble/before commit", "store/pebble/after commit"}
	if b.scenario.store == filesStore {
		store = []string{"store/file/before sync", "store/file/before rename", "store/file/after rename", "store/file/synced"}
	}
	within := func(write string, moments []string) (points []string) {
		for _, m := range moments {
			points = append(points, write+">"+m)
		}
		return points
	}
	points := slices.Concat([]string{"resolve/event/Resolved", firstWrite}, within(firstWrite, store),
		[]string{"first record/event/WriteDone", "init ids/action/CommitOffsets", "init ids/action/InitIDs", "init ids/event/IDsReady",
			"running/action/StartSource", "running/event/Drained", "running/action/Seal", firstCheckpoint}, within(firstCheckpoint, store[:1]))
	if !b.scenario.repeats {
		return points
	}
	// Without transactions there are no ids to be initialised, and all that follows the record comes at once.
	points[slices.Index(points, "init ids/action/CommitOffsets")] = "running/action/CommitOffsets"
	return slices.DeleteFunc(points, func(p string) bool { return strings.Contains(p, "IDs") })
}

// TestCrashKeepsFirstPositions kills pipelines that begin at the end of their input, or near it, in their first start,
// while the input grows. Due is what the first durable record says: everything from there on, nothing of it twice.
func TestCrashKeepsFirstPositions(t *testing.T) {
	eachLife(t, beginning, 3, 3, beginAnew, func(t *testing.T, b *lifeBench) {
		for b.killed < b.kills {
			l := b.begin(t, b.scenario)
			require.NoError(t, l.beginUnderKills(), "life %d", b.lives)
			v, err := l.copyOn()
			require.NoError(t, err, "life %d", b.lives)
			b.end(t, l, v)
		}
	})
}

// beginUnderKills kills the pipeline until its first positions are durable, and a few times more.
func (l *life) beginUnderKills() error {
	b, points := l.bench, l.bench.pointsOfFirstStart()
	for l.first == nil {
		point, interval := points[b.next%len(points)], "100ms"
		if b.rng.IntN(4) == 0 {
			point, interval = "", "1m" // or a first checkpoint might hide where it began
		} else {
			b.next++
		}
		if err := l.dieAtFirst(point, interval); err != nil {
			return err
		}
	}
	if b.killed >= b.kills || b.rng.IntN(2) == 0 {
		return nil
	}
	point := points[b.rng.IntN(len(points))]
	if strings.HasSuffix(point, "CommitOffsets") {
		point = "resolve/action/CommitOffsets" // a start that has a record publishes sooner
	}
	return l.dieAtFirst(point, "100ms")
}

func (l *life) dieAtFirst(point, interval string) error {
	if err := l.configure(interval); err != nil {
		return err
	}
	before := l.producer.soFar()
	if _, err := l.dieAt(point, time.Second); err != nil {
		return err
	}
	known := l.first != nil
	if err := l.remember(); err != nil || l.first == nil || known {
		return err
	}
	if l.first.checkpoint > 0 {
		return l.failed(fmt.Errorf("checkpoint %d is there already, and where the pipeline began is not known", l.first.checkpoint))
	}
	for p, offset := range l.first.begin {
		if strings.Contains(l.scenario.startup, "latest") && offset < before[p] {
			return l.failed(fmt.Errorf("partition %d had %d records before the start, which begins at %d", p, before[p], offset))
		}
	}
	l.checker.wanted = func(p int32, n int64) bool { return n >= l.first.begin[p] }
	return nil
}

// copyOn lets the pipeline copy all that is there by now, stops it, and says what has become of what was due.
func (l *life) copyOn() (verdict, error) {
	if err := l.configure("100ms"); err != nil {
		return verdict{}, err
	}
	written := l.producer.soFar()
	p, err := l.start()
	if err != nil {
		return verdict{}, err
	}
	defer p.Kill()
	if err := awaitWords(p, l.log(), l.logBefore, "sources and sinks are running"); err != nil {
		return verdict{}, err
	}
	// What is lost never comes, and what comes after it shows that.
	for missing := l.checker.missing(written); missing > 0 && !l.passed(written); missing = l.checker.missing(written) {
		if err := l.progress(p); err != nil {
			return l.checker.result(written), l.brokenRun(p, fmt.Errorf("%d records are missing: %w", missing, err))
		}
	}
	if err := l.stop(p); err != nil {
		return l.checker.result(written), err
	}
	// Where the group ends, the output ends: that was checked.
	ends, err := l.groupKnows()
	if err != nil {
		return verdict{}, err
	}
	return l.checker.result(ends), nil
}

// passed tells whether a record has come of each partition that stands behind those that were written.
func (l *life) passed(written []int64) bool {
	for p, n := range written {
		if int64(len(l.checker.sights[p])) <= n {
			return false
		}
	}
	return true
}

// beginAnew takes the record of the first positions away: the trial notices what the next start passes over.
func beginAnew(t *testing.T, b *lifeBench) {
	l := b.begin(t, b.scenario)
	defer l.observer.Close()
	require.NoError(t, l.dieAtFirst("running/action/StartSource", "100ms"))
	require.NotNil(t, l.first)
	require.NoError(t, l.loseState())
	_, err := l.copyOn()
	require.ErrorContains(t, err, "has not come")
}

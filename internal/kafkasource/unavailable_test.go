package kafkasource

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/splits"
)

// TestPartitionsWithoutALeaderAreToldOnceAndTakenBack runs rounds of the question for the ends of logs. Each line of `refused`
// is a round; a partition is named by its number.
func TestPartitionsWithoutALeaderAreToldOnceAndTakenBack(t *testing.T) {
	const warned, back = `partitions cannot be read`, `msg="partitions can be read again"`
	for name, tc := range map[string]struct {
		refused [][]int32
		silent  bool
		want    []string // message and partitions of the lines, in order
		gauge   int64
	}{
		"an election":             {refused: [][]int32{{0, 1}, {}}, want: nil},
		"offline":                 {refused: [][]int32{{0, 1}, {0, 1}, {0, 1}}, want: []string{warned + ` partitions="a 0, 1"`}, gauge: 2},
		"and back":                {refused: [][]int32{{0}, {0}, {}}, want: []string{warned + ` partitions="a 0"`, back + ` partitions="a 0"`}},
		"one after the other":     {refused: [][]int32{{0}, {0, 1}, {0, 1}, {1}}, want: []string{warned + ` partitions="a 0"`, warned + ` partitions="a 1"`, back + ` partitions="a 0"`}, gauge: 1},
		"again":                   {refused: [][]int32{{0}, {0}, {}, {0}, {0}}, want: []string{warned, back, warned}, gauge: 1},
		"nobody answers at all":   {refused: [][]int32{{0}, {0}, {0}}, silent: true, want: nil, gauge: 1},
		"an election and another": {refused: [][]int32{{0}, {}, {0}, {}}, want: nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeBroker(t, 2, "a")
			cfg := baseConfig(b.servers, "a")
			var gauge int64
			cfg.Metrics.UnavailablePartitions = func(n int64) { gauge = n }
			s := newSource(t, cfg)
			s.meter.ended(map[splits.Partition]int64{{Topic: "a"}: 10, {Topic: "a", Partition: 1}: 20})
			if tc.silent {
				s.ear = &ear{born: time.Now().Add(-time.Hour)}
			}
			begin, both := time.Now(), []splits.Partition{{Topic: "a"}, {Topic: "a", Partition: 1}}
			for i, parts := range tc.refused {
				refused := map[splits.Partition]error{}
				for _, p := range parts {
					refused[splits.Partition{Topic: "a", Partition: p}] = kerr.LeaderNotAvailable
				}
				s.noteUnavailable(begin.Add(time.Duration(i)*5*time.Second), both, refused)
			}
			var got []string
			for line := range strings.Lines(s.log.String()) {
				if strings.Contains(line, "partitions can") {
					got = append(got, line)
				}
			}
			require.Len(t, got, len(tc.want), s.log.String())
			for i, want := range tc.want {
				text, parts, _ := strings.Cut(want, " partitions=")
				require.Contains(t, got[i], text)
				require.Contains(t, got[i], parts)
			}
			require.Equal(t, tc.gauge, gauge)
			s.stop() // as Close does
			s.noteUnavailable(time.Now(), nil, nil)
			require.Zero(t, gauge)
			require.Equal(t, len(tc.want), strings.Count(s.log.String(), "partitions can"), "a source that is closed reads nothing again")
		})
	}
}

// TestTheEndOfAPartitionThatNobodyToldForAWhileIsUnknown: its lag goes away, that of the others stays.
func TestTheEndOfAPartitionThatNobodyToldForAWhileIsUnknown(t *testing.T) {
	b := fakeBroker(t, 2, "a")
	s := newSource(t, baseConfig(b.servers, "a"))
	off, on := splits.Partition{Topic: "a"}, splits.Partition{Topic: "a", Partition: 1}
	s.meter.ended(map[splits.Partition]int64{off: 10, on: 20})
	end := func(at splits.Partition) int64 {
		s.meter.mu.Lock()
		defer s.meter.mu.Unlock()
		return s.meter.of(at).End
	}
	begin, both := time.Now(), []splits.Partition{off, on}
	refused := map[splits.Partition]error{off: kerr.LeaderNotAvailable}
	s.noteUnavailable(begin, both, refused)
	s.noteUnavailable(begin.Add(lostAfter-time.Second), both, refused)
	require.EqualValues(t, 10, end(off))
	s.noteUnavailable(begin.Add(lostAfter), both, refused)
	require.Equal(t, unknown, end(off))
	require.EqualValues(t, 20, end(on))
	s.meter.ended(map[splits.Partition]int64{off: 11})
	require.EqualValues(t, 11, end(off))
}

// TestAPartitionThatIsReadNoMoreIsNeitherUnavailableNorBack: a topic of a pattern is deleted, or a stop is reached, while no
// broker tells of the partition; nothing is left to be asked for.
func TestAPartitionThatIsReadNoMoreIsNeitherUnavailableNorBack(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	cfg := baseConfig(b.servers, "a")
	var gauge int64
	cfg.Metrics.UnavailablePartitions = func(n int64) { gauge = n }
	s := newSource(t, cfg)
	only := []splits.Partition{{Topic: "a"}}
	for range unavailableAfter {
		s.noteUnavailable(time.Now(), only, map[splits.Partition]error{only[0]: kerr.LeaderNotAvailable})
	}
	require.EqualValues(t, 1, gauge)
	s.mu.Lock()
	s.att = &attempt{splits: []*split{{pos: checkpoint.Split{Topic: "a", Stop: checkpoint.NoStop}, gone: true}}}
	s.mu.Unlock()
	s.askEnds()
	s.mu.Lock()
	s.att = nil
	s.mu.Unlock()
	require.Zero(t, gauge)
	require.Empty(t, s.unavailable)
	require.NotContains(t, s.log.String(), "partitions can be read again")
}

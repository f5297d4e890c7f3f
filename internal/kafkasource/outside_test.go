package kafkasource

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/offsets"
	"github.com/tidegate/tidegate/internal/splits"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// overtaken is a source whose client has read 0 and 1 and then fetches nothing, while 2 to 9 are written and, up to `to`,
// deleted. The batch of 0 and 1 is not acknowledged yet.
func overtaken(t *testing.T, b *broker, topic string, s *source, to int64) Batch {
	t.Helper()
	first := s.next()
	for len(first.Records) < 2 {
		first.Ack(t.Context(), nil)
		first = s.next()
		if first.Records[0].Offset == 1 {
			break
		}
	}
	// A fetch may be under way at the broker, so that it is not enough to pause: its answer would hold the records.
	s.mu.Lock()
	s.att.unassign([]splits.Partition{{Topic: topic}})
	s.mu.Unlock()
	b.produce(topic, 0, "2", "3", "4", "5", "6", "7", "8", "9")
	b.deleteRecords(topic, 0, to)
	s.mu.Lock()
	s.assign(s.att, []checkpoint.Split{s.att.splits[0].pos})
	s.mu.Unlock()
	return first
}

// TestASlowReaderThatRetentionOvertakesFollowsThePolicy asks a real broker, with checkpoints and without.
func TestASlowReaderThatRetentionOvertakesFollowsThePolicy(t *testing.T) {
	kafka := realkafka.Shared(t)
	b := brokerAt(t, kafka.Bootstrap())
	for name, tc := range map[string]struct {
		solo    bool
		restore offsets.OnOutOfRange
		reset   offsets.Reset
		// next is the record that is read on with, "" where the source ends; lost is what is passed over.
		next string
		lost int64
		says string
	}{
		"with checkpoints, earliest": {restore: offsets.EarliestOutOfRange, next: "8", lost: 6, says: "as checkpoint.on_restore_out_of_range says"},
		"with checkpoints, fail":     {restore: offsets.FailOutOfRange, says: "set checkpoint.on_restore_out_of_range to earliest"},
		"without, earliest":          {solo: true, reset: offsets.ResetEarliest, next: "8", lost: 6, says: "as startup.offset_reset says"},
		"without, latest":            {solo: true, reset: offsets.ResetLatest, next: "new", lost: 8, says: "as startup.offset_reset says"},
		"without, none":              {solo: true, reset: offsets.ResetNone, says: "startup.offset_reset"},
	} {
		t.Run(name, func(t *testing.T) {
			topic := kafka.Topic(t, 1)
			b.produce(topic, 0, "0", "1")
			cfg := baseConfig(b.servers, topic)
			cfg.Start = offsets.Start{Mode: offsets.EarliestStart, Reset: tc.reset}
			cfg.Restore.Policy = cmp.Or(tc.restore, cfg.Restore.Policy)
			lost := make(chan int64, 10)
			cfg.Metrics.SkippedOffsets = func(n int64) { lost <- n }
			shown := newBoard()
			measured(shown)(&cfg)
			s := newSource(t, cfg)
			s.solo = tc.solo
			s.resolve(nil)
			first := overtaken(t, b, topic, s, 8)
			if tc.next == "" {
				waiting := s.background()
				err := receive(t, s.seat.fatal, "the end")
				var outside *offsets.OutOfRangeError
				require.ErrorAs(t, err, &outside)
				require.ErrorContains(t, err, fmt.Sprintf("%s-0 at 2, log starts at 8", topic))
				require.ErrorContains(t, err, tc.says)
				first.Ack(t.Context(), nil)
				stays(t, lost)
				_ = waiting
				return
			}
			waiting := s.background()
			require.Equal(t, tc.lost, receive(t, lost, "the count of what is lost"))
			if tc.next == "new" {
				b.produce(topic, 0, "new")
			}
			batch := receive(t, waiting, "what is left")
			require.NoError(t, batch.err)
			require.Equal(t, tc.next, string(batch.Records[0].Value))
			require.Contains(t, s.log.String(), "level=ERROR msg=\"records were deleted before they were read")
			require.Contains(t, s.log.String(), "position=2 log_start=8 log_end=10")
			require.Contains(t, s.log.String(), fmt.Sprintf("offsets_lost=%d", tc.lost))
			require.Contains(t, s.log.String(), tc.says)

			// What was in flight meanwhile still holds the position that is delivered.
			s.mu.Lock()
			acked := s.att.ackedState()
			s.mu.Unlock()
			require.Equal(t, []int64{first.Records[0].Offset}, offsetsOf(acked))
			first.Ack(t.Context(), nil)
			batch.Ack(t.Context(), nil)
			require.Empty(t, s.seat.fatal)
			require.Empty(t, s.seat.failed)
			stays(t, lost)
			require.Eventually(t, func() bool { return shown.all()[splits.Partition{Topic: topic}].FetchErrors > 0 }, patience, soon,
				"the broker has refused a fetch")
		})
	}
}

// TestABoundedReadThatRetentionOvertakesEnds has nothing left before its stop.
func TestABoundedReadThatRetentionOvertakesEnds(t *testing.T) {
	kafka := realkafka.Shared(t)
	b := brokerAt(t, kafka.Bootstrap())
	topic := kafka.Topic(t, 1)
	b.produce(topic, 0, "0", "1", "2", "3")
	cfg := baseConfig(b.servers, topic)
	cfg.Stop = offsets.Stop{Mode: offsets.LatestStop}
	cfg.Restore.Policy = offsets.EarliestOutOfRange
	var lost int64
	cfg.Metrics.SkippedOffsets = func(n int64) { lost += n }
	s := newSource(t, cfg)
	state, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	b.produce(topic, 0, "4", "5")
	b.deleteRecords(topic, 0, 5)
	s.Start(tag(1), state)
	waiting := s.background()
	receive(t, s.seat.atEnd, "the end")
	require.Equal(t, []int64{4}, offsetsOf(s.pause()))
	require.EqualValues(t, 4, lost, "what lies beyond the stop was not to be read")
	s.Finish()
	require.ErrorIs(t, receive(t, waiting, "the end of input").err, ErrEndOfInput)
}

// TestTheStepOverIsKeptByTheNextAttempt rewinds a source without checkpoints to before what was lost.
func TestTheStepOverIsKeptByTheNextAttempt(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produce("a", 0, "0", "1", "2", "3")
	s := newSolo(t, b, func(c *Config) { c.Start.Reset = offsets.ResetEarliest })
	state, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	b.deleteRecords("a", 0, 2)
	s.solo.start(1, state)
	batch := s.next()
	require.EqualValues(t, 2, batch.Records[0].Offset)
	s.mu.Lock()
	acked := s.att.ackedState()
	s.mu.Unlock()
	require.Equal(t, []int64{2}, offsetsOf(acked), "a rewind does not go back into what is lost")
}

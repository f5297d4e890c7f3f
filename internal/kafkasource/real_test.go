package kafkasource

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/offsets"
	"github.com/tidegate/tidegate/internal/splits"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// bounded reads a topic up to its present end and returns the records and the last positions.
func (b *broker) bounded(cfg Config) ([]string, checkpoint.SourceState) {
	b.t.Helper()
	cfg.Stop = offsets.Stop{Mode: offsets.LatestStop}
	s := newSource(b.t, cfg)
	s.resolve(nil)
	var got []string
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			batch, err := s.Next(b.t.Context())
			if err != nil {
				return
			}
			for _, r := range batch.Records {
				got = append(got, string(r.Value))
			}
			batch.Ack(b.t.Context(), nil)
		}
	}()
	receive(b.t, s.seat.atEnd, "the end of a bounded read")
	positions := s.pause()
	require.True(b.t, positions.Finished)
	s.Finish()
	<-ended
	return got, positions
}

// TestBoundedReadEndsBehindTransactions is the shape users report: markers and aborted records take offsets and are no
// records, so a reader that looks at last records never ends (rule 11).
func TestBoundedReadEndsBehindTransactions(t *testing.T) {
	kafka := realkafka.Shared(t)
	b := brokerAt(t, kafka.Bootstrap())
	for name, tc := range map[string]struct {
		write                  func(topic string)
		committed, uncommitted []string
		end                    int64
	}{
		"one committed transaction": {
			write:     func(topic string) { b.transact(topic, 0, true, "a") },
			committed: []string{"a"}, uncommitted: []string{"a"}, end: 2,
		},
		"an aborted tail": {
			write: func(topic string) {
				b.produce(topic, 0, "plain")
				b.transact(topic, 0, true, "a", "b")
				b.transact(topic, 0, false, "never", "ever")
				b.transact(topic, 0, false, "again")
			},
			committed: []string{"plain", "a", "b"}, uncommitted: []string{"plain", "a", "b", "never", "ever", "again"}, end: 9,
		},
		"nothing but aborted": {
			write:     func(topic string) { b.transact(topic, 0, false, "never") },
			committed: nil, uncommitted: []string{"never"}, end: 2,
		},
		"empty": {write: func(string) {}, end: 0},
	} {
		for _, readCommitted := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, read_committed %v", name, readCommitted), func(t *testing.T) {
				topic := kafka.Topic(t, 1)
				tc.write(topic)
				b.awaitEnd(topic, tc.end)
				cfg := baseConfig(b.servers, topic)
				cfg.ReadCommitted = readCommitted
				got, positions := b.bounded(cfg)
				want := tc.uncommitted
				if readCommitted {
					want = tc.committed
				}
				require.Equal(t, want, got)
				require.Equal(t, []int64{tc.end}, offsetsOf(positions), "the position steps over markers")
			})
		}
	}
}

func TestBoundedReadCommittedWaitsForAnOpenTransaction(t *testing.T) {
	kafka := realkafka.Shared(t)
	b := brokerAt(t, kafka.Bootstrap())
	for _, commit := range []bool{true, false} {
		t.Run(fmt.Sprintf("commit %v", commit), func(t *testing.T) {
			topic := kafka.Topic(t, 1)
			b.produce(topic, 0, "before")
			_, end := b.openTransaction(topic, 0, "inside")
			cfg := baseConfig(b.servers, topic)
			cfg.ReadCommitted = true
			cfg.Stop = offsets.Stop{Mode: offsets.LatestStop}
			s := newSource(t, cfg)
			state := s.resolve(nil)
			require.EqualValues(t, 2, state.Splits[0].Stop, "as in Flink the stop is the high watermark, also under read_committed")
			s.read(1)
			waiting := s.background()
			require.Equal(t, []int64{1}, offsetsOf(s.pause()))
			stays(t, s.seat.atEnd)
			require.NoError(t, end(commit))
			if commit {
				got := receive(t, waiting, "the committed record")
				require.Equal(t, "inside", string(got.Records[0].Value))
				got.Ack(t.Context(), nil)
				waiting = s.background()
			}
			receive(t, s.seat.atEnd, "the end")
			require.Equal(t, []int64{2}, offsetsOf(s.pause()))
			s.Finish()
			require.ErrorIs(t, receive(t, waiting, "the end of input").err, ErrEndOfInput)
		})
	}
}

// TestProbeEndsAReadWhoseClientReturnsNothing has a client that stays silent, as one does over offsets without records,
// and is paused more often than probes are due.
func TestProbeEndsAReadWhoseClientReturnsNothing(t *testing.T) {
	kafka := realkafka.Shared(t)
	b := brokerAt(t, kafka.Bootstrap())
	for name, tc := range map[string]struct {
		write         func(topic string)
		readCommitted bool
		end, want     int64
	}{
		"aborted":          {func(topic string) { b.transact(topic, 0, false, "x", "y") }, true, 3, 3},
		"a record follows": {func(topic string) { b.transact(topic, 0, false, "x"); b.produce(topic, 0, "z") }, true, 3, 2},
		"an open transaction follows": {func(topic string) {
			b.transact(topic, 0, false, "x")
			b.openTransaction(topic, 0, "open")
		}, true, 3, 2},
		"aborted, read_uncommitted": {func(topic string) { b.transact(topic, 0, false, "x", "y") }, false, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			topic := kafka.Topic(t, 1)
			tc.write(topic)
			b.awaitEnd(topic, tc.end)
			cfg := baseConfig(b.servers, topic)
			cfg.ReadCommitted, cfg.ProbeInterval = tc.readCommitted, 50*time.Millisecond
			cfg.Stop = offsets.Stop{Mode: offsets.LatestStop}
			s := newSource(t, cfg)
			s.resolve(nil)
			s.att.client.PauseFetchTopics(topic)
			waiting := s.background()
			require.Eventually(t, func() bool { return s.pause().Splits[0].Offset == tc.want }, patience, 10*time.Millisecond)
			if tc.want == tc.end {
				receive(t, s.seat.atEnd, "the end")
			} else {
				stays(t, s.seat.atEnd)
			}
			stays(t, waiting)
			require.Equal(t, []int64{tc.want}, offsetsOf(s.pause()), "and no further")
		})
	}
}

// TestPositionsOfAnEndlessReadStepOverMarkers keeps the group's lag at 0 on transactional topics.
func TestPositionsOfAnEndlessReadStepOverMarkers(t *testing.T) {
	kafka := realkafka.Shared(t)
	b := brokerAt(t, kafka.Bootstrap())
	topic, group := kafka.Topic(t, 1), realkafka.Name(t)
	b.transact(topic, 0, true, "a")
	b.transact(topic, 0, false, "b")
	cfg := baseConfig(b.servers, topic)
	cfg.ReadCommitted, cfg.Group, cfg.CommitOffsets = true, group, true
	s := newSource(t, cfg)
	s.resolve(nil)
	s.read(1)
	waiting := s.background()
	require.Eventually(t, func() bool { return s.pause().Splits[0].Offset == 4 }, patience, 10*time.Millisecond)
	require.NoError(t, s.CommitOffsets(t.Context(), s.pause()))
	got := b.committed(group, topic)
	require.EqualValues(t, 4, got[0].At)
	require.Equal(t, b.endOffset(topic, 0), got[0].At)
	b.produce(topic, 0, "c")
	require.EqualValues(t, 4, receive(t, waiting, "the next record").Records[0].Offset)
}

// TestRestartGoesOnAtEveryPosition restarts at each position that a pause between batches can return, with markers
// among them, and finds every committed record once.
func TestRestartGoesOnAtEveryPosition(t *testing.T) {
	kafka := realkafka.Shared(t)
	b := brokerAt(t, kafka.Bootstrap())
	topic := kafka.Topic(t, 1)
	var want []string
	for i := range 5 {
		b.transact(topic, 0, true, fmt.Sprint("c", i), fmt.Sprint("d", i))
		b.transact(topic, 0, false, "never")
		want = append(want, fmt.Sprint("c", i), fmt.Sprint("d", i))
	}
	cfg := baseConfig(b.servers, topic)
	cfg.ReadCommitted, cfg.MaxBatch = true, 1
	cfg.Stop = offsets.Stop{Mode: offsets.LatestStop}
	b.awaitEnd(topic, 25)
	var got []string
	var state *checkpoint.SourceState
	for len(got) < len(want) {
		s := newSource(t, cfg)
		if state != nil {
			require.NoError(t, s.Verify(t.Context(), *state))
		}
		s.resolve(state)
		batch := s.next()
		for _, r := range batch.Records {
			got = append(got, string(r.Value))
		}
		batch.Ack(t.Context(), nil)
		at := s.pause()
		state = &at
		require.NoError(t, s.Close(t.Context()))
	}
	require.Equal(t, want, got)
}

func TestPositionDeletedWhileRunningEndsTheStreamAndTheRestartFollowsThePolicy(t *testing.T) {
	kafka := realkafka.Shared(t)
	b := brokerAt(t, kafka.Bootstrap())
	topic := kafka.Topic(t, 1)
	b.produce(topic, 0, "0", "1", "2", "3")
	cfg := baseConfig(b.servers, topic)
	cfg.Start = offsets.Start{Mode: offsets.EarliestStart}
	s := newSource(t, cfg)
	state, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	b.deleteRecords(topic, 0, 2) // between the resolution and the first fetch
	s.Start(tag(1), state)
	waiting := s.background()
	err = receive(t, s.seat.fatal, "the end")
	var outside *offsets.OutOfRangeError
	require.ErrorAs(t, err, &outside)
	require.EqualValues(t, 2, outside.Partitions[0].Start)
	require.ErrorContains(t, err, fmt.Sprintf("%s-0 at 0, log starts at 2", topic))
	stays(t, waiting)

	_, err = newSource(t, cfg).Resolve(t.Context(), &state)
	require.ErrorAs(t, err, &outside)
	cfg.Restore.Policy = offsets.EarliestOutOfRange
	var lost int64
	cfg.Metrics.SkippedOffsets = func(n int64) { lost += n }
	again := newSource(t, cfg)
	again.resolve(&state)
	require.Equal(t, []string{topic + "-0@2=2", topic + "-0@3=3"}, again.read(2))
	require.EqualValues(t, 2, lost)
}

// TestPositionBeyondTheEndWhileRunningEndsTheStream has a log that ends before the position, as after an unclean leader
// election. With a leader epoch the client finds out by asking for the epoch's end, without one by the fetch itself.
func TestPositionBeyondTheEndWhileRunningEndsTheStream(t *testing.T) {
	kafka := realkafka.Shared(t)
	b := brokerAt(t, kafka.Bootstrap())
	for _, epoch := range []int32{-1, 0} {
		t.Run(fmt.Sprintf("leader epoch %d", epoch), func(t *testing.T) {
			topic := kafka.Topic(t, 1)
			b.produce(topic, 0, "0")
			s := newSource(t, baseConfig(b.servers, topic))
			state, err := s.Resolve(t.Context(), nil)
			require.NoError(t, err)
			state.Splits[0].Offset, state.Splits[0].LeaderEpoch = 5, epoch
			s.Start(tag(1), state)
			waiting := s.background()
			err = receive(t, s.seat.fatal, "the end")
			var outside *offsets.OutOfRangeError
			require.ErrorAs(t, err, &outside)
			require.ErrorContains(t, err, "at 5, log ends at 1")
			stays(t, waiting) // nothing is read from another position
		})
	}
}

func TestReadingAndResolvingGoOnWhenTheBrokerComesBack(t *testing.T) {
	kafka := realkafka.Start(t, realkafka.Options{})
	b := brokerAt(t, kafka.Bootstrap())
	topic := kafka.Topic(t, 1)
	b.produce(topic, 0, "0")
	s, late := newSource(t, baseConfig(b.servers, topic)), newSource(t, baseConfig(b.servers, topic))
	s.resolve(nil)
	s.read(1)
	require.NoError(t, kafka.Kill(0))
	resolved := make(chan checkpoint.SourceState, 1)
	go func() {
		if state, err := late.Resolve(t.Context(), nil); err == nil {
			resolved <- state
		}
	}()
	stays(t, resolved)
	require.NoError(t, kafka.Restart(0))
	b.produce(topic, 0, "1")
	require.Equal(t, []string{topic + "-0@1=1"}, s.read(1))
	require.Equal(t, []int64{0}, offsetsOf(receive(t, resolved, "the positions")))
	require.Empty(t, s.seat.failed)
	require.Empty(t, s.seat.fatal)
}

// TestTopicRecreatedUnderTheReader finds out by the fetch, without waiting for the watch.
func TestTopicRecreatedUnderTheReader(t *testing.T) {
	kafka := realkafka.Shared(t)
	b := brokerAt(t, kafka.Bootstrap())
	topic := kafka.Topic(t, 1)
	b.produce(topic, 0, "0", "1")
	cfg := baseConfig(b.servers, topic)
	cfg.MetadataInterval = 100 * time.Millisecond
	s := newSource(t, cfg)
	state := s.resolve(nil)
	s.read(2)
	_, err := b.admin.DeleteTopics(t.Context(), topic)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := b.admin.CreateTopic(t.Context(), 1, 1, nil, topic)
		return err == nil
	}, patience, 50*time.Millisecond)
	s.background()
	require.ErrorContains(t, receive(t, s.seat.fatal, "the end"), topic)

	// At the next start the old positions are refused, whatever the new topic holds.
	err = newSource(t, cfg).Verify(t.Context(), state)
	var recreated *splits.RecreatedError
	require.ErrorAs(t, err, &recreated)
	require.Equal(t, topic, recreated.Topic)
}

// TestBoundedReadEndsInACompactedTail has a stop within offsets whose records the cleaner has taken away.
func TestBoundedReadEndsInACompactedTail(t *testing.T) {
	kafka := realkafka.Start(t, realkafka.Options{Properties: map[string]string{
		"log.cleaner.backoff.ms": "200", "log.cleaner.min.compaction.lag.ms": "0",
	}})
	b := brokerAt(t, kafka.Bootstrap())
	topic := kafka.Topic(t, 1, "cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.001", "segment.ms", "100",
		"delete.retention.ms", "0")
	keyed := func(key, value string) {
		require.NoError(t, b.client.ProduceSync(t.Context(),
			&kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value)}).FirstErr())
	}
	for i := range 20 {
		keyed("same", fmt.Sprint(i))
	}
	cfg := baseConfig(b.servers, topic)
	cfg.Stop = offsets.Stop{Mode: offsets.LatestStop}
	s := newSource(t, cfg)
	state, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	require.EqualValues(t, 20, state.Splits[0].Stop)

	// Newer records with the same key in newer segments; then nothing below the stop is left.
	require.Eventually(t, func() bool {
		keyed("same", "newer")
		first, err := kgo.NewClient(kgo.SeedBrokers(b.servers...),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
		require.NoError(t, err)
		defer first.Close()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		records := first.PollRecords(ctx, 1).Records()
		return len(records) == 1 && records[0].Offset >= 20
	}, 60*time.Second, 300*time.Millisecond)

	s.Start(tag(1), state)
	waiting := s.background()
	receive(t, s.seat.atEnd, "the end")
	require.Equal(t, []int64{20}, offsetsOf(s.pause()))
	s.Finish()
	require.ErrorIs(t, receive(t, waiting, "the end of input").err, ErrEndOfInput)
}

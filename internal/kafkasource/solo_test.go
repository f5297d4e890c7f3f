package kafkasource

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/offsets"
)

// soloSource is a Reader that a Solo drives, with single-record batches of one topic "a".
type soloSource struct {
	*source
	solo *Solo
	// delays are the numbers of rewinds in a row.
	delays chan uint64

	mu              sync.Mutex
	rewinds, nacked int64
	commits         commitCounts
}

// never is an interval of commits that does not elapse.
const never = time.Hour

func newSolo(t testing.TB, b *broker, change func(*Config)) *soloSource {
	t.Helper()
	s := &soloSource{source: &source{t: t, seat: newSeat(), log: &lines{}}, delays: make(chan uint64, 100)}
	cfg := baseConfig(b.servers, "a")
	cfg.Group, cfg.AutoCommit, cfg.MaxBatch = "g", never, 1
	cfg.Logger = slog.New(slog.NewTextHandler(s.log, nil))
	counter := func(n *int64) func(int64) {
		return func(k int64) {
			s.mu.Lock()
			defer s.mu.Unlock()
			*n += k
		}
	}
	cfg.Metrics = Metrics{
		Rewinds: counter(&s.rewinds), NackedRecords: counter(&s.nacked),
		CommitsSucceeded: counter(&s.commits.succeeded), CommitsFailed: counter(&s.commits.failed),
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	s.Reader, s.solo, err = NewSolo(cfg, s.seat)
	require.NoError(t, err)
	s.solo.delay = func(n uint64) time.Duration {
		s.delays <- n
		return 0
	}
	require.NoError(t, s.Connect(t.Context()))
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// begin begins, and take hands out n batches.
func (s *soloSource) begin() *soloSource {
	s.t.Helper()
	require.NoError(s.t, s.solo.Begin(s.t.Context()))
	return s
}

func (s *soloSource) take(n int) []Batch {
	s.t.Helper()
	out := make([]Batch, n)
	for i := range out {
		out[i] = s.next()
		require.Len(s.t, out[i].Records, 1)
	}
	return out
}

func offsetsIn(batches []Batch) []int64 {
	var out []int64
	for _, b := range batches {
		out = append(out, b.Records[0].Offset)
	}
	return out
}

// committedAt are the group's offsets.
func (b *broker) committedAt() []int64 {
	out := []int64{}
	for _, o := range b.committed("g", "a") {
		out = append(out, o.At)
	}
	return out
}

// watchCommits tells of the offset in every commit for partition 0, and lets it through.
func watchCommits(c *kfake.Cluster) <-chan int64 {
	seen := make(chan int64, 1000)
	c.ControlKey(int16(kmsg.OffsetCommit), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		for _, p := range kreq.(*kmsg.OffsetCommitRequest).Topics[0].Partitions {
			if p.Partition == 0 {
				seen <- p.Offset
			}
		}
		return nil, nil, false
	})
	return seen
}

func TestPrefixEndsBeforeTheOldestBatchThatIsNotAcknowledged(t *testing.T) {
	for name, tc := range map[string]struct {
		acks []int
		want []int64 // the prefix after each
	}{
		"in order":             {[]int{0, 1, 2, 3}, []int64{1, 2, 3, 4}},
		"backwards":            {[]int{3, 2, 1, 0}, []int64{0, 0, 0, 4}},
		"mixed":                {[]int{1, 0, 3, 2}, []int64{0, 2, 2, 4}},
		"the first never":      {[]int{1, 2, 3}, []int64{0, 0, 0}},
		"one in the middle no": {[]int{0, 3, 1}, []int64{1, 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeBroker(t, 1, "a")
			b.produce("a", 0, "0", "1", "2", "3")
			s := newSolo(t, b, nil).begin()
			batches := s.take(4)
			for i, n := range tc.acks {
				batches[n].Ack(t.Context(), nil)
				acked, emitted := s.solo.states()
				require.Equal(t, tc.want[i], acked[0].Offset, "after %d acks", i+1)
				require.EqualValues(t, 4, emitted[0].Offset)
			}
		})
	}
}

// Batches of several partitions, acknowledged by several threads at once, leave each partition at its own prefix.
func TestPrefixesOfConcurrentAcknowledgements(t *testing.T) {
	b := fakeBroker(t, 3, "a")
	const records = 60
	for p := range int32(3) {
		b.produce("a", p, strings.Split(strings.Repeat("x ", records-1)+"x", " ")...)
	}
	s := newSolo(t, b, func(c *Config) { c.MaxBatch = 7 }).begin()
	var acks sync.WaitGroup
	for n := 0; n < 3*records; {
		batch := s.next()
		n += len(batch.Records)
		acks.Go(func() { batch.Ack(context.Background(), nil) })
	}
	acks.Wait()
	acked, _ := s.solo.states()
	for p := range 3 {
		require.EqualValues(t, records, acked[p].Offset)
	}
	require.NoError(t, s.Close(t.Context()))
	require.Equal(t, []int64{records, records, records}, b.committedAt())
}

func TestTimerCommitsOnlyTheAcknowledgedPrefix(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	b := brokerAt(t, c.ListenAddrs())
	b.produce("a", 0, "0", "1", "2")
	seen := watchCommits(c)
	s := newSolo(t, b, func(c *Config) { c.AutoCommit = 10 * time.Millisecond }).begin()
	require.Zero(t, receive(t, seen, "the commit of where it starts"))
	batches := s.take(3)
	batches[1].Ack(t.Context(), nil)
	stays(t, seen)
	batches[0].Ack(t.Context(), nil)
	require.EqualValues(t, 2, receive(t, seen, "a commit"))
	stays(t, seen)
	batches[2].Ack(t.Context(), nil)
	require.EqualValues(t, 3, receive(t, seen, "a commit"))
}

// The broker forgets the offsets of a group without members after a while, also of one whose topic is quiet.
func TestPositionsThatStandStillAreCommittedAgain(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	s := newSolo(t, b, nil).begin()
	require.EqualValues(t, 1, s.commits.succeeded)
	s.solo.commit(t.Context(), patience)
	require.EqualValues(t, 1, s.commits.succeeded, "nothing has moved")
	s.solo.committedAt = time.Now().Add(-recommitInterval)
	s.solo.commit(t.Context(), patience)
	require.EqualValues(t, 2, s.commits.succeeded)
}

func TestNackGoesBackToTheLowestOffsetThatIsNotAcknowledged(t *testing.T) {
	for name, tc := range map[string]struct {
		acked []int
		nack  int
		again []int64
	}{
		"the first":                 {[]int{1, 2}, 0, []int64{0, 1, 2}},
		"the last":                  {[]int{0, 1}, 2, []int64{2}},
		"the second, of three":      {[]int{0, 2}, 1, []int64{1, 2}},
		"an older one still flies":  {[]int{0}, 2, []int64{1, 2}},
		"all others are still away": {nil, 1, []int64{0, 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeBroker(t, 1, "a")
			b.produce("a", 0, "0", "1", "2")
			s := newSolo(t, b, nil)
			// What still flies never comes back: a batch policy without a period may keep it for ever.
			s.solo.halt = 20 * time.Millisecond
			s.begin()
			batches := s.take(3)
			for _, i := range tc.acked {
				batches[i].Ack(t.Context(), nil)
			}
			batches[tc.nack].Ack(t.Context(), errNotDelivered)
			require.EqualValues(t, 1, receive(t, s.delays, "the rewind"))
			again := s.take(len(tc.again))
			require.Equal(t, tc.again, offsetsIn(again))
			for i := range batches {
				batches[i].Ack(t.Context(), nil) // late, and changes nothing
			}
			acked, _ := s.solo.states()
			require.Equal(t, tc.again[0], acked[0].Offset)
			for _, batch := range again {
				batch.Ack(t.Context(), nil)
			}
			require.NoError(t, s.Close(t.Context()))
			require.Equal(t, []int64{3}, b.committedAt())
			require.Equal(t, []int64{1, 1}, []int64{s.rewinds, s.nacked})
			require.Contains(t, s.log.String(), "going back to the lowest offset that is not acknowledged")
			require.Contains(t, s.log.String(), "sink said no")
		})
	}
}

func TestRewindWaitsForWhatIsInFlight(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produce("a", 0, "0", "1", "2")
	s := newSolo(t, b, nil).begin()
	batches := s.take(3)
	batches[1].Ack(t.Context(), errNotDelivered)
	receive(t, s.delays, "the rewind")
	next := s.background()
	stays(t, next)
	batches[0].Ack(t.Context(), nil)
	stays(t, next)
	batches[2].Ack(t.Context(), nil)
	got := receive(t, next, "the second record")
	require.NoError(t, got.err)
	require.EqualValues(t, 1, got.Records[0].Offset, "the first was delivered meanwhile")
}

// The delay grows while the same records are refused again and again, also where others go through, and begins anew
// once all of them are delivered.
func TestDelayGrowsUntilWhatFailedIsDelivered(t *testing.T) {
	b := fakeBroker(t, 2, "a")
	b.produce("a", 0, "0")
	s := newSolo(t, b, nil).begin()
	for n := range uint64(3) {
		b.produce("a", 1, "other")
		for refused := false; !refused; {
			batch := s.next()
			if refused = batch.Records[0].Partition == 0; refused {
				batch.Ack(t.Context(), errNotDelivered)
			} else {
				batch.Ack(t.Context(), nil)
			}
		}
		require.Equal(t, n+1, receive(t, s.delays, "a rewind"))
	}
	for acked, _ := s.solo.states(); acked[0].Offset < 1; acked, _ = s.solo.states() {
		s.next().Ack(t.Context(), nil)
	}
	b.produce("a", 0, "1")
	batch := s.next()
	for batch.Records[0].Partition != 0 {
		batch.Ack(t.Context(), nil)
		batch = s.next()
	}
	batch.Ack(t.Context(), errNotDelivered)
	require.EqualValues(t, 1, receive(t, s.delays, "a rewind"))
}

func TestCloseCommitsWhatIsAcknowledged(t *testing.T) {
	for name, tc := range map[string]struct {
		acked     []int
		cancelled bool
		hard      bool
		want      int64
	}{
		"everything":               {acked: []int{0, 1, 2}, want: 3},
		"but the one never taken":  {acked: []int{0, 1}, want: 2},
		"up to the gap, hard stop": {acked: []int{0, 2}, hard: true, want: 1},
		"also at a hard stop":      {acked: []int{0, 1, 2}, cancelled: true, hard: true, want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeBroker(t, 1, "a")
			b.produce("a", 0, "0", "1", "2")
			s := newSolo(t, b, nil).begin()
			ackCtx, cancel := context.WithCancel(t.Context())
			defer cancel()
			batches := s.take(3)
			for _, i := range tc.acked {
				batches[i].Ack(ackCtx, nil)
			}
			if tc.cancelled {
				cancel()
			}
			require.NoError(t, s.Close(t.Context()))
			require.Equal(t, tc.hard, receive(t, s.seat.closed, "the decision"))
			require.Equal(t, []int64{tc.want}, b.committedAt())
			require.Equal(t, tc.want < 2, strings.Contains(s.log.String(), "stopped while records were not acknowledged"))
		})
	}
}

func TestSoloCommitsNothingWithoutAGroupOrWhenSwitchedOff(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no group":     func(c *Config) { c.Group = "" },
		"switched off": func(c *Config) { c.AutoCommit = 0 },
		// The setting of checkpointed sources has no say here.
		"switched off, but not for checkpoints": func(c *Config) { c.AutoCommit, c.CommitOffsets = 0, true },
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeBroker(t, 1, "a")
			b.produce("a", 0, "0")
			s := newSolo(t, b, change).begin()
			s.read(1)
			require.NoError(t, s.Close(t.Context()))
			require.Empty(t, b.committedAt())
			require.Equal(t, commitCounts{}, s.commits)
		})
	}
}

func bounded(c *Config) { c.Stop = offsets.Stop{Mode: offsets.LatestStop} }

func TestBoundedSoloEndsOnlyWhenEverythingIsAcknowledgedAndCommitted(t *testing.T) {
	b := fakeBroker(t, 2, "a")
	b.produce("a", 0, "0", "1")
	s := newSolo(t, b, bounded).begin()
	batches := s.take(2)
	end := s.background()
	stays(t, end)
	batches[1].Ack(t.Context(), nil)
	stays(t, end)
	batches[0].Ack(t.Context(), nil)
	require.ErrorIs(t, receive(t, end, "the end").err, ErrEndOfInput)
	require.Equal(t, []int64{2, 0}, b.committedAt())
	b.produce("a", 0, "later")
	_, err := s.Next(t.Context())
	require.ErrorIs(t, err, ErrEndOfInput)
}

func TestNackAtTheEndIsReplayed(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produce("a", 0, "0", "1")
	s := newSolo(t, b, bounded).begin()
	for range 3 {
		batches := s.take(2)
		end := s.background()
		stays(t, end) // everything is emitted, and the source waits for its acknowledgements
		batches[0].Ack(t.Context(), errNotDelivered)
		batches[1].Ack(t.Context(), nil)
		again := receive(t, end, "the first record once more")
		require.NoError(t, again.err)
		require.EqualValues(t, 0, again.Records[0].Offset)
		again.Ack(t.Context(), errNotDelivered)
	}
	for _, batch := range s.take(2) {
		batch.Ack(t.Context(), nil)
	}
	_, err := s.Next(t.Context())
	require.ErrorIs(t, err, ErrEndOfInput)
	require.Equal(t, []int64{2}, b.committedAt())
}

func TestBoundedSoloWithNothingToReadEndsAtOnce(t *testing.T) {
	b := fakeBroker(t, 2, "a")
	s := newSolo(t, b, bounded).begin()
	_, err := s.Next(t.Context())
	require.ErrorIs(t, err, ErrEndOfInput)
	require.Equal(t, []int64{0, 0}, b.committedAt())
}

func TestRefusedCommitsNeitherStopASoloNorKeepItFromEnding(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	b := brokerAt(t, c.ListenAddrs())
	answerCommits(c, kerr.UnknownMemberID.Code)
	b.produce("a", 0, "0")
	s := newSolo(t, b, bounded).begin()
	s.read(1)
	_, err = s.Next(t.Context())
	require.ErrorIs(t, err, ErrEndOfInput)
	require.NoError(t, s.Close(t.Context()))
	require.Equal(t, commitCounts{failed: 3}, s.commits, "at the start, at the end, and once more at the stop")
	require.Contains(t, s.log.String(), "positions could not be committed to the consumer group; reading goes on")
	require.Empty(t, s.seat.fatal)
}

// A crash before the first commit must not resolve latest anew, past records that were due.
func TestLatestByOffsetResetIsKeptFromTheStartOn(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produce("a", 0, "old")
	group := func(c *Config) {
		c.Start = offsets.Start{Mode: offsets.GroupStart, Group: "g", Reset: offsets.ResetLatest}
	}
	newSolo(t, b, group).begin() // and is never heard of again
	b.produce("a", 0, "due")
	require.Equal(t, []string{"a-0@1=due"}, newSolo(t, b, group).begin().read(1))
}

func TestRestartGoesOnFromTheGroupsOffsets(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produce("a", 0, "0", "1", "2", "3")
	group := func(c *Config) {
		c.Start = offsets.Start{Mode: offsets.GroupStart, Group: "g", Reset: offsets.ResetEarliest}
	}
	s := newSolo(t, b, group).begin()
	batches := s.take(3)
	batches[0].Ack(t.Context(), nil)
	batches[2].Ack(t.Context(), nil)
	require.NoError(t, s.Close(t.Context()))
	require.Equal(t, "1 partitions of a (offset_reset earliest: 1), group g, from a-0@0; committed every 1h0m0s", s.About())
	require.Contains(t, s.log.String(), "from=a-0@1")
	s = newSolo(t, b, group).begin()
	require.Equal(t, []string{"a-0@1=1", "a-0@2=2", "a-0@3=3"}, s.read(3))
}

func TestStartThatCannotBeResolvedEndsTheStream(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	s := newSolo(t, b, func(c *Config) {
		c.Start = offsets.Start{Mode: offsets.GroupStart, Group: "g", Reset: offsets.ResetNone}
	})
	require.ErrorContains(t, s.solo.Begin(t.Context()), `group "g" has no committed offset`)
	require.ErrorContains(t, receive(t, s.seat.fatal, "the cause"), "startup.offset_reset")
}

func TestCommittedOffsetThatRetentionHasOvertakenIsCountedAndLogged(t *testing.T) {
	for reset, want := range map[offsets.Reset]int64{offsets.ResetEarliest: 2, offsets.ResetLatest: 3} {
		t.Run(string(reset), func(t *testing.T) {
			b := fakeBroker(t, 1, "a")
			b.produce("a", 0, "0", "1", "2", "3")
			b.commit("g", "a", 1)
			b.deleteRecords("a", 0, 3)
			var skipped int64
			s := newSolo(t, b, func(c *Config) {
				c.Start = offsets.Start{Mode: offsets.GroupStart, Group: "g", Reset: reset}
				c.Metrics.SkippedOffsets = func(n int64) { skipped += n }
			}).begin()
			require.Equal(t, want, skipped)
			require.Contains(t, s.log.String(), "level=ERROR")
		})
	}
}

// A job that gets checkpoints later may start from the offsets it has committed without them.
func TestCommitsWithoutCheckpointsAreNoTraceOfALostStore(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	newSolo(t, b, nil).begin()
	require.Equal(t, []int64{0}, b.committedAt())
	cfg := baseConfig(b.servers, "a")
	cfg.Group = "g"
	cfg.StoreID = func() string { return "some-store" }
	found, err := newSource(t, cfg).Traces(t.Context())
	require.NoError(t, err)
	require.Empty(t, found)
}

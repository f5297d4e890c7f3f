package kafkasink

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// TestWhatIsKnownBeforehandIsReturnedBeforeAnyRecordIsSent: the second record is bad, the first must not be written.
func TestWhatIsKnownBeforehandIsReturnedBeforeAnyRecordIsSent(t *testing.T) {
	cases := []struct {
		name  string
		spoil func(*kgo.Record)
		says  string
	}{
		{"too large", func(r *kgo.Record) { r.Value = make([]byte, DefaultMaxMessageBytes) }, "more than the 1048587 that"},
		{"no topic", func(r *kgo.Record) { r.Topic = "" }, "`topic` is empty"},
		{"no topic name", func(r *kgo.Record) { r.Topic = "a b" }, "`topic` is \"a b\""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, o := range []option{guarantee(AtLeastOnce), unchecked} {
				r, _ := fakeRig(t, o)
				r.Start(tag(1), -1)
				batch := r.batch(tag(1), "a", "b")
				c.spoil(&batch[1].Record)
				require.ErrorContains(t, r.WriteBatch(t.Context(), batch), c.says)
				if r.checkpointed {
					require.NoError(t, r.Flush(t.Context()), "the attempt goes on")
				}
				require.Empty(t, r.values(t))
				require.Empty(t, r.seat.failures())
			}
		})
	}
}

// TestSizeIsCountedAsTheClientCounts: what check lets through the client must take, and what it refuses the client must
// refuse, or a record would fail the attempt for ever, or never be sent though it could.
func TestSizeIsCountedAsTheClientCounts(t *testing.T) {
	const limit = 3000
	r, _ := fakeRig(t, func(c *Config, _ *seat) { c.MaxMessageBytes = limit })
	rng := rand.New(rand.NewPCG(1, 2))
	bytes := func(n int) []byte {
		if n == 0 && rng.IntN(2) == 0 {
			return nil
		}
		return make([]byte, n)
	}
	taken, refused := 0, 0
	for range 150 {
		rec := kgo.Record{Topic: "t", Key: bytes(rng.IntN(200))}
		for range rng.IntN(4) {
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: strings.Repeat("k", rng.IntN(70)), Value: bytes(rng.IntN(150))})
		}
		rec.Value = bytes(limit - batchLength(&rec) - 6 + rng.IntN(12)) // within a few bytes of the limit
		_, checked := r.check([]Record{{Record: rec}})
		cl, err := kgo.NewClient(r.cfg.options()...) // one that does not know the broker's version yet
		require.NoError(t, err)
		sent := cl.ProduceSync(t.Context(), &rec).FirstErr()
		cl.Close()
		if checked == nil {
			taken++
			require.NoError(t, sent, "length %d", batchLength(&rec))
		} else {
			refused++
			require.ErrorIs(t, sent, kerr.MessageTooLarge, "length %d", batchLength(&rec))
		}
	}
	require.Greater(t, taken, 20)
	require.Greater(t, refused, 20)
}

func TestWithoutCheckpointsAWriteReturnsWhatTheBrokerAnswers(t *testing.T) {
	r, fake := fakeRig(t, unchecked)
	arrived, release := hold(t, fake)
	done := blocked(t, func() error { return r.WriteBatch(soon(t), r.batch(checkpoint.Tag{}, "a", "b")) })
	<-arrived
	select {
	case err := <-done:
		t.Fatalf("returned before the broker has acknowledged: %v", err)
	default:
	}
	release()
	require.NoError(t, <-done)
	require.Equal(t, []string{"a", "b"}, r.values(t))
	fake.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, r.WriteBatch(ctx, r.batch(checkpoint.Tag{}, "c")), context.DeadlineExceeded)
}

func TestWithoutCheckpointsARefusedRecordIsReturned(t *testing.T) {
	r, fake := fakeRig(t, unchecked)
	refuse(fake, kerr.InvalidRecord)
	require.ErrorIs(t, r.WriteBatch(soon(t), r.batch(checkpoint.Tag{}, "a")), kerr.InvalidRecord)
	require.Empty(t, r.seat.failures())
}

func TestWithoutCheckpointsAWriteEndsAtTheDeliveryTimeout(t *testing.T) {
	r, fake := fakeRig(t, unchecked, func(c *Config, _ *seat) { c.DeliveryTimeout = 50 * time.Millisecond })
	hold(t, fake)
	require.ErrorContains(t, r.WriteBatch(soon(t), r.batch(checkpoint.Tag{}, "a")), "has not acknowledged the batch within 50ms")
}

// TestOldRecordsDoNotTimeOut: a copy keeps timestamps, and the client would measure from them.
func TestOldRecordsDoNotTimeOut(t *testing.T) {
	for name, o := range map[string]option{"with checkpoints": guarantee(AtLeastOnce), "without": unchecked} {
		t.Run(name, func(t *testing.T) {
			r, fake := fakeRig(t, o)
			answerOnce(fake, kerr.NotEnoughReplicas) // which the client tries again, after a look at the age
			r.Start(tag(1), -1)
			batch := r.batch(tag(1), "a")
			batch[0].Timestamp = time.UnixMilli(0)
			require.NoError(t, r.WriteBatch(t.Context(), batch))
			if r.checkpointed {
				require.NoError(t, r.Flush(t.Context()))
			}
			require.Equal(t, []string{"a"}, r.values(t))
		})
	}
}

func TestMissingTopicIsAClearError(t *testing.T) {
	t.Run("known beforehand", func(t *testing.T) {
		r, fake := fakeRig(t)
		other := newRig(t, fake.ListenAddrs(), "t", func(c *Config, _ *seat) { c.Topics = []string{"t", "nowhere"} })
		_, err := other.Connect(t.Context())
		require.ErrorContains(t, err, `"nowhere" does not exist`)
		require.ErrorContains(t, err, "`topic`")
		_ = r
	})
	t.Run("met while writing", func(t *testing.T) {
		r, _ := fakeRig(t, unchecked)
		batch := r.batch(checkpoint.Tag{}, "a")
		batch[0].Topic = "nowhere"
		require.ErrorContains(t, r.WriteBatch(soon(t), batch), `"nowhere" does not exist`)
	})
}

func TestGuaranteeNoneCountsWhatIsLost(t *testing.T) {
	for _, o := range []option{unchecked, func(*Config, *seat) {}} {
		r, fake := fakeRig(t, guarantee(None), o)
		refuse(fake, kerr.InvalidRecord)
		r.Start(tag(1), -1)
		r.write(t, tag(1), "a", "b", "c")
		require.NoError(t, r.Flush(t.Context()), "there is nothing to wait for")
		require.Eventually(t, func() bool { return r.gone.Load() == 3 }, 10*time.Second, time.Millisecond)
		require.Empty(t, r.seat.failures())
	}
}

func TestGuaranteeNoneSendsWhatIsBufferedWhenItIsClosed(t *testing.T) {
	for _, o := range []option{unchecked, func(*Config, *seat) {}} {
		r, _ := fakeRig(t, guarantee(None), o)
		r.Start(tag(1), -1)
		r.write(t, tag(1), "a", "b", "c")
		r.Close()
		require.Equal(t, []string{"a", "b", "c"}, r.values(t))
		require.Zero(t, r.gone.Load())
	}
}

func TestGuaranteeNoneCountsWhatIsNotAcknowledgedWhenItIsClosed(t *testing.T) {
	r, fake := fakeRig(t, guarantee(None), unchecked, func(c *Config, _ *seat) { c.DrainTimeout = 50 * time.Millisecond })
	arrived, _ := hold(t, fake)
	r.write(t, tag(1), "a", "b", "c")
	<-arrived
	r.Close()
	require.EqualValues(t, 3, r.gone.Load())
}

// TestGuaranteeNoneSendsWhatIsBufferedWhenTheStreamGoesBack: a checkpoint has not waited for it, so it is not read again.
func TestGuaranteeNoneSendsWhatIsBufferedWhenTheStreamGoesBack(t *testing.T) {
	r, fake := fakeRig(t, guarantee(None))
	r.Start(tag(1), -1)
	arrived, release := hold(t, fake)
	r.write(t, tag(1), "a", "b", "c")
	<-arrived
	require.NoError(t, r.Flush(t.Context()), "a checkpoint completes")
	halted := blocked(t, func() error { return r.Halt(soon(t)) })
	release()
	require.NoError(t, <-halted)
	r.Start(tag(2), -1)
	r.write(t, tag(2), "d")
	r.Close()
	require.Equal(t, []string{"a", "b", "c", "d"}, r.values(t))
	require.Zero(t, r.gone.Load())
}

func TestGuaranteeNoneCountsWhatIsNotAcknowledgedWhenTheStreamGoesBack(t *testing.T) {
	r, fake := fakeRig(t, guarantee(None), func(c *Config, _ *seat) { c.DrainTimeout = 50 * time.Millisecond })
	r.Start(tag(1), -1)
	arrived, _ := hold(t, fake)
	r.write(t, tag(1), "a", "b", "c")
	<-arrived
	require.NoError(t, r.Halt(t.Context()))
	require.EqualValues(t, 3, r.gone.Load())
	r.Start(tag(2), -1)
	require.Empty(t, r.seat.failures())
}

func TestCheckpointedWriteReturnsOnceBufferedAndFlushWaits(t *testing.T) {
	r, fake := fakeRig(t)
	r.Start(tag(1), -1)
	arrived, release := hold(t, fake)
	r.write(t, tag(1), "a", "b")
	<-arrived // the broker has them and does not answer
	flushed := blocked(t, func() error { return r.Flush(soon(t)) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, r.Flush(ctx), context.DeadlineExceeded)
	release()
	require.NoError(t, <-flushed)
	c, err := r.Seal(-1)
	require.NoError(t, err)
	require.Nil(t, c, "nothing to commit without transactions")
	require.Equal(t, []string{"a", "b"}, r.values(t))
}

// TestFailedSendFailsTheAttemptOnce: and never some other, innocent batch.
func TestFailedSendFailsTheAttemptOnce(t *testing.T) {
	r, fake := fakeRig(t)
	refuse(fake, kerr.InvalidRecord)
	r.Start(tag(7), -1)
	r.write(t, tag(7), "a")
	<-r.seat.told
	r.write(t, tag(7), "b") // dropped: its attempt is over
	require.ErrorIs(t, r.Flush(t.Context()), kerr.InvalidRecord)
	require.ErrorIs(t, r.Flush(t.Context()), kerr.InvalidRecord, "the failure sticks")
	_, err := r.Seal(-1)
	require.ErrorIs(t, err, kerr.InvalidRecord)
	require.Len(t, r.seat.failures(), 1)
	require.Contains(t, oneString(r.seat.failures()), "attempt 7: sending: `topic`: \"t\": INVALID_RECORD")
	require.Equal(t, int64(1), r.dropped.Load())
}

// TestOlderAttemptNeverReachesANewerOne: rule 8.
func TestOlderAttemptNeverReachesANewerOne(t *testing.T) {
	r, _ := fakeRig(t)
	r.Start(tag(3), -1)
	r.write(t, tag(2), "never emitted by this incarnation")
	r.write(t, tag(3), "a")
	require.NoError(t, r.Flush(t.Context()))
	require.NoError(t, r.Halt(t.Context()))
	r.write(t, tag(3), "between attempts")
	r.Start(tag(4), -1)
	r.write(t, tag(3), "late")
	mixed := append(r.batch(tag(3), "late too"), r.batch(tag(4), "b")...)
	require.NoError(t, r.WriteBatch(t.Context(), mixed))
	require.NoError(t, r.Flush(t.Context()))
	require.Equal(t, []string{"a", "b"}, r.values(t))
	require.Equal(t, int64(4), r.dropped.Load())
}

// TestBatchOfAnAttemptNotYetStartedWaits: sources start after sinks, but not in the same goroutine.
func TestBatchOfAnAttemptNotYetStartedWaits(t *testing.T) {
	r, _ := fakeRig(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, r.WriteBatch(ctx, r.batch(tag(1), "given up")), context.DeadlineExceeded)
	done := blocked(t, func() error { return r.WriteBatch(soon(t), r.batch(tag(1), "a")) })
	r.Start(tag(1), -1)
	require.NoError(t, <-done)
	require.NoError(t, r.Halt(t.Context()))
	done = blocked(t, func() error { return r.WriteBatch(soon(t), r.batch(tag(2), "b")) })
	r.Start(tag(2), -1)
	require.NoError(t, <-done)
	require.NoError(t, r.Flush(t.Context()))
	require.Equal(t, int64(0), r.dropped.Load())
}

// TestForeignMessagesOfAnAtLeastOnceSinkAreAcknowledgedFirst: nobody else remembers them.
func TestForeignMessagesOfAnAtLeastOnceSinkAreAcknowledgedFirst(t *testing.T) {
	for _, foreign := range []checkpoint.Tag{{}, {Stream: theirs, Attempt: 9}} {
		r, fake := fakeRig(t)
		r.Start(tag(1), -1)
		arrived, release := hold(t, fake)
		batch := append(r.batch(tag(1), "ours"), r.batch(foreign, "foreign")...)
		done := blocked(t, func() error { return r.WriteBatch(soon(t), batch) })
		<-arrived
		select {
		case err := <-done:
			t.Fatalf("returned before the broker has acknowledged: %v", err)
		default:
		}
		release()
		require.NoError(t, <-done)
		require.NoError(t, r.Flush(t.Context()))
		require.Equal(t, []string{"foreign", "ours"}, r.values(t))
	}
}

func TestForeignFailureIsReturnedAndFailsNoAttempt(t *testing.T) {
	r, fake := fakeRig(t)
	r.Start(tag(1), -1)
	refuse(fake, kerr.InvalidRecord)
	require.ErrorIs(t, r.WriteBatch(soon(t), r.batch(checkpoint.Tag{}, "foreign")), kerr.InvalidRecord)
	require.NoError(t, r.Flush(t.Context()))
	require.Empty(t, r.seat.failures())
}

func TestForeignMessageBesideAFailedAttemptIsNotAcknowledged(t *testing.T) {
	r, fake := fakeRig(t)
	refuse(fake, kerr.InvalidRecord)
	r.Start(tag(1), -1)
	r.write(t, tag(1), "refused")
	require.Error(t, r.Flush(t.Context()), "the attempt has failed")
	batch := append(r.batch(tag(1), "ours"), r.batch(checkpoint.Tag{}, "foreign")...)
	require.ErrorIs(t, r.WriteBatch(soon(t), batch), errEnded, "acknowledged, the foreign one would be lost")
	require.NoError(t, r.WriteBatch(soon(t), r.batch(tag(1), "ours")), "ours is read again")
}

func TestForeignMessageEndsWithTheAttemptThatHoldsIt(t *testing.T) {
	r, fake := fakeRig(t)
	r.Start(tag(1), -1)
	arrived, _ := hold(t, fake)
	done := blocked(t, func() error { return r.WriteBatch(soon(t), r.batch(checkpoint.Tag{}, "foreign")) })
	<-arrived
	require.NoError(t, r.Halt(t.Context()))
	require.ErrorIs(t, <-done, errEnded, "its sender must send it again")
	require.Empty(t, r.seat.failures())
}

func TestHaltEndsAWriteThatWaitsForRoom(t *testing.T) {
	r, fake := fakeRig(t, window4)
	r.Start(tag(1), -1)
	arrived, _ := hold(t, fake)
	r.write(t, tag(1), "a", "b", "c")
	<-arrived
	done := blocked(t, func() error { return r.WriteBatch(soon(t), r.batch(tag(1), "d", "e")) })
	r.writersInside(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, r.WriteBatch(ctx, r.batch(tag(1), "f", "g")), context.DeadlineExceeded, "given up with nothing sent")
	require.NoError(t, r.Halt(t.Context()))
	require.NoError(t, <-done)
	require.Equal(t, int64(2), r.dropped.Load())
	require.Empty(t, r.seat.failures(), "what fails because of the halt is not reported")
}

// TestHaltFailsAFlush: closing the client ends the client's own flush without an error.
func TestHaltFailsAFlush(t *testing.T) {
	r, fake := fakeRig(t)
	r.Start(tag(1), -1)
	arrived, _ := hold(t, fake)
	r.write(t, tag(1), "a")
	<-arrived
	out := r.out
	flushed := blocked(t, func() error { return r.Flush(soon(t)) })
	require.NoError(t, r.Halt(t.Context()))
	require.ErrorIs(t, <-flushed, errNoAttempt)
	require.NoError(t, out.flush(t.Context()), "the client's own flush knows nothing of it")
}

func TestCloseEndsEveryWrite(t *testing.T) {
	r, fake := fakeRig(t, window4)
	waiting := blocked(t, func() error { return r.WriteBatch(soon(t), r.batch(tag(2), "not started")) })
	r.Start(tag(1), -1)
	arrived, _ := hold(t, fake)
	r.write(t, tag(1), "a", "b", "c")
	<-arrived
	inside := blocked(t, func() error { return r.WriteBatch(soon(t), r.batch(tag(1), "d", "e")) })
	r.writersInside(t, 1)
	r.Close()
	require.NoError(t, <-inside)
	require.ErrorIs(t, <-waiting, ErrClosed)
	require.ErrorIs(t, r.WriteBatch(t.Context(), r.batch(tag(3), "late")), ErrClosed)
	require.Error(t, r.Flush(t.Context()))
	_, err := r.Seal(1)
	require.Error(t, err)
}

// TestWindowIsBoundedAndABatchLargerThanItGetsIn.
func TestWindowIsBoundedAndABatchLargerThanItGetsIn(t *testing.T) {
	r, fake := fakeRig(t, window4)
	r.Start(tag(1), -1)
	arrived, release := hold(t, fake)
	r.write(t, tag(1), "1", "2", "3", "4", "5", "6") // larger than the window, which is empty
	<-arrived
	next := blocked(t, func() error { return r.WriteBatch(soon(t), r.batch(tag(1), "7")) })
	r.writersInside(t, 1)
	require.Equal(t, int64(6), r.out.window.records.Load())
	release()
	require.NoError(t, <-next)
	require.NoError(t, r.Flush(t.Context()))
	require.Equal(t, int64(0), r.out.window.records.Load())
	require.Equal(t, int64(0), r.out.window.bytes.Load())
	require.Equal(t, []string{"1", "2", "3", "4", "5", "6", "7"}, r.values(t))
}

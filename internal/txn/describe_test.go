package txn

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// TestDescribedStateBecomesAVerdict covers the states that are too brief or too far away to meet on a broker in a test.
// Those at the last epoch were seen on Apache Kafka 4.3.1: 32766, then 32767 while it commits, then a new producer id.
func TestDescribedStateBecomesAVerdict(t *testing.T) {
	const last = math.MaxInt16 - 1
	young, old := time.Now(), time.Now().Add(-time.Hour)
	cases := []struct {
		name    string
		epoch   int16
		began   time.Time
		level   int16
		seen    described
		verdict checkpoint.Verdict
		patient bool
		settles bool
	}{
		{name: "open", epoch: 3, seen: described{"Ongoing", 7, 3}, verdict: 0},
		{name: "another's is open", epoch: 3, seen: described{"Ongoing", 7, 5}, verdict: checkpoint.Unknown},
		{name: "the next epoch's is open, below 2", epoch: 3, seen: described{"Ongoing", 7, 4}, verdict: checkpoint.Unknown},
		{name: "its commit is being mended, at 2", epoch: 3, level: 2, seen: described{"Ongoing", 7, 4}, verdict: 0},
		{name: "its timeout is being written", epoch: 3, patient: true, seen: described{"Ongoing", 7, 4}, settles: true},
		{name: "its timeout is being written, at 2", epoch: 3, patient: true, level: 2, seen: described{"Ongoing", 7, 4}, settles: true},
		{name: "another producer id is open", epoch: 3, seen: described{"Ongoing", 8, 3}, verdict: checkpoint.Unknown},
		{name: "being committed", epoch: 3, level: 2, seen: described{"PrepareCommit", 7, 4}, verdict: checkpoint.Committed},
		{name: "being aborted", epoch: 3, level: 2, seen: described{"PrepareAbort", 7, 4}, settles: true},
		{name: "being fenced", epoch: 3, seen: described{"PrepareEpochFence", 7, 4}, settles: true},
		{name: "aborted at its epoch", epoch: 3, began: young, seen: described{"CompleteAbort", 7, 3}, verdict: checkpoint.Aborted},
		{name: "aborted by its timeout, below 2", epoch: 3, began: old, seen: described{"CompleteAbort", 7, 4}, verdict: checkpoint.Aborted},
		{name: "aborted before its timeout, below 2", epoch: 3, began: young, seen: described{"CompleteAbort", 7, 4}, verdict: checkpoint.Unknown},
		{name: "aborted before its timeout, at 2", epoch: 3, began: young, level: 2, seen: described{"CompleteAbort", 7, 4}, verdict: checkpoint.Aborted},
		{name: "initialised again", epoch: 3, seen: described{"Empty", 7, 4}, verdict: checkpoint.Unknown},
		{name: "expiring", epoch: 3, seen: described{"Dead", 7, 3}, verdict: checkpoint.Unknown},
		{name: "last epoch, being committed", epoch: last, level: 2, seen: described{"PrepareCommit", 7, math.MaxInt16}, verdict: checkpoint.Committed},
		{name: "last epoch, committed", epoch: last, level: 2, seen: described{"CompleteCommit", 8, 0}, verdict: checkpoint.Committed},
		{name: "last epoch, aborted", epoch: last, level: 2, seen: described{"CompleteAbort", 8, 0}, verdict: checkpoint.Aborted},
		{name: "last epoch, initialised again", epoch: last, level: 2, seen: described{"Empty", 8, 0}, verdict: checkpoint.Unknown},
		{name: "earlier epoch, new producer id", epoch: 3, level: 2, seen: described{"CompleteCommit", 8, 0}, verdict: checkpoint.Unknown},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			since := time.Now().Add(-time.Hour)
			if c.patient {
				since = time.Time{}
			}
			verdict, err := c.seen.verdict(checkpoint.Committable{
				ProducerID: 7, Epoch: c.epoch, BeganUnixMs: c.began.UnixMilli(), TimeoutMs: 60_000,
			}, c.level, &settling{since: since})
			if c.settles {
				require.True(t, again(err), "it must be asked again: %v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.verdict, verdict)
		})
	}
}

// fencedOrTimedOut: both answer a produce with the same error, and must not be mixed up. Taking the id back from its
// rightful owner would be as wrong as giving up over a slow checkpoint.
func fencedOrTimedOut(t *testing.T, b *bench) {
	t.Run("timed out", func(t *testing.T) {
		t.Parallel()
		id := realkafka.Name(t)
		cl := b.writer(t, id, 2*time.Second)
		c := b.open(t, cl, id, 2*time.Second)
		b.eventually(t, id, "CompleteAbort")
		answer := cl.ProduceSync(t.Context(), kgo.StringRecord("late")).FirstErr()
		require.ErrorIs(t, answer, kerr.InvalidProducerEpoch)
		require.NoError(t, b.Diagnose(t.Context(), c, began(c), answer))
	})
	t.Run("timed out, asked while it is being aborted", func(t *testing.T) {
		t.Parallel()
		id := realkafka.Name(t)
		c := b.open(t, b.writer(t, id, 2*time.Second), id, 2*time.Second)
		require.Eventually(t, func() bool { return b.seen(t, id) != "Ongoing" }, 20*time.Second, time.Millisecond)
		require.NoError(t, b.Diagnose(t.Context(), c, began(c), kerr.InvalidProducerEpoch))
	})
	t.Run("fenced by an initialisation", func(t *testing.T) {
		id := realkafka.Name(t)
		cl := b.writer(t, id, time.Minute)
		c := b.open(t, cl, id, time.Minute)
		_, err := b.Init(t.Context(), []string{id}, nil, Timeouts{Candidates: []time.Duration{time.Minute}}, nil)
		require.NoError(t, err)
		answer := cl.ProduceSync(t.Context(), kgo.StringRecord("late")).FirstErr()
		require.True(t, fencing(answer), "%v", answer)
		requireFenced(t, b.Diagnose(t.Context(), c, began(c), answer))
	})
	t.Run("fenced by another transaction", func(t *testing.T) {
		id := realkafka.Name(t)
		cl := b.writer(t, id, time.Minute)
		c := b.open(t, cl, id, time.Minute)
		b.open(t, b.writer(t, id, time.Minute), id, time.Minute)
		answer := cl.ProduceSync(t.Context(), kgo.StringRecord("late")).FirstErr()
		require.True(t, fencing(answer), "%v", answer)
		requireFenced(t, b.Diagnose(t.Context(), c, began(c), answer))
	})
	t.Run("fenced just now", func(t *testing.T) { fencedJustNow(t, b) })
	t.Run("still ours", func(t *testing.T) {
		id := realkafka.Name(t)
		c := b.open(t, b.writer(t, id, time.Minute), id, time.Minute)
		require.NoError(t, b.Diagnose(t.Context(), c, began(c), kerr.InvalidProducerEpoch))
	})
}

// fencedJustNow asks all the while another owner initialises the id: its first InitProducerId aborts our transaction, and
// only a second one, after CONCURRENT_TRANSACTIONS, takes the id.
func fencedJustNow(t *testing.T, b *bench) {
	id := realkafka.Name(t)
	c := b.open(t, b.writer(t, id, time.Minute), id, time.Minute)
	done := make(chan error, 1)
	go func() {
		_, err := b.Init(t.Context(), []string{id}, nil, Timeouts{Candidates: []time.Duration{time.Minute}}, nil)
		done <- err
	}()
	states := map[string]bool{}
	for busy := true; busy; {
		select {
		case err := <-done:
			require.NoError(t, err)
			busy = false
		default:
		}
		d, err := b.describe(t.Context(), id)
		require.NoError(t, err)
		states[fmt.Sprintf("%s, epoch +%d", d.state, d.epoch-c.Epoch)] = true
		if d.producerID == c.ProducerID && d.epoch == c.Epoch {
			continue // the other owner is not there yet
		}
		owned, err := d.ours(c, false, &settling{since: time.Now().Add(-time.Hour)})
		require.False(t, owned, "%s (%v)", d, err)
	}
	t.Log(states)
	requireFenced(t, b.Diagnose(t.Context(), c, began(c), kerr.InvalidProducerEpoch))
}

func began(c checkpoint.Committable) time.Time { return time.UnixMilli(c.BeganUnixMs) }

func requireFenced(t *testing.T, err error) {
	t.Helper()
	var fenced *FencedError
	require.ErrorAs(t, err, &fenced)
	require.Contains(t, err.Error(), "taken over by another owner")
	require.Contains(t, err.Error(), "transactional_id_prefix")
}

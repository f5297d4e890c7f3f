package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/txn"
)

// book is a ledger that writes down what is done with transactions. Records are refused by their value.
type book struct {
	refuse   map[string]error
	verdicts []checkpoint.Verdict // of the next commits; Committed where there is none
	// commitErr is what every commit returns; abortErr every abort. A commit takes so long.
	commitErr, abortErr error
	commitTakes         time.Duration
	diagnosis           error
	// readyTakes is how long a transaction is not to be produced to.
	readyTakes time.Duration

	mu        sync.Mutex
	lines     []string
	committed []string
	using     map[int32]*page
}

// page is one transaction of a book.
type page struct {
	book   *book
	id     int32
	done   func(*kgo.Record, error)
	values []string
	failed bool
	closed bool
	// readyAt is when it may be produced to.
	readyAt time.Time
}

func (b *book) begin(id int32, done func(*kgo.Record, error)) opened {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &page{book: b, id: id, done: done, readyAt: time.Now().Add(b.readyTakes)}
	if b.using == nil {
		b.using = map[int32]*page{}
	}
	b.using[id] = p
	return p
}

func (b *book) note(format string, args ...any) {
	b.lines = append(b.lines, fmt.Sprintf(format, args...))
}

func (b *book) commit(ctx context.Context, c checkpoint.Committable) (checkpoint.Verdict, error) {
	select {
	case <-time.After(b.commitTakes):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var id int32
	_, _ = fmt.Sscanf(c.TransactionalID, "p-%d", &id)
	p := b.using[id]
	if b.commitErr != nil {
		return 0, b.commitErr
	}
	verdict := checkpoint.Committed
	if len(b.verdicts) > 0 {
		verdict, b.verdicts = b.verdicts[0], b.verdicts[1:]
	}
	b.note("commit %d: %s: %v", id, strings.Join(p.values, " "), verdict)
	if verdict == checkpoint.Committed {
		b.committed = append(b.committed, p.values...)
	}
	return verdict, nil
}

func (b *book) abort(_ context.Context, id int32) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note("abort %d", id)
	return b.abortErr
}

func (p *page) Ready(ctx context.Context) error {
	wait := time.Until(p.readyAt)
	if wait <= 0 {
		return nil
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *page) Produce(records []*kgo.Record) {
	for _, r := range records {
		p.book.mu.Lock()
		err := p.book.refuse[string(r.Value)]
		if p.closed {
			err = kgo.ErrClientClosed
		}
		if p.failed && err == nil {
			err = kerr.OutOfOrderSequenceNumber // a consequence
		}
		if err == nil {
			p.values = append(p.values, string(r.Value))
		} else {
			p.failed = true
		}
		p.book.mu.Unlock()
		p.done(r, err)
	}
}

func (p *page) Flush(context.Context) error { return nil }

func (p *page) Seal() (*checkpoint.Committable, error) {
	if len(p.values) == 0 {
		return nil, nil
	}
	return &checkpoint.Committable{TransactionalID: fmt.Sprintf("p-%d", p.id), Records: int64(len(p.values))}, nil
}

func (p *page) Diagnose(context.Context, error) error { return p.book.diagnosis }

func (p *page) Close() {
	p.book.mu.Lock()
	defer p.book.mu.Unlock()
	p.closed = true
}

// groupRig is groups over a book.
type groupRig struct {
	*groups
	book     *book
	seat     *seat
	aborts   int
	gathered []int
	// records and abandoned are what Committed and Abandoned have counted.
	records, abandoned int
}

func newGroupRig(b *book, writers int) *groupRig {
	r := &groupRig{book: b, seat: newSeat()}
	s := New(Config{
		Seat: r.seat, Writers: writers, Pool: checkpoint.Pool{Prefix: "p", Size: 3},
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Metrics: Metrics{
			Committed: func(batches, records int) { r.gathered, r.records = append(r.gathered, batches), r.records+records },
			Aborted:   func() { r.aborts++ },
			Abandoned: func(batches int) { r.abandoned += batches },
		},
	})
	r.groups = newGroups(s, b)
	return r
}

func (r *groupRig) close() {
	r.cancel()
	r.wg.Wait()
}

// send writes batches at once, each given by the values of its records; it returns what each writer was told.
func (r *groupRig) send(t *testing.T, batches ...string) map[string]string {
	told := map[string]string{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, values := range batches {
		records := []*kgo.Record{}
		for v := range strings.FieldsSeq(values) {
			records = append(records, &kgo.Record{Topic: "t", Value: []byte(v)})
		}
		wg.Go(func() {
			err := r.write(t.Context(), records, 1)
			mu.Lock()
			defer mu.Unlock()
			told[values] = fmt.Sprint(err)
		})
		synctest.Wait() // one after the other, so that the order is known
	}
	wg.Wait()
	return told
}

const fine = "<nil>"

func TestRefusedBatchIsFoundAndHandedBackAlone(t *testing.T) {
	tooLarge := map[string]error{"poison": kerr.MessageTooLarge}
	tests := map[string]struct {
		refuse  map[string]error
		batches []string
		bad     []string
		says    string
		lines   []string
	}{
		"alone": {tooLarge, []string{"poison"}, []string{"poison"}, "MESSAGE_TOO_LARGE", []string{"abort 0"}},
		"the last one": {
			tooLarge, []string{"a", "b", "poison"}, []string{"poison"}, "MESSAGE_TOO_LARGE",
			[]string{"abort 0", "abort 1", "commit 2: a b: committed"},
		},
		"the first one, and what comes later does not join it": {
			tooLarge, []string{"poison", "a", "b"}, []string{"poison"}, "MESSAGE_TOO_LARGE",
			[]string{"abort 0", "commit 1: a b: committed"},
		},
		"in the middle of a batch": {
			tooLarge, []string{"a", "b poison c", "d"}, []string{"b poison c"}, "MESSAGE_TOO_LARGE",
			[]string{"abort 0", "abort 1", "commit 2: a: committed", "commit 0: d: committed"},
		},
		"two of them": {
			map[string]error{"x": kerr.InvalidRecord, "y": kerr.InvalidRecord}, []string{"a", "x", "b", "y"}, []string{"x", "y"}, "INVALID_RECORD",
			[]string{"abort 0", "abort 1", "commit 2: a: committed", "abort 0", "abort 1", "commit 2: b: committed"},
		},
		"a topic that is not there": {
			map[string]error{"poison": kerr.UnknownTopicOrPartition}, []string{"a", "poison"}, []string{"poison"}, "does not exist",
			[]string{"abort 0", "abort 1", "commit 2: a: committed"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newGroupRig(&book{refuse: tc.refuse}, len(tc.batches))
				defer r.close()
				for sent, told := range r.send(t, tc.batches...) {
					if slices.Contains(tc.bad, sent) {
						require.Contains(t, told, tc.says, sent)
					} else {
						require.Equal(t, fine, told, sent)
					}
				}
				require.Equal(t, tc.lines, r.book.lines)
				require.Empty(t, r.seat.fatals())
			})
		})
	}
}

func TestWhatTheBrokerAbortedIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newGroupRig(&book{verdicts: []checkpoint.Verdict{checkpoint.Aborted, checkpoint.Aborted}}, 2)
		defer r.close()
		require.Equal(t, map[string]string{"a b": fine, "c": fine}, r.send(t, "a b", "c"))
		require.Equal(t, []string{"commit 0: a b c: aborted", "commit 1: a b c: aborted", "commit 2: a b c: committed"}, r.book.lines)
		require.Equal(t, 2, r.aborts)
		require.Equal(t, []int{2}, r.gathered)
	})
}

// TestTroubleOfTheTransactionBlamesNoBatch: nobody is handed back what another attempt will write.
func TestTroubleOfTheTransactionBlamesNoBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{refuse: map[string]error{"a": kerr.TransactionAbortable}}
		r := newGroupRig(b, 1)
		defer r.close()
		go func() {
			<-time.After(10 * time.Second)
			b.mu.Lock()
			b.refuse = nil
			b.mu.Unlock()
		}()
		require.Equal(t, map[string]string{"a": fine}, r.send(t, "a"))
		require.Equal(t, []string{"a"}, b.committed)
		require.Less(t, r.aborts, 15, "it is not tried without a pause")
	})
}

func TestUnknownOutcomeEndsTheProcessAndTellsNobodyAnything(t *testing.T) {
	for name, b := range map[string]*book{
		"the broker cannot tell": {verdicts: []checkpoint.Verdict{checkpoint.Unknown}},
		"the broker refuses":     {commitErr: &txn.AuthorizationError{TransactionalID: "p-0", Operation: "Write"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newGroupRig(b, 2)
				defer r.close()
				for _, told := range r.send(t, "a", "b") {
					require.Contains(t, told, "whether the batch was written is not known")
				}
				require.Len(t, r.seat.fatals(), 1)
				require.Error(t, r.write(t.Context(), []*kgo.Record{{Topic: "t"}}, 1), "nothing is taken any more")
				var unsettled *UnsettledError
				require.NotErrorAs(t, r.write(t.Context(), []*kgo.Record{{Topic: "t"}}, 1), &unsettled)
			})
		})
	}
}

// TestFencedByAnotherOwnerHandsEverythingBack: a transaction that was never asked to commit is certainly aborted.
func TestFencedByAnotherOwnerHandsEverythingBack(t *testing.T) {
	fenced := &txn.FencedError{TransactionalID: "p-0", Err: kerr.ProducerFenced}
	for name, b := range map[string]*book{
		"seen by a record": {refuse: map[string]error{"a": kerr.InvalidProducerEpoch}, diagnosis: fenced},
		"seen by an abort": {refuse: map[string]error{"a": kerr.MessageTooLarge}, abortErr: fenced},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newGroupRig(b, 2)
				defer r.close()
				for _, told := range r.send(t, "a", "b") {
					require.Contains(t, told, "taken over by another owner")
				}
				require.Len(t, r.seat.fatals(), 1)
				require.Empty(t, b.committed)
			})
		})
	}
}

func TestWritesGatherWhileTheTransactionBeforeIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newGroupRig(&book{commitTakes: 50 * time.Millisecond}, 100)
		defer r.close()
		began := time.Now()
		require.Equal(t, fine, r.send(t, "alone")["alone"])
		require.Equal(t, 60*time.Millisecond, time.Since(began), "a lonely sender waits for the linger and the commit")
		var wg sync.WaitGroup
		for i := range 40 { // every 5 ms, so nobody hears of silence
			wg.Go(func() {
				require.NoError(t, r.write(t.Context(), []*kgo.Record{{Topic: "t", Value: []byte{'a' + byte(i)}}}, 1))
			})
			<-time.After(5 * time.Millisecond)
		}
		wg.Wait()
		require.Equal(t, []int{1, 40}, r.gathered)
	})
}

func TestWriteThatIsGivenUpLeavesItsOutcomeOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newGroupRig(&book{commitTakes: time.Hour}, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := r.write(ctx, []*kgo.Record{{Topic: "t", Value: []byte("a")}}, 1)
		var unsettled *UnsettledError
		require.ErrorAs(t, err, &unsettled)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		// And so does the sink's end, for whoever still waits.
		waiting := make(chan error, 2)
		for range 2 {
			go func() { waiting <- r.write(t.Context(), []*kgo.Record{{Topic: "t", Value: []byte("b")}}, 1) }()
			synctest.Wait()
		}
		r.close()
		for range 2 {
			require.ErrorAs(t, <-waiting, &unsettled)
		}
		require.ErrorIs(t, r.write(t.Context(), []*kgo.Record{{Topic: "t"}}, 1), ErrClosed)
		require.Empty(t, r.seat.fatals())
		require.Empty(t, r.book.committed)
	})
}

// TestBatchesWithoutAWriterAreCountedWhereTheyAreCommitted: their sender sends them again, and they are there twice. A batch
// whose writer has gone before its records were sent is not there.
func TestBatchesWithoutAWriterAreCountedWhereTheyAreCommitted(t *testing.T) {
	for name, tc := range map[string]struct {
		book *book
		// patience is that of the first writer; the second one stays.
		patience  time.Duration
		abandoned int
		committed []string
	}{
		"while it is committed":               {&book{commitTakes: time.Minute}, time.Second, 1, []string{"a", "b"}},
		"before its records were sent":        {&book{readyTakes: time.Minute}, time.Second, 0, []string{"b"}},
		"it stays":                            {&book{commitTakes: time.Minute}, time.Hour, 0, []string{"a", "b"}},
		"while what is aborted is sent again": {&book{commitTakes: 2 * time.Second, verdicts: []checkpoint.Verdict{checkpoint.Aborted}}, time.Second, 0, []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newGroupRig(tc.book, 2)
				ctx, cancel := context.WithTimeout(t.Context(), tc.patience)
				defer cancel()
				var wg sync.WaitGroup
				wg.Go(func() {
					err := r.write(ctx, []*kgo.Record{{Topic: "t", Value: []byte("a")}}, 1)
					require.Equal(t, tc.patience == time.Hour, err == nil)
				})
				synctest.Wait()
				wg.Go(func() { require.NoError(t, r.write(t.Context(), []*kgo.Record{{Topic: "t", Value: []byte("b")}}, 1)) })
				wg.Wait()
				r.close()
				require.Equal(t, tc.committed, r.book.committed)
				require.Equal(t, tc.abandoned, r.abandoned)
				require.Equal(t, len(tc.committed), r.records)
			})
		})
	}
}

func TestNothingIsCountedWhereEverybodyHadGoneBeforeARecordWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newGroupRig(&book{readyTakes: time.Minute}, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, r.write(ctx, []*kgo.Record{{Topic: "t", Value: []byte("a")}}, 1))
		<-time.After(time.Hour)
		r.close()
		require.Zero(t, r.abandoned)
		require.Empty(t, r.gathered)
		require.Empty(t, r.book.committed)
	})
}

func TestRefusalsAreTold(t *testing.T) {
	for _, err := range []error{
		kerr.MessageTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.TopicAuthorizationFailed,
		kerr.UnknownTopicOrPartition, kerr.InvalidTopicException, kerr.PolicyViolation, errors.New("something of the client's own"),
	} {
		require.True(t, refusesRecord(err), "%v", err)
	}
	for _, err := range []error{
		kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidTxnState, kerr.TransactionAbortable,
		kerr.NotEnoughReplicas, kerr.NotLeaderForPartition, kerr.OutOfOrderSequenceNumber, kgo.ErrClientClosed,
		context.Canceled, kerr.TransactionalIDAuthorizationFailed,
	} {
		require.False(t, refusesRecord(err), "%v", err)
	}
}

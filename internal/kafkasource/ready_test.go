package kafkasource

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/internal/offsets"
	"github.com/tidegate/tidegate/internal/splits"
	"github.com/tidegate/tidegate/tests/kafkaproxy"
)

// quiet is a source of single-record batches of topic "a" whose brokers are silent when the test says so: nothing measures
// that.
func quiet(t *testing.T, b *broker, change func(*Config)) *source {
	t.Helper()
	cfg := baseConfig(b.servers, "a")
	cfg.MaxBatch = 1
	if change != nil {
		change(&cfg)
	}
	s := newSource(t, cfg)
	s.watching = true
	return s
}

// now is what Next returns where it has to return at once.
func (s *source) now() (Batch, error) {
	s.t.Helper()
	out := make(chan nextResult, 1)
	go func() {
		b, err := s.Reader.Next(s.t.Context())
		out <- nextResult{b, err}
	}()
	got := receive(s.t, out, "an answer of Next")
	return got.Batch, got.err
}

// TestNotReadyNeitherLosesNorDoubles has the source become not ready at every moment of a batch's life, after which the
// engine connects again, and ask for the same: each record is handed out once, and positions count what is acknowledged.
func TestNotReadyNeitherLosesNorDoubles(t *testing.T) {
	for name, between := range map[string]func(t *testing.T, s *source, last Batch){
		"while Next polls": func(t *testing.T, s *source, last Batch) {
			last.Ack(t.Context(), nil)
			s.setSilent(true)
		},
		"a batch is not acknowledged": func(t *testing.T, s *source, last Batch) {
			s.setSilent(true)
			_, err := s.now()
			require.ErrorIs(t, err, ErrNotReady)
			last.Ack(t.Context(), nil)
		},
		"during a barrier": func(t *testing.T, s *source, last Batch) {
			last.Ack(t.Context(), nil)
			_, err := s.Pause(t.Context())
			require.NoError(t, err)
			s.setSilent(true)
			_, err = s.now()
			require.ErrorIs(t, err, ErrNotReady)
			s.Resume()
		},
		"a barrier comes meanwhile": func(t *testing.T, s *source, last Batch) {
			s.setSilent(true)
			_, err := s.now()
			require.ErrorIs(t, err, ErrNotReady)
			last.Ack(t.Context(), nil)
			s.pause()
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeBroker(t, 1, "a")
			b.produce("a", 0, "0", "1", "2", "3")
			s := quiet(t, b, nil)
			s.resolve(nil)
			for i := range int64(4) {
				batch := s.next()
				require.Equal(t, i, batch.Records[0].Offset)
				between(t, s, batch)
				_, err := s.now()
				require.ErrorIs(t, err, ErrNotReady)
				require.Equal(t, []int64{i + 1}, offsetsOf(s.pause()))
				s.setSilent(false)
				require.NoError(t, s.AwaitReady(t.Context()))
			}
			require.Equal(t, []int64{4}, offsetsOf(s.pause()))
		})
	}
}

func TestRecordsFetchedBeforeNotReadyAreHandedOutAfterIt(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	s := quiet(t, b, nil)
	s.resolve(nil)
	waiting := s.background()
	// Race: the poll returns a record, and before Next hands it out no broker answers any more.
	s.mu.Lock()
	s.silent = true
	s.att.pending = append(s.att.pending, chunk{s.att.splits[0], []*kgo.Record{{Topic: "a", Value: []byte("kept")}}})
	s.att.interrupt()
	s.bump()
	s.mu.Unlock()
	require.Equal(t, []int64{0}, offsetsOf(s.pause()), "it is not handed out, and not counted")
	stays(t, waiting)
	s.setSilent(false)
	got := receive(t, waiting, "the record")
	require.NoError(t, got.err)
	require.Equal(t, "kept", string(got.Records[0].Value))
	got.Ack(t.Context(), nil)
	require.Equal(t, []int64{1}, offsetsOf(s.pause()))
}

// TestStopWhileNotReady has the engine ask for another batch, hear that the source is not ready, and stop. A batch it has
// taken before must not be taken for one that it never took.
func TestStopWhileNotReady(t *testing.T) {
	for name, tc := range map[string]struct {
		acked, hard bool
		position    int64
	}{
		"soft, everything is acknowledged":              {acked: true, position: 1},
		"hard, the only batch ever was taken":           {hard: true},
		"hard, before any acknowledgement told its ctx": {hard: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeBroker(t, 1, "a")
			b.produce("a", 0, "0", "1")
			s := quiet(t, b, nil)
			s.resolve(nil)
			batch := s.next()
			s.setSilent(true)
			_, err := s.now()
			require.ErrorIs(t, err, ErrNotReady)
			connecting, stop := context.WithCancel(t.Context())
			stop()
			require.ErrorIs(t, s.AwaitReady(connecting), context.Canceled)
			if tc.acked {
				batch.Ack(t.Context(), nil)
			}
			s.seat.onClose = func(ctx context.Context, hard bool) error {
				if hard {
					return nil
				}
				state, err := s.Pause(ctx)
				require.NoError(t, err)
				require.Equal(t, []int64{tc.position}, offsetsOf(state))
				return nil
			}
			require.NoError(t, s.Close(t.Context()))
			require.Equal(t, tc.hard, receive(t, s.seat.closed, "the decision"))
		})
	}
}

func TestSourceIsNotReadyBetweenAttempts(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	b.produce("a", 0, "0", "1")
	s := quiet(t, b, nil)
	_, err := s.now()
	require.ErrorIs(t, err, ErrNotReady, "before the first")
	state := s.resolve(nil)
	batch := s.next()
	batch.Ack(t.Context(), errNotDelivered)
	_, err = s.now()
	require.ErrorIs(t, err, ErrNotReady, "from the failure on")
	require.NoError(t, s.Halt(t.Context()))
	s.setSilent(true)
	s.Start(tag(2), state)
	_, err = s.now()
	require.ErrorIs(t, err, ErrNotReady, "an attempt that hears of no broker")
	s.setSilent(false)
	require.Equal(t, []string{"a-0@0=0", "a-0@1=1"}, s.read(2), "the refused one again, and none twice")
}

func TestSourceThatHasEndedSaysSoAlthoughNoBrokerAnswers(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	s := quiet(t, b, func(c *Config) { c.Stop = offsets.Stop{Mode: offsets.LatestStop} })
	s.resolve(nil)
	waiting := s.background()
	receive(t, s.seat.atEnd, "the report of the end")
	s.setSilent(true)
	stays(t, waiting)
	s.Finish()
	require.ErrorIs(t, receive(t, waiting, "the end").err, ErrEndOfInput)
}

func TestSourceIsNotReadyWhileNoBrokerAnswers(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "a"))
	require.NoError(t, err)
	defer cluster.Close()
	b := brokerAt(t, cluster.ListenAddrs())
	cfg := baseConfig(b.servers, "a")
	cfg.EndInterval, cfg.LostAfter = 50*time.Millisecond, 2*time.Second
	s := newSource(t, cfg)
	s.resolve(nil)
	require.NoError(t, s.AwaitReady(t.Context()))
	cluster.Close()
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := s.Reader.Next(ctx)
		return errors.Is(err, ErrNotReady)
	}, patience, 10*time.Millisecond)
	require.Contains(t, s.log.String(), "no broker has answered for a while")
}

// A password that is changed while the source runs is found out when a connection has to be made anew, and then by nobody:
// the clients try for ever.
func TestBrokersThatLetTheSourceInNoMoreEndIt(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "a"), kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "p"))
	require.NoError(t, err)
	defer cluster.Close()
	proxy, err := kafkaproxy.New(cluster.ListenAddrs())
	require.NoError(t, err)
	defer proxy.Close()
	cfg := baseConfig(proxy.Bootstrap(), "a")
	cfg.Connection.Security.SASL = []kafkaclient.SASL{{Mechanism: "PLAIN", Username: "u", Password: kafkaclient.NewSecret("p")}}
	cfg.EndInterval, cfg.LostAfter = 50*time.Millisecond, 2*time.Second
	lags := make(chan int64, 1000)
	cfg.Metrics.Partitions = lagsTo(lags)
	s := newSource(t, cfg)
	s.resolve(nil)
	require.NoError(t, s.AwaitReady(t.Context()))
	require.Eventually(t, func() bool { return <-lags == 0 }, patience, time.Millisecond)

	cluster.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return resp, nil, true
	})
	proxy.Sever(true)
	proxy.Sever(false)
	require.ErrorContains(t, receive(t, s.seat.fatal, "the end"), "no broker has answered for 2s, and they refuse a new connection")
	require.Eventually(t, func() bool { return <-lags == unknown }, patience, time.Millisecond, "nobody knows how far it is behind")
}

// lagsTo takes the lag of each partition as it is shown.
type lagsTo chan int64

func (l lagsTo) Show(_ string, _ int32, p Progress) {
	select {
	case l <- p.Lag:
	default:
	}
}
func (lagsTo) Forget(string, int32) {}
func (lagsTo) Drop(string, int32)   {}

// TestAnswersToFetchesCountAsHeard: questions for the ends of the log alone are no sign of an outage.
func TestAnswersToFetchesCountAsHeard(t *testing.T) {
	e := &ear{born: time.Now().Add(-time.Hour)}
	require.GreaterOrEqual(t, e.silence(), time.Hour)
	e.OnBrokerRead(kgo.BrokerMetadata{}, 1, 10, 0, 0, errors.New("connection reset"))
	require.GreaterOrEqual(t, e.silence(), time.Hour)
	e.OnBrokerRead(kgo.BrokerMetadata{}, 1, 10, 0, 0, nil)
	require.Less(t, e.silence(), time.Minute)

	b := fakeBroker(t, 1, "a")
	s := quiet(t, b, nil)
	s.resolve(nil)
	s.ear.last.Store(0)
	b.produce("a", 0, "0")
	s.read(1) // nobody else asks
	require.Positive(t, s.ear.last.Load())
}

// TestEndsThatWereAskedForMoveNoPosition walks through what an answer may meet when it is noted.
func TestEndsThatWereAskedForMoveNoPosition(t *testing.T) {
	for name, tc := range map[string]struct {
		end, position, answer, want int64
		standing, interrupted       bool
	}{
		"nothing new":                           {end: 5, position: 5, answer: 5, want: 5},
		"something new while a poll waits":      {end: 5, position: 5, answer: 9, want: 9, standing: true, interrupted: true},
		"something new for a poll with a limit": {end: 7, position: 5, answer: 9, want: 9, standing: true},
		"older than what a fetch told":          {end: 9, position: 5, answer: 5, want: 9, standing: true},
		"older than the position":               {end: 9, position: 9, answer: 5, want: 9},
	} {
		t.Run(name, func(t *testing.T) {
			interrupted := false
			s := &split{pos: checkpoint.Split{Topic: "a", Offset: tc.position, Stop: checkpoint.NoStop}, end: tc.end}
			a := &attempt{splits: []*split{s}, interrupt: func() { interrupted = true }}
			r := &Reader{att: a}
			before := s.pos
			r.noteEnds(a, []*split{s}, map[splits.Partition]int64{{Topic: "a"}: tc.answer})
			require.Equal(t, before, s.pos)
			require.Equal(t, tc.want, s.end)
			require.Equal(t, tc.standing, len(a.standing()) > 0)
			require.Equal(t, tc.interrupted, interrupted)
		})
	}
}

// TestAnswerForATopicThatWasReplacedMeanwhileIsOfNoUse: the new one's end is another.
func TestAnswerForATopicThatWasReplacedMeanwhileIsOfNoUse(t *testing.T) {
	pos := checkpoint.Split{Topic: "a", Stop: checkpoint.NoStop}
	old, replaced := &split{pos: pos}, &split{pos: pos}
	a := &attempt{splits: []*split{replaced}, interrupt: func() {}}
	r := &Reader{att: a}
	r.noteEnds(a, []*split{old}, map[splits.Partition]int64{{Topic: "a"}: 1000})
	require.Zero(t, replaced.end)
	require.Empty(t, a.standing())
}

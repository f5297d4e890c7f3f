package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestErrorsOfAFetchAreNeverPassedOver(t *testing.T) {
	const passed, failed, fatal = "passed over", "failed", "fatal"
	for name, tc := range map[string]struct {
		topic string
		err   error
		want  string
		text  string
	}{
		"end of the poll":             {"", context.DeadlineExceeded, passed, ""},
		"interrupted poll":            {"", context.Canceled, passed, ""},
		"closed client":               {"", kgo.ErrClientClosed, passed, ""},
		"the client tries again":      {"a", kerr.NotLeaderForPartition, passed, ""},
		"connection lost":             {"a", io.EOF, passed, ""},
		"no ACL":                      {"a", kerr.TopicAuthorizationFailed, fatal, "grant the ACL operation Read on resource Topic"},
		"out of range, for a moment":  {"a", kerr.OffsetOutOfRange, failed, "fetching a-0 at offset 0: OFFSET_OUT_OF_RANGE"},
		"log cut":                     {"a", &kgo.ErrDataLoss{Topic: "a", ConsumedTo: 9, ResetTo: 4}, fatal, "a-0 at 9, log ends at 4"},
		"batch too large":             {"a", &kgo.ErrDecompressTooLarge{Topic: "a"}, fatal, "fetching a-0"},
		"topic id unknown, but there": {"a", kerr.UnknownTopicID, failed, "UNKNOWN_TOPIC_ID"},
		"corrupt batch":               {"a", errors.New("encoded crc does not match"), failed, "fetching a-0 at offset 0: the batch there is corrupt in the log of its leader, broker 0: encoded crc does not match"},
	} {
		t.Run(name, func(t *testing.T) {
			b := fakeBroker(t, 1, "a")
			s := newSource(t, baseConfig(b.servers, "a"))
			s.resolve(nil)
			s.mu.Lock()
			a := s.att
			errs := a.accept(kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: tc.topic, Partitions: []kgo.FetchPartition{{Err: tc.err}}}}}}, false)
			outside := a.outside
			s.mu.Unlock()
			s.reportFetchErrors(t.Context(), a, errs)
			if c, _ := a.corruptDue(false); c != nil {
				s.reportCorrupt(t.Context(), a, c)
			}
			s.stepOver(t.Context(), a, outside)
			switch tc.want {
			case passed:
				require.Empty(t, errs)
			case failed:
				f := receive(t, s.seat.failed, "the failure")
				require.Equal(t, tag(1), f.tag)
				require.ErrorContains(t, f.cause, tc.text)
			case fatal:
				require.ErrorContains(t, receive(t, s.seat.fatal, "the end"), tc.text)
			}
			require.Empty(t, s.seat.failed, fmt.Sprint(tc.want))
			require.Empty(t, s.seat.fatal, fmt.Sprint(tc.want))
		})
	}
}

// The client asks for more only when it holds nothing: what it has is taken from it at once, and handed out in batches.
func TestWhatWasFetchedIsHandedOutInBatchesOfAtMostSoManyRecords(t *testing.T) {
	b := fakeBroker(t, 2, "a")
	values := make([]string, 25)
	for i := range values {
		values[i] = fmt.Sprint(i)
	}
	b.produce("a", 0, values...)
	b.produce("a", 1, values...)
	cfg := baseConfig(b.servers, "a")
	cfg.MaxBatch = 10
	s := newSource(t, cfg)
	s.resolve(nil)
	next := map[int32]int64{}
	var batches []Batch
	for n := 0; n < 50; {
		batch := s.next()
		require.LessOrEqual(t, len(batch.Records), 10)
		for _, r := range batch.Records {
			require.Equal(t, next[r.Partition], r.Offset)
			next[r.Partition]++
		}
		n += len(batch.Records)
		batches = append(batches, batch)
	}
	require.Equal(t, map[int32]int64{0: 25, 1: 25}, next)
	// The prefix that is acknowledged grows by whole batches, also where one holds the end of a partition and the beginning
	// of the other.
	s.mu.Lock()
	acked := s.att.ackedState()
	s.mu.Unlock()
	require.Equal(t, []int64{0, 0}, offsetsOf(acked))
	for _, batch := range batches {
		batch.Ack(t.Context(), nil)
	}
	require.Equal(t, []int64{25, 25}, offsetsOf(s.pause()))
}

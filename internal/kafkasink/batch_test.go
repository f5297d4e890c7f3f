package kafkasink

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fill makes a batch of a number of records, each with its own content.
func filled(topic string, first, n int) *Batch {
	b := NewBatch(n)
	for i := range b.Records {
		b.Records[i] = Record{Record: kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "%d", first+i)}, Tag: tag(1)}
	}
	return b
}

func TestABatchIsFreeWhenItsLastRecordIsHandled(t *testing.T) {
	b := filled("t", 0, 3)
	kept := append(b.room(), &b.Records[0].Record, &b.Records[2].Record) // the other one was dropped
	handled := b.handledBy(kept)
	handled()
	require.Equal(t, "0", string(b.Records[0].Value), "what is not acknowledged is held by the client")
	handled()
	require.Equal(t, make([]Record, 3), b.Records, "nothing is left of the records, so that it is not held any longer")
}

func TestABatchOfTheCallersOwnIsNotUsedAgain(t *testing.T) {
	require.Nil(t, (&Batch{Records: make([]Record, 2)}).handledBy(nil))
}

// TestNoRecordIsTouchedWhileTheBrokerMayWantItAgain leaves the first produce request without an answer, so that the client
// sends its records once more, while other batches come and go.
func TestNoRecordIsTouchedWhileTheBrokerMayWantItAgain(t *testing.T) {
	r, fake := fakeRig(t)
	r.Start(tag(1), -1)
	fake.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		return nil, fmt.Errorf("the connection is gone"), true
	})
	const batches, each = 200, 50
	var want []string
	for i := range batches {
		require.NoError(t, r.Write(t.Context(), filled("t", i*each, each)))
	}
	require.NoError(t, r.Flush(t.Context()))
	for i := range batches * each {
		want = append(want, fmt.Sprint(i))
	}
	require.Equal(t, want, valuesOf(t, fake, "t", len(want)))
}

func valuesOf(t *testing.T, fake *kfake.Cluster, topic string, n int) (values []string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...), kgo.ConsumeTopics(topic))
	require.NoError(t, err)
	defer client.Close()
	for len(values) < n {
		fetches := client.PollFetches(t.Context())
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(rec *kgo.Record) { values = append(values, string(rec.Value)) })
	}
	return values
}

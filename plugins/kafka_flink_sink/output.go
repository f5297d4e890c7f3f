package kafkaflinksink

import (
	"context"
	"errors"
	"fmt"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/benthosx"
	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/internal/kafkasink"
)

// missingTries is how often a topic that does not exist is looked for again.
const missingTries = 1

// output is the Benthos side of a sink.
type output struct {
	sink       *kafkasink.Sink
	seat       *checkpoint.Seat
	records    *recordBuilder
	streamID   string
	connecting benthosx.Connecting
	missing    int // how often in a row its topic was not there
}

// newOutput parses and declares, and has no other effect: Benthos builds outputs that it never starts.
func newOutput(conf *service.ParsedConfig, res *service.Resources) (out service.BatchOutput, policy service.BatchPolicy, maxInFlight int, err error) {
	if path := res.Path(); len(path) > 0 && path[0] == "output_resources" {
		err := fmt.Errorf("output_resources %q: a kafka_flink_sink cannot be a resource, since a resource belongs to no "+
			"stream and takes part in no checkpoint; write it under output", res.Label())
		// On an error Benthos would build it again until the shutdown timeout (rule 13).
		benthosx.Fatal(err)
		return refused{}, policy, 1, nil
	}
	cfg, err := parseConfig(conf)
	if err != nil {
		return nil, policy, 0, err
	}
	stream, log, counts := benthosx.StreamOf(res), benthosx.Logger(res), metrics(res.Metrics())
	var sink *kafkasink.Sink
	seat, err := stream.DeclareSink(checkpoint.SinkDeclaration{
		Key: benthosx.ComponentKey(res), Pool: cfg.pool, OnLost: cfg.onLost,
		Guarantee: cfg.guarantee.String(),
		About:     func() string { return sink.About() },
		Totals:    func() checkpoint.Totals { return sink.Totals() },
		IDs:       counts.IDs,
	})
	if err != nil {
		return nil, policy, 0, err
	}
	connection := cfg.connection
	if connection.ClientID == "" {
		connection = connection.WithClientID("tidegate-" + seat.Key())
	}
	client, err := connection.Options(log)
	if err != nil {
		return nil, policy, 0, err
	}
	sink = kafkasink.New(kafkasink.Config{
		Guarantee: cfg.guarantee, Stream: stream, Seat: seat, Key: seat.Key(), Client: client,
		Topics: cfg.knownTopics(), Pool: seat.Pool(), TransactionTimeout: cfg.transactionTimeout, Log: log,
		CommitInterval: cfg.commitInterval, Writers: cfg.maxInFlight, Metrics: counts,
		Principal: connection.Security.Principal(), Properties: connection.Properties,
	})
	return &output{
		sink: sink, seat: seat, records: cfg.records, streamID: res.StreamID(),
		connecting: benthosx.Connecting{Seat: seat, StreamID: res.StreamID()},
	}, policy, cfg.maxInFlight, nil
}

// refused is an output that the process ends for.
type refused struct{}

func (refused) Connect(context.Context) error { return service.ErrEndOfInput }
func (refused) WriteBatch(context.Context, service.MessageBatch) error {
	return service.ErrNotConnected
}
func (refused) Close(context.Context) error { return nil }

// Connect reaches the cluster, then waits until the stream has recovered.
func (o *output) Connect(ctx context.Context) error { return o.connecting.Do(ctx, o.connect) }

func (o *output) connect(ctx context.Context) error {
	// Benthos stops an output by closing what it reads from, and leaves the context of Connect alone until the shutdown
	// timeout. Nobody needs the connection when the sources have gone.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(o.seat.Life(), cancel)()
	clusterID, err := o.sink.Connect(ctx)
	var missing *kafkasink.MissingTopicError
	switch {
	case kafkaclient.Final(err):
		o.seat.Fatal(err) // Rule 13: what the cluster refuses it will refuse again.
	case errors.As(err, &missing):
		// A topic that was made a moment ago may not be known to every broker.
		if o.missing++; o.missing > missingTries {
			o.seat.Fatal(err)
		}
	default:
		o.missing = 0
	}
	if err == nil {
		err = o.seat.JoinSink(ctx, clusterID, o.sink)
	}
	if err == nil {
		o.seat.Begun()
	}
	return err
}

// WriteBatch hands a batch to the sink; see kafkasink.Sink.WriteBatch for what its error means. In a stream that has
// failed nothing is acknowledged, since no checkpoint will hold it. In streams mode, where the process goes on, such a
// stream is to be stopped without waiting for what its sources have emitted: their positions count no more.
func (o *output) WriteBatch(ctx context.Context, batch service.MessageBatch) error {
	records := kafkasink.NewBatch(len(batch))
	err := o.records.into(records.Records, batch)
	if cause := o.seat.Failure(); cause != nil {
		if o.streamID != "" && err == nil && o.sink.Emitted(records.Records) {
			return nil
		}
		return cause
	}
	if err != nil {
		return err
	}
	err = o.sink.Write(ctx, records)
	if _, unsettled := errors.AsType[*kafkasink.UnsettledError](err); unsettled {
		// Benthos then acknowledges neither way, and writes nothing more; the process, or the stream, is about to end. A
		// nack would have a fallback or a retry write again what may be there.
		return service.ErrEndOfInput
	}
	return err
}

// Close ends the sink's part. It ends no transaction.
func (o *output) Close(context.Context) error {
	defer benthosx.Closed()
	o.seat.Leave()
	o.sink.Close()
	return nil
}

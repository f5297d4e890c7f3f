package kafkaflinksink

import (
	"context"
	"fmt"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/benthosx"
	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/internal/kafkasink"
)

// reconnectWait is how long Benthos waits before it tries a cluster again that does not answer.
const reconnectWait = 5 * time.Second

// output is the Benthos side of a sink.
type output struct {
	sink    *kafkasink.Sink
	seat    *checkpoint.Seat
	records *recordBuilder
}

// newOutput parses and declares, and has no other effect: Benthos builds outputs that it never starts.
func newOutput(conf *service.ParsedConfig, res *service.Resources) (out service.BatchOutput, policy service.BatchPolicy, maxInFlight int, err error) {
	if path := res.Path(); len(path) > 0 && path[0] == "output_resources" {
		err := fmt.Errorf("output_resources %q: a kafka_flink_sink cannot be a resource, since a resource belongs to no "+
			"stream and takes part in no checkpoint; write it under output", res.Label())
		benthosx.Fatal(err) // Benthos would build it again for ever (rule 13).
		return nil, policy, 0, err
	}
	cfg, err := parseConfig(conf)
	if err != nil {
		return nil, policy, 0, err
	}
	stream, log := benthosx.StreamOf(res), benthosx.Logger(res)
	seat, err := stream.DeclareSink(checkpoint.SinkDeclaration{
		Key: benthosx.ComponentKey(res), Pool: cfg.pool, OnLost: cfg.onLost,
	})
	if err != nil {
		return nil, policy, 0, err
	}
	client, err := cfg.connection.WithClientID("tidegate-" + seat.Key()).Options(log)
	if err != nil {
		return nil, policy, 0, err
	}
	dropped, lost := res.Metrics().NewCounter("kafka_sink_dropped_records"), res.Metrics().NewCounter("kafka_sink_lost_records")
	sink := kafkasink.New(kafkasink.Config{
		Guarantee: cfg.guarantee, Stream: stream, Seat: seat, Key: seat.Key(), Client: client,
		Topics: cfg.knownTopics(), Pool: cfg.pool, TransactionTimeout: cfg.transactionTimeout, Log: log,
		Dropped: func(n int) { dropped.Incr(int64(n)) },
		Lost:    func(n int) { lost.Incr(int64(n)) },
	})
	return &output{sink: sink, seat: seat, records: cfg.records}, policy, cfg.maxInFlight, nil
}

// Connect reaches the cluster, then waits until the stream has recovered. Where the process is ending anyway it ends the
// output, since Benthos would go on trying until the shutdown timeout.
func (o *output) Connect(ctx context.Context) error {
	if o.seat.Over() {
		return service.ErrEndOfInput
	}
	clusterID, err := o.sink.Connect(ctx)
	if kafkaclient.Classify(err) == kafkaclient.ClassAuthorisation {
		o.seat.Fatal(err) // Rule 13: what the cluster refuses it will refuse again.
	}
	if benthosx.FatalCause() != nil {
		return service.ErrEndOfInput
	}
	if err != nil {
		return service.NewErrBackOff(err, reconnectWait)
	}
	if err = o.seat.JoinSink(ctx, clusterID, o.sink); err == nil || ctx.Err() != nil {
		return err
	}
	return service.ErrEndOfInput // The cause is on its way to the last line of the log, or the stream was stopped.
}

// WriteBatch hands a batch to the sink; see kafkasink.Sink.WriteBatch for what its error means.
func (o *output) WriteBatch(ctx context.Context, batch service.MessageBatch) error {
	records, err := o.records.build(batch)
	if err != nil {
		return err
	}
	return o.sink.WriteBatch(ctx, records)
}

// Close ends the sink's part. It ends no transaction.
func (o *output) Close(context.Context) error {
	o.seat.Leave()
	o.sink.Close()
	return nil
}

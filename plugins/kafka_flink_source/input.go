package kafkaflinksource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/cache"
	"github.com/tidegate/tidegate/internal/benthosx"
	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/headerexpr"
	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/internal/kafkasource"
)

// input is the Benthos side of a source.
type input struct {
	reader   *kafkasource.Reader
	seat     *checkpoint.Seat
	messages *messages
	// check looks at what the source depends on besides its own config, begin waits until it may read.
	check, begin func(context.Context) error
	connecting   benthosx.Connecting
	begun        bool // it may read
}

// newInput parses and declares, and has no other effect: Benthos builds inputs that it never starts.
func newInput(conf *service.ParsedConfig, res *service.Resources) (service.BatchInput, error) {
	if path := res.Path(); len(path) > 0 && path[0] == "input_resources" {
		err := fmt.Errorf("input_resources %q: a kafka_flink_source cannot be a resource, since a resource belongs to no "+
			"stream and has no checkpoints; write it under input", res.Label())
		// Benthos builds a resource when a running stream asks for it, and on an error asks again for ever (rule 13).
		benthosx.Fatal(err)
		return nil, err
	}
	cfg, err := parseConfig(conf)
	if err != nil {
		return nil, err
	}
	cfg.reader.StreamID = res.StreamID()
	cfg.reader.Logger = benthosx.Logger(res)
	if warning := headerexpr.Warning(cfg.reader.Filter); warning != "" {
		cfg.reader.Logger.Warn("header_filter: " + warning)
	}
	cfg.reader.Metrics = metrics(res.Metrics())
	in := &input{messages: newMessages(cfg.metadata, cfg.headers)}
	in.messages.context = benthosx.SpanContext(res)
	if cfg.checkpoint == nil {
		err = in.declareSolo(res, cfg)
	} else {
		err = in.declare(res, cfg)
	}
	if err != nil {
		return nil, err
	}
	in.connecting = benthosx.Connecting{Seat: in.seat, StreamID: res.StreamID()}
	return in, nil
}

// declare makes the source one that the stream's coordinator drives.
func (in *input) declare(res *service.Resources, cfg config) (err error) {
	var storeID atomic.Value
	in.seat, err = benthosx.StreamOf(res).DeclareSource(checkpoint.SourceDeclaration{
		Key:        benthosx.ComponentKey(res),
		Successive: benthosx.Successive(res),
		Index:      cfg.reader.Share.Index,
		Checkpoint: cfg.checkpoint,
		OpenStore: func(ctx context.Context) (checkpoint.Store, error) {
			store, err := cache.OpenStore(ctx, res, cfg.store, res.StreamID(), cfg.retained)
			if err != nil {
				return nil, err
			}
			storeID.Store(store.StoreID())
			return store, nil
		},
		About:  func() string { return in.reader.About() },
		Totals: func() checkpoint.Totals { return in.reader.Totals() },
	})
	if err != nil {
		return err
	}
	cfg.reader.Key = in.seat.Key()
	// It does not wait for acknowledgements when its check has come true.
	if slices.Contains(res.Path(), "read_until") {
		cfg.reader.ClosedHard = "read_until"
	}
	cfg.reader.StoreID = func() string { id, _ := storeID.Load().(string); return id }
	var sinks int
	in.check = func(ctx context.Context) (err error) {
		if sinks, err = benthosx.RequireTopology(ctx, res, in.seat.Incarnation()); err != nil {
			return err
		}
		return cache.CheckStore(ctx, res, cfg.store)
	}
	in.begin = func(ctx context.Context) error { return in.seat.JoinSource(ctx, in.reader, sinks) }
	in.reader, err = kafkasource.New(cfg.reader, in.seat)
	return err
}

// declareSolo makes the source one that goes by its acknowledgements alone. It is declared too: the sinks of the stream
// ask whether its sources have checkpoints.
func (in *input) declareSolo(res *service.Resources, cfg config) (err error) {
	in.seat, err = benthosx.StreamOf(res).DeclareSource(checkpoint.SourceDeclaration{
		Key:    benthosx.ComponentKey(res),
		Index:  cfg.reader.Share.Index,
		About:  func() string { return in.reader.About() },
		Totals: func() checkpoint.Totals { return in.reader.Totals() },
	})
	if err != nil {
		return err
	}
	cfg.reader.Key = in.seat.Key()
	reader, solo, err := kafkasource.NewSolo(cfg.reader, in.seat)
	if err != nil {
		return err
	}
	in.reader = reader
	in.check = func(context.Context) error { return nil } // it may stand anywhere
	in.begin = func(ctx context.Context) error {
		if err := in.seat.JoinSource(ctx, reader, 0); err != nil {
			return err
		}
		return solo.Begin(ctx)
	}
	return nil
}

// Connect reaches the cluster, then waits until the stream has recovered and says where to begin, or without checkpoints
// finds that out by itself. After that Benthos calls it again only for /ready.
func (in *input) Connect(ctx context.Context) error {
	if in.begun && in.seat.Failure() == nil {
		return in.awaitReady(ctx)
	}
	return in.connecting.Do(ctx, in.connect)
}

func (in *input) connect(ctx context.Context) error {
	// What is wrong in the config is said at once, not when the broker has come.
	err := in.check(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, new(*benthosx.TopologyError)):
		in.seat.FatalForAll(err)
	case err != nil:
		in.seat.Fatal(err)
	default:
		if err = in.reader.Connect(ctx); kafkaclient.Final(err) {
			in.seat.Fatal(err) // Rule 13: what the cluster refuses it will refuse again.
		}
	}
	if err == nil {
		err = in.begin(ctx)
	}
	if err == nil {
		in.begun = true
		in.seat.Begun()
	}
	return err
}

// ReadBatch returns the next batch. Its context ends at a soft stop. It returns ErrNotConnected where the stream has
// failed, since what would be read now would be for nothing, and where the source is not ready, which makes /ready say so.
func (in *input) ReadBatch(ctx context.Context) (service.MessageBatch, service.AckFunc, error) {
	alive, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(in.seat.Life(), cancel)()
	batch, err := in.reader.Next(alive)
	switch {
	case err == nil:
	case in.seat.Failure() != nil, errors.Is(err, kafkasource.ErrNotReady):
		return nil, nil, service.ErrNotConnected
	case errors.Is(err, kafkasource.ErrEndOfInput), errors.Is(err, kafkasource.ErrClosed):
		return nil, nil, service.ErrEndOfInput
	default:
		return nil, nil, err
	}
	ack := func(ctx context.Context, err error) error {
		batch.Ack(ctx, err)
		return nil
	}
	return in.messages.build(batch.Tag, batch.Records), ack, nil
}

// awaitReady waits until the source is ready again, or the stream has failed.
func (in *input) awaitReady(ctx context.Context) error {
	alive, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(in.seat.Life(), cancel)()
	err := in.reader.AwaitReady(alive)
	switch {
	case err == nil, ctx.Err() != nil:
		return err
	case in.seat.Failure() != nil:
		return in.connecting.Do(ctx, in.connect)
	}
	return nil // the stream is over, and ReadBatch says so
}

// Close runs the last checkpoint, if this is a graceful stop: the output is still alive. Without checkpoints it commits
// what is acknowledged.
func (in *input) Close(ctx context.Context) error {
	defer benthosx.Closed()
	return in.reader.Close(ctx)
}

package benthosx

import (
	"context"

	"github.com/redpanda-data/benthos/v4/public/service"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// nowhere is the context of a span that somebody else does not record: not the zero one, and no valid one either.
var nowhere = trace.SpanContext{}.WithTraceFlags(trace.FlagsRandom).WithRemote(true)

// SpanContext returns what prepares the context of messages for Benthos's tracing.
//
// Benthos starts a span for every message at the input and at the output, also where tracing is off. Its tracer then
// wraps the context of each message, twice, unless it finds there a span that is not recorded: that one it returns as it
// is (noop.Tracer.Start). So one such span for a whole batch spares two allocations for each message. It is not valid, so
// tracing_id() and what is injected into outgoing requests stay what they are without it. With a real tracer nothing is
// prepared: the span would be taken for the parent.
func SpanContext(res *service.Resources) func(context.Context) context.Context {
	return spanContext(res.OtelTracer())
}

func spanContext(tracer trace.TracerProvider) func(context.Context) context.Context {
	if _, off := tracer.(noop.TracerProvider); !off {
		return func(ctx context.Context) context.Context { return ctx }
	}
	return func(ctx context.Context) context.Context { return trace.ContextWithSpanContext(ctx, nowhere) }
}

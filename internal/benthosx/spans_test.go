package benthosx

import (
	"context"
	"testing"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// realTracer is any tracer but the one that does nothing.
type realTracer struct{ noop.TracerProvider }

func TestNothingIsAllocatedForASpanThatNobodyRecords(t *testing.T) {
	type key struct{}
	plain := context.WithValue(context.Background(), key{}, "kept")
	ctx := SpanContext(service.MockResources())(plain)
	require.NotEqual(t, plain, ctx, "without configuration Benthos has the tracer that does nothing")
	tracer := noop.NewTracerProvider().Tracer("")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if got, _ := tracer.Start(ctx, "input_x"); got != ctx {
			t.Error("a context of its own for each message")
		}
	}))
	require.Equal(t, "kept", ctx.Value(key{}))
}

func TestASpanThatNobodyRecordsIsNotSeen(t *testing.T) {
	span := trace.SpanFromContext(spanContext(noop.NewTracerProvider())(context.Background()))
	require.False(t, span.IsRecording())
	require.False(t, span.SpanContext().IsValid(), "it would be sent along in outgoing requests")
	require.Equal(t, trace.TraceID{}, span.SpanContext().TraceID(), "tracing_id() shows it")

	plain := context.Background()
	require.Equal(t, plain, spanContext(realTracer{})(plain), "it would be the parent of what is traced")
}

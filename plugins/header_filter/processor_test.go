package headerfilter

import (
	"context"
	"testing"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/benthosx"
	"github.com/tidegate/tidegate/internal/checkpoint"
)

func build(t *testing.T, yaml string) service.Processor {
	t.Helper()
	conf, err := spec().ParseYAML(yaml, nil)
	require.NoError(t, err)
	p, err := newProcessor(conf, service.MockResources())
	require.NoError(t, err)
	return p
}

func TestProcessorDropsOrMarks(t *testing.T) {
	read := func(headers ...kgo.RecordHeader) func(*service.Message) {
		return func(m *service.Message) { m.MetaSetImmut("kafka_headers", benthosx.Headers(headers)) }
	}
	set := func(name string, value any) func(*service.Message) {
		return func(m *service.Message) { m.MetaSetMut(name, value) }
	}
	list := func(entries ...any) func(*service.Message) { return set("kafka_headers", entries) }
	entry := func(key string, value any) any { return map[string]any{"key": key, "value": value} }
	one := kgo.RecordHeader{Key: "a", Value: []byte("1")}
	for name, tc := range map[string]struct {
		yaml string
		set  func(*service.Message)
		kept bool
		err  string
	}{
		"as it was read":                {set: read(one), kept: true},
		"another value":                 {set: read(kgo.RecordHeader{Key: "a", Value: []byte("2")})},
		"null":                          {set: read(kgo.RecordHeader{Key: "a"})},
		"several":                       {set: read(kgo.RecordHeader{Key: "a"}, one), kept: true},
		"none":                          {set: read()},
		"as a mapping has made them":    {set: list(entry("b", "x"), entry("a", "1")), kept: true},
		"as bytes":                      {set: list(entry("a", []byte("1"))), kept: true},
		"a number":                      {set: list(entry("a", 1)), kept: true},
		"null, as a mapping has it":     {set: list(entry("a", nil))},
		"metadata where there is none":  {set: set("a", "1"), kept: true},
		"metadata that is a number":     {set: set("a", 1), kept: true},
		"metadata that is null":         {set: set("a", nil)},
		"metadata that is a list":       {set: set("a", []any{"1"})},
		"the list goes before metadata": {set: func(m *service.Message) { read()(m); m.MetaSetMut("a", "1") }},
		"metadata, as it is said":       {yaml: ", headers_from: metadata", set: func(m *service.Message) { read()(m); m.MetaSetMut("a", "1") }, kept: true},
		"another list":                  {yaml: `, headers_from: "@mine"`, set: set("mine", []any{entry("a", "1")}), kept: true},
		"no list":                       {set: set("kafka_headers", "a=1"), err: `headers_from @kafka_headers: string "a=1" is no list`},
		"an entry without a key":        {set: list(map[string]any{"value": "1"}), err: "headers_from @kafka_headers: entry 0: object"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, on := range []string{"drop", "mark"} {
				msg := service.NewMessage([]byte("v"))
				tc.set(msg)
				out, err := build(t, `{ expression: "a:1", on_mismatch: `+on+tc.yaml+` }`).Process(t.Context(), msg)
				if tc.err != "" {
					require.ErrorContains(t, err, tc.err)
					continue
				}
				require.NoError(t, err)
				if on == "drop" && !tc.kept {
					require.Empty(t, out)
					continue
				}
				require.Len(t, out, 1)
				marked, ok := out[0].MetaGetMut("header_filter_match")
				require.Equal(t, !tc.kept, ok)
				if ok {
					require.Equal(t, false, marked)
				}
			}
		})
	}
}

// Rule 8: what is left of a batch still tells the sink whose it is.
func TestMessagesKeepTheirTagWhereOthersAreDropped(t *testing.T) {
	b := service.NewStreamBuilder()
	require.NoError(t, b.SetLoggerYAML("level: off"))
	send, err := b.AddBatchProducerFunc()
	require.NoError(t, err)
	require.NoError(t, b.AddProcessorYAML(`header_filter: { expression: "keep:yes" }`))
	tag := checkpoint.Tag{Stream: new(checkpoint.Stream), Attempt: 7}
	got := make(chan service.MessageBatch, 1)
	require.NoError(t, b.AddBatchConsumerFunc(func(_ context.Context, batch service.MessageBatch) error {
		got <- batch
		return nil
	}))
	stream, err := b.Build()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- stream.Run(ctx) }()
	var batch service.MessageBatch
	for _, keep := range []string{"no", "yes", "no"} {
		msg := service.NewMessage([]byte(keep)).WithContext(checkpoint.WithTag(context.Background(), tag))
		msg.MetaSetMut("keep", keep)
		batch = append(batch, msg)
	}
	require.NoError(t, send(ctx, batch))
	left := <-got
	require.Len(t, left, 1)
	found, _ := checkpoint.TagFrom(left[0].Context())
	require.Equal(t, tag, found)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

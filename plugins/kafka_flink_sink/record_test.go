package kafkaflinksink

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/redpanda-data/benthos/v4/public/bloblang"
	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/benthosx"
	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkasink"
)

// builder makes records as a config with some lines more would.
func builder(t *testing.T, more string) *recordBuilder {
	t.Helper()
	c, err := parse(t, "bootstrap_servers: localhost:9092\ntopic: copy\n"+more)
	require.NoError(t, err)
	return c.records
}

// sourceMessage is what kafka_flink_source makes of a record.
func sourceMessage(r kgo.Record) *service.Message {
	m := service.NewMessage(r.Value)
	if r.Key != nil {
		m.MetaSetMut("kafka_key", r.Key)
	}
	if !r.Timestamp.IsZero() {
		m.MetaSetMut("kafka_timestamp_ms", r.Timestamp.UnixMilli())
	}
	m.MetaSetImmut("kafka_headers", benthosx.Headers(r.Headers))
	if r.Value == nil {
		m.MetaSetMut("kafka_tombstone_message", true)
	}
	return m
}

var awkward = []kgo.Record{
	{Key: []byte("k"), Value: []byte("v"), Timestamp: time.UnixMilli(1_700_000_000_123)},
	{Key: nil, Value: []byte{}, Timestamp: time.UnixMilli(0)},
	{Key: []byte{}, Value: nil},
	{Key: []byte{0, 255, 254, '\n'}, Value: []byte{255, 0, 128}, Headers: []kgo.RecordHeader{
		{Key: "a", Value: []byte("1")}, {Key: "b", Value: nil}, {Key: "a", Value: []byte{}}, {Key: "", Value: []byte{0, 255}},
	}},
}

// TestPlainCopyIsByteForByte: rule 9. Written out, the default means the same.
func TestPlainCopyIsByteForByte(t *testing.T) {
	for _, more := range []string{
		"",
		"key: ${! @kafka_key }\ntimestamp: ${! @kafka_timestamp_ms }",
		"key: ${!@kafka_key}\ntimestamp: ${! meta(\"kafka_timestamp_ms\") }",
		`key: '${! @"kafka_key" }'` + "\ntimestamp: ${! metadata(\"kafka_timestamp_ms\") }",
	} {
		b := builder(t, more)
		for _, want := range awkward {
			records, err := b.build(service.MessageBatch{sourceMessage(want)})
			require.NoError(t, err)
			want.Topic = "copy"
			require.Equal(t, []kafkasink.Record{{Record: want}}, records)
		}
	}
}

// TestCopySurvivesMappings: a mapping hands on other Go types for the same values.
func TestCopySurvivesMappings(t *testing.T) {
	for name, mapping := range map[string]string{
		"the message alone":      `root = this`,
		"all metadata assigned":  `meta = @`,
		"key assigned":           `meta kafka_key = @kafka_key`,
		"headers assigned":       `meta kafka_headers = @kafka_headers`,
		"headers rebuilt":        `meta kafka_headers = @kafka_headers.map_each(h -> {"key": h.key, "value": h.value})`,
		"headers added, dropped": `meta kafka_headers = @kafka_headers.append({"key": "x", "value": "y"}).filter(h -> h.key != "x")`,
		"timestamp as text":      `meta kafka_timestamp_ms = @kafka_timestamp_ms.string()`,
		"timestamp as number":    `meta kafka_timestamp_ms = @kafka_timestamp_ms.number()`,
	} {
		t.Run(name, func(t *testing.T) {
			exec, err := bloblang.Parse(mapping)
			require.NoError(t, err)
			want := kgo.Record{
				Key: []byte{0, 255}, Value: []byte(`{"id":1}`), Timestamp: time.UnixMilli(1_700_000_000_123),
				Headers: []kgo.RecordHeader{{Key: "a", Value: []byte{255}}, {Key: "a", Value: nil}, {Key: "b", Value: []byte{}}},
			}
			msg, err := sourceMessage(want).BloblangQuery(exec)
			require.NoError(t, err)
			records, err := builder(t, "").build(service.MessageBatch{msg})
			require.NoError(t, err)
			want.Topic = "copy"
			require.Equal(t, []kafkasink.Record{{Record: want}}, records)
		})
	}
}

func TestKey(t *testing.T) {
	meta := func(v any) func(*service.Message) {
		return func(m *service.Message) { m.MetaSetMut("kafka_key", v) }
	}
	for name, tc := range map[string]struct {
		yaml string
		set  func(*service.Message)
		key  []byte
		err  string
	}{
		"absent":                         {set: func(*service.Message) {}},
		"null":                           {set: meta(nil)},
		"empty text":                     {set: meta(""), key: []byte{}},
		"empty bytes":                    {set: meta([]byte(nil)), key: []byte{}},
		"text":                           {set: meta("k"), key: []byte("k")},
		"whole number":                   {set: meta(int64(7)), key: []byte("7")},
		"large number":                   {set: meta(float64(1_000_000)), key: []byte("1000000")},
		"fraction":                       {set: meta(0.5), key: []byte("0.5")},
		"JSON number":                    {set: meta(json.Number("12345678901234567890")), key: []byte("12345678901234567890")},
		"list":                           {set: meta([]any{"a"}), err: "`key`: @kafka_key: array [\"a\"] cannot be written as bytes; make it text first"},
		"object":                         {set: meta(map[string]any{}), err: "`key`: @kafka_key: object {} cannot be written as bytes"},
		"other metadata":                 {yaml: "key: ${! @other }", set: func(m *service.Message) { m.MetaSetMut("other", []byte{255}) }, key: []byte{255}},
		"other metadata, absent":         {yaml: "key: ${! @other }", set: meta("not this")},
		"none":                           {yaml: `key: ""`, set: meta("not this")},
		"constant":                       {yaml: "key: all", set: meta("not this"), key: []byte("all")},
		"a part of the value":            {yaml: `key: ${! json("id") }`, set: meta("not this"), key: []byte("7")},
		"a part that is not there":       {yaml: `key: ${! json("nope") }`, set: meta("not this")},
		"the text null":                  {yaml: `key: ${! "null" }`, set: meta("not this"), key: []byte("null")},
		"a default for null":             {yaml: `key: ${! json("nope").or("") }`, set: meta("not this"), key: []byte{}},
		"deleted":                        {yaml: `key: ${! deleted() }`, set: meta("not this")},
		"null beside other text":         {yaml: `key: ${! json("nope") }${! json("id") }`, set: meta("not this"), key: []byte("null7")},
		"text around":                    {yaml: "key: k-${! @kafka_key }", set: meta("1"), key: []byte("k-1")},
		"an interpolation that can fail": {yaml: `key: ${! json("id").uppercase() }`, set: meta(""), err: "`key`: "},
	} {
		t.Run(name, func(t *testing.T) {
			msg := service.NewMessage([]byte(`{"id":7}`))
			tc.set(msg)
			records, err := builder(t, tc.yaml).build(service.MessageBatch{msg})
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.key, records[0].Key)
		})
	}
}

func TestHeaders(t *testing.T) {
	entry := func(key, value any) any { return map[string]any{"key": key, "value": value} }
	for name, tc := range map[string]struct {
		list any
		want []kgo.RecordHeader
		err  string
	}{
		"null":            {list: nil},
		"empty":           {list: []any{}},
		"text":            {list: []any{entry("a", "1")}, want: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}}},
		"key of bytes":    {list: []any{entry([]byte("a"), "1")}, want: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}}},
		"number":          {list: []any{entry("a", 1e6)}, want: []kgo.RecordHeader{{Key: "a", Value: []byte("1000000")}}},
		"null value":      {list: []any{entry("a", nil)}, want: []kgo.RecordHeader{{Key: "a"}}},
		"value missing":   {list: []any{map[string]any{"key": "a"}}, want: []kgo.RecordHeader{{Key: "a"}}},
		"no list":         {list: map[string]any{"a": "1"}, err: "object {\"a\":\"1\"} is no list; it has to be a list of"},
		"text for a list": {list: "a=1", err: "string \"a=1\" is no list"},
		"entry no object": {list: []any{"a"}, err: "entry 0: string \"a\" is no object; it has to be {\"key\": ..., \"value\": ...}"},
		"key missing":     {list: []any{entry("a", "1"), map[string]any{"value": "1"}}, err: "entry 1: object {\"value\":\"1\"} has no key"},
		"key a number":    {list: []any{entry(7, "1")}, err: "entry 0: the key is number 7, and has to be a string"},
		"value a list":    {list: []any{entry("a", []any{})}, err: `entry 0 ("a"): array [] cannot be written as bytes`},
		"field misspelt":  {list: []any{map[string]any{"key": "a", "vaule": "1"}}, err: `entry 0 ("a") has a field "vaule"; only key and value are known`},
		"field too many":  {list: []any{map[string]any{"key": "a", "value": "1", "n": 1}}, err: `entry 0 ("a") has a field "n"`},
		"value an object": {list: []any{entry("a", map[string]any{})}, err: `entry 0 ("a"): object {} cannot be written as bytes`},
	} {
		t.Run(name, func(t *testing.T) {
			msg := service.NewMessage(nil)
			msg.MetaSetMut("kafka_headers", tc.list)
			records, err := builder(t, "").build(service.MessageBatch{msg})
			if tc.err != "" {
				require.ErrorContains(t, err, "`headers.from` @kafka_headers: ")
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, records[0].Headers)
		})
	}
	t.Run("from elsewhere", func(t *testing.T) {
		msg := service.NewMessage(nil)
		msg.MetaSetMut("mine", []any{entry("a", "1")})
		msg.MetaSetMut("kafka_headers", []any{entry("b", "2")})
		records, err := builder(t, `headers: { from: "@mine" }`).build(service.MessageBatch{msg})
		require.NoError(t, err)
		require.Equal(t, []kgo.RecordHeader{{Key: "a", Value: []byte("1")}}, records[0].Headers)
		records, err = builder(t, `headers: { from: "" }`).build(service.MessageBatch{msg})
		require.NoError(t, err)
		require.Empty(t, records[0].Headers)
	})
}

// TestBuildingLeavesTheListOfTheSourceAlone: copies of a message, and so several sinks, share it.
func TestBuildingLeavesTheListOfTheSourceAlone(t *testing.T) {
	read := make([]kgo.RecordHeader, 1, 4) // with room behind, as a list has that was appended to
	read[0] = kgo.RecordHeader{Key: "a", Value: []byte("1")}
	msg := sourceMessage(kgo.Record{Value: []byte("v"), Headers: read})
	b := builder(t, "")
	for range 3 {
		records, err := b.build(service.MessageBatch{msg, sourceMessage(kgo.Record{Value: []byte("w")})})
		require.NoError(t, err)
		require.Equal(t, []kgo.RecordHeader{{Key: "a", Value: []byte("1")}}, records[0].Headers)
		require.Empty(t, records[1].Headers)
		records[0].Headers = append(records[0].Headers, kgo.RecordHeader{Key: "by the client"})
	}
	require.Equal(t, kgo.RecordHeader{}, read[:2][1])
}

func TestTimestamp(t *testing.T) {
	for name, tc := range map[string]struct {
		yaml string
		meta any
		want int64 // -1: now
		err  string
	}{
		"absent":            {want: -1},
		"text":              {meta: "1700000000123", want: 1_700_000_000_123},
		"float":             {meta: float64(1_700_000_000_123), want: 1_700_000_000_123},
		"words":             {meta: "yesterday", err: "`timestamp`: @kafka_timestamp_ms: \"yesterday\" is not a whole number of milliseconds"},
		"fraction":          {meta: 0.5, err: "\"0.5\" is not a whole number"},
		"list":              {meta: []any{}, err: "`timestamp`: @kafka_timestamp_ms: array [] is not a whole number"},
		"negative":          {meta: int64(-5000), want: -5000},
		"Kafka's none":      {meta: int64(-1), want: -1},
		"epoch":             {meta: int64(0), want: 0},
		"bytes":             {meta: []byte("17"), want: 17},
		"large float text":  {meta: "1.7e+12", want: 1_700_000_000_000},
		"microseconds":      {meta: int64(1_700_000_000_000_000), err: "@kafka_timestamp_ms: 1700000000000000 is not between -9223372036854 and 9223372036854"},
		"absurd":            {meta: int64(math.MaxInt64), err: "9223372036854775807 is not between"},
		"absurdly early":    {meta: int64(math.MinInt64), err: "-9223372036854775808 is not between"},
		"absurd float":      {meta: 1e300, err: "is not a whole number"},
		"no number":         {meta: math.NaN(), err: "\"NaN\" is not a whole number"},
		"bool":              {meta: true, err: "bool true is not a whole number"},
		"date":              {meta: "2026-01-01T00:00:00Z", err: "by .ts_unix_milli()"},
		"interpolated":      {yaml: `timestamp: ${! json("ts") }`, want: 42},
		"interpolated null": {yaml: `timestamp: ${! json("nope") }`, want: -1},
		"interpolated text": {yaml: `timestamp: ${! json("name") }`, err: "`timestamp`: \"x\" is not a whole number"},
		"none":              {yaml: `timestamp: ""`, meta: int64(5), want: -1},
	} {
		t.Run(name, func(t *testing.T) {
			msg := service.NewMessage([]byte(`{"ts":42,"name":"x"}`))
			if tc.meta != nil {
				msg.MetaSetMut("kafka_timestamp_ms", tc.meta)
			}
			records, err := builder(t, tc.yaml).build(service.MessageBatch{msg})
			switch {
			case tc.err != "":
				require.ErrorContains(t, err, tc.err)
			case tc.want == -1:
				require.NoError(t, err)
				require.True(t, records[0].Timestamp.IsZero(), "the client fills in now")
			default:
				require.NoError(t, err)
				require.Equal(t, tc.want, records[0].Timestamp.UnixMilli())
			}
		})
	}
}

// TestTombstone: what the mark and the content are together, and what is written. Neither is lost without a word.
func TestTombstone(t *testing.T) {
	read := benthosx.ReadTombstone{}
	for name, tc := range map[string]struct {
		mark    any
		content string
		null    bool
		err     string
	}{
		"as it was read":             {mark: read, null: true},
		"read, content made since":   {mark: read, content: "v", err: "since a record with a null value was read, and the message has content by now, 1 bytes"},
		"set":                        {mark: true, null: true},
		"set as text":                {mark: "true", null: true},
		"set beside content":         {mark: true, content: "v", null: true},
		"set as text beside content": {mark: "true", content: "v", null: true},
		"not set":                    {mark: false, content: "v"},
		"not set, as text":           {mark: "false", content: "v"},
		"not set and empty":          {mark: false},
		"null":                       {mark: nil, content: "v"},
		"null and empty":             {mark: nil},
		"a number":                   {mark: int64(1), err: "@kafka_tombstone_message is number 1, and neither true nor false"},
		"other text":                 {mark: "yes", content: "v", err: "@kafka_tombstone_message is string \"yes\", and neither"},
		"an object":                  {mark: map[string]any{}, err: "is object {}, and neither"},
	} {
		t.Run(name, func(t *testing.T) {
			msg := service.NewMessage([]byte(tc.content))
			if tc.mark == any(read) {
				msg.MetaSetImmut("kafka_tombstone_message", read)
			} else {
				msg.MetaSetMut("kafka_tombstone_message", tc.mark)
			}
			records, err := builder(t, "").build(service.MessageBatch{msg})
			if tc.err != "" {
				require.ErrorContains(t, err, "message 0 of a batch of 1: ")
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.null, records[0].Value == nil)
			if !tc.null {
				require.Equal(t, tc.content, string(records[0].Value))
			}
		})
	}
}

func TestTopicAndTag(t *testing.T) {
	tag := checkpoint.Tag{Stream: new(checkpoint.Stream), Attempt: 7}
	msg := service.NewMessage([]byte("v"))
	msg = msg.WithContext(checkpoint.WithTag(msg.Context(), tag))
	msg.MetaSetMut("kafka_topic", "orders")
	b := builder(t, "")
	records, err := b.build(service.MessageBatch{msg, service.NewMessage([]byte("foreign"))})
	require.NoError(t, err)
	require.Equal(t, tag, records[0].Tag)
	require.Zero(t, records[1].Tag)

	c, err := parse(t, "bootstrap_servers: localhost:9092\ntopic: copy-${! @kafka_topic }")
	require.NoError(t, err)
	records, err = c.records.build(service.MessageBatch{msg})
	require.NoError(t, err)
	require.Equal(t, "copy-orders", records[0].Topic)

	c, err = parse(t, "bootstrap_servers: localhost:9092\ntopic: ${! json(\"topic\").uppercase() }")
	require.NoError(t, err)
	_, err = c.records.build(service.MessageBatch{msg})
	require.ErrorContains(t, err, "message 0 of a batch of 1: `topic`: ")
}

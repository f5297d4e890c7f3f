package kafkaflinksink

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redpanda-data/benthos/v4/public/bloblang"
	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/benthosx"
)

// value is what a record takes from a message by one field of the config: nothing, one piece of metadata as it is, or an
// interpolation.
//
// A field that is one reference to metadata and nothing else is not interpolated: that would make text of it, the text
// "null" where it is absent, and a null key could not be told from an empty one (rule 9).
type value struct {
	meta string
	expr *service.InterpolatedString
	// query is what expr interpolates, where that is one query and nothing else. It tells null from the text "null".
	query *bloblang.Executor
}

// metaReference is an interpolation of one piece of metadata: ${! @name }, ${! @"name" }, ${! metadata("name") }.
var metaReference = regexp.MustCompile(`^\$\{!\s*(?:@([A-Za-z0-9_]+)|@"([^"\\]+)"|(?:meta|metadata)\(\s*"([^"\\]+)"\s*\))\s*\}$`)

// oneQuery is an interpolation with nothing around it.
var oneQuery = regexp.MustCompile(`^\$\{!(.*)\}$`)

// nullText is what an interpolation makes of null.
const nullText = "null"

// valueFromConfig reads a field. Left empty, it takes nothing.
func valueFromConfig(conf *service.ParsedConfig, field string) (value, error) {
	text, err := conf.FieldString(field)
	if err != nil || text == "" {
		return value{}, err
	}
	if m := metaReference.FindStringSubmatch(text); m != nil {
		return value{meta: m[1] + m[2] + m[3]}, nil
	}
	expr, err := conf.FieldInterpolatedString(field)
	if err != nil {
		return value{}, err
	}
	v := value{expr: expr}
	if m := oneQuery.FindStringSubmatch(text); m != nil {
		// What is between the first and the last of several interpolations is no query.
		if query, err := bloblang.Parse("root = " + m[1]); err == nil {
			v.query = query
		}
	}
	return v, nil
}

// interpolate returns nil where the field is one query whose result is null: the text "null" as a key would put all
// records without one into one partition, and compaction would keep the last of them alone.
func (v value) interpolate(batch service.MessageBatch, i int) ([]byte, error) {
	b, err := batch.TryInterpolatedBytes(i, v.expr)
	switch {
	case err != nil:
		return nil, err
	case b == nil:
		return []byte{}, nil
	case v.query == nil || string(b) != nullText:
		return b, nil
	}
	if found, err := batch.BloblangExecutor(v.query).QueryValue(i); err == nil && found != nil {
		return b, nil
	}
	return nil, nil
}

// bytes returns the value as a record has it: nil for null, which is not the same as empty.
func (v value) bytes(batch service.MessageBatch, i int) ([]byte, error) {
	switch {
	case v.expr != nil:
		return v.interpolate(batch, i)
	case v.meta == "":
		return nil, nil
	}
	found, ok := batch[i].MetaGetMut(v.meta)
	if !ok || found == nil {
		return nil, nil
	}
	b, err := benthosx.Bytes(found)
	if err != nil {
		return nil, fmt.Errorf("@%s: %w", v.meta, err)
	}
	return b, nil
}

// time returns the value as a timestamp: the zero time, which the client replaces by now, where there is none.
func (v value) time(batch service.MessageBatch, i int) (time.Time, error) {
	switch {
	case v.expr != nil:
		b, err := v.interpolate(batch, i)
		if err != nil || b == nil {
			return time.Time{}, err
		}
		return parseMillis(string(b))
	case v.meta == "":
		return time.Time{}, nil
	}
	found, ok := batch[i].MetaGetMut(v.meta)
	if !ok || found == nil {
		return time.Time{}, nil
	}
	ts, err := timestamp(found)
	if err != nil {
		err = fmt.Errorf("@%s: %w", v.meta, err)
	}
	return ts, err
}

// noTimestamp is what Kafka writes for none.
const noTimestamp = -1

// The client keeps timestamps as nanoseconds in 64 bits, which end in the years 1677 and 2262.
const (
	leastMillis = math.MinInt64 / int64(time.Millisecond)
	mostMillis  = math.MaxInt64 / int64(time.Millisecond)
)

func timestamp(v any) (time.Time, error) {
	switch v := v.(type) {
	case int64:
		return fromMillis(v)
	case []any, map[string]any, bool, time.Time:
		return time.Time{}, noMillis(benthosx.Show(v))
	}
	text, err := benthosx.Bytes(v)
	if err != nil {
		return time.Time{}, err
	}
	return parseMillis(string(text))
}

// parseMillis takes a number as Bloblang writes it, which for a large one that was divided is 1.7e+12.
func parseMillis(s string) (time.Time, error) {
	s = strings.TrimSpace(s)
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		return fromMillis(ms)
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<63 {
		return time.Time{}, noMillis(fmt.Sprintf("%.80q", s))
	}
	return fromMillis(int64(f))
}

func noMillis(shown string) error {
	return fmt.Errorf("%s is not a whole number of milliseconds since 1970; make it one, such as by .ts_unix_milli() or .round(), or "+
		"leave `timestamp` empty for the time of writing", shown)
}

// fromMillis takes a time before 1970 too: brokers do, and so topics have it, and a copy of them has to.
func fromMillis(ms int64) (time.Time, error) {
	switch {
	case ms == noTimestamp:
		return time.Time{}, nil
	case ms < leastMillis, ms > mostMillis:
		return time.Time{}, fmt.Errorf("%d is not between %d and %d, the years 1677 and 2262, in milliseconds since 1970; are these "+
			"micro- or nanoseconds? Then divide them, such as by meta kafka_timestamp_ms = (@kafka_timestamp_ms / 1000).floor(), or "+
			"leave `timestamp` empty for the time of writing", ms, leastMillis, mostMillis)
	}
	return time.UnixMilli(ms), nil
}

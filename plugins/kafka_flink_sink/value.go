package kafkaflinksink

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
)

// value is what a record takes from a message by one field of the config: nothing, one piece of metadata as it is, or an
// interpolation.
//
// A field that is one reference to metadata and nothing else is not interpolated: that would make text of it, the text
// "null" where it is absent, and a null key could not be told from an empty one (rule 9).
type value struct {
	meta string
	expr *service.InterpolatedString
}

// metaReference is an interpolation of one piece of metadata: ${! @name }, ${! @"name" }, ${! metadata("name") }.
var metaReference = regexp.MustCompile(`^\$\{!\s*(?:@([A-Za-z0-9_]+)|@"([^"\\]+)"|(?:meta|metadata)\(\s*"([^"\\]+)"\s*\))\s*\}$`)

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
	return value{expr: expr}, nil
}

// bytes returns the value as a record has it: nil for null, which is not the same as empty.
func (v value) bytes(batch service.MessageBatch, i int) ([]byte, error) {
	switch {
	case v.expr != nil:
		return batch.TryInterpolatedBytes(i, v.expr)
	case v.meta == "":
		return nil, nil
	}
	found, ok := batch[i].MetaGetMut(v.meta)
	if !ok || found == nil {
		return nil, nil
	}
	b, err := asBytes(found)
	if err != nil {
		return nil, fmt.Errorf("@%s: %w", v.meta, err)
	}
	return b, nil
}

// time returns the value as a timestamp: the zero time, which the client replaces by now, where there is none.
func (v value) time(batch service.MessageBatch, i int) (time.Time, error) {
	switch {
	case v.expr != nil:
		s, err := batch.TryInterpolatedString(i, v.expr)
		if err != nil {
			return time.Time{}, err
		}
		return parseMillis(s)
	case v.meta == "":
		return time.Time{}, nil
	}
	found, ok := batch[i].MetaGetMut(v.meta)
	if !ok || found == nil {
		return time.Time{}, nil
	}
	if ms, ok := found.(int64); ok {
		return time.UnixMilli(ms), nil
	}
	b, err := asBytes(found)
	if err == nil {
		var ts time.Time
		if ts, err = parseMillis(string(b)); err == nil {
			return ts, nil
		}
	}
	return time.Time{}, fmt.Errorf("@%s: %w", v.meta, err)
}

// asBytes returns what a processor may have made of bytes.
func asBytes(v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		if v == nil {
			return []byte{}, nil
		}
		return v, nil
	case string:
		return []byte(v), nil
	case float64: // as Bloblang writes it: 1000000, not 1e+06
		return strconv.AppendFloat(nil, v, 'f', -1, 64), nil
	case bool, int, int32, int64, uint32, uint64, json.Number:
		return fmt.Append(nil, v), nil
	}
	return nil, fmt.Errorf("a %s cannot be written as bytes; make it text first, such as with .string() or .format_json()", kind(v))
}

// kind names a type as people see it in a mapping.
func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case []any:
		return "list"
	case map[string]any:
		return "object"
	}
	return fmt.Sprintf("%T", v)
}

func parseMillis(s string) (time.Time, error) {
	ms, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a whole number of milliseconds since 1970", s)
	}
	return time.UnixMilli(ms), nil
}

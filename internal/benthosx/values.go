package benthosx

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Bytes returns what a processor may have made of bytes.
func Bytes(v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		if v == nil {
			return []byte{}, nil
		}
		return v, nil
	case string:
		return []byte(v), nil
	case float64: // 1000000, not 1e+06
		return strconv.AppendFloat(nil, v, 'f', -1, 64), nil
	case float32:
		return strconv.AppendFloat(nil, float64(v), 'f', -1, 32), nil
	case bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, json.Number:
		return fmt.Append(nil, v), nil
	case time.Time: // as Bloblang writes it
		return v.AppendFormat(nil, time.RFC3339Nano), nil
	}
	return nil, fmt.Errorf("%s cannot be written as bytes; make it text first, such as by .string() or .format_json()", Show(v))
}

// kind names a type as Bloblang's .type() does.
func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case string:
		return "string"
	case []byte:
		return "bytes"
	case bool:
		return "bool"
	case time.Time:
		return "timestamp"
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64, json.Number:
		return "number"
	}
	return fmt.Sprintf("%T", v)
}

// showLimit is how much of a value an error shows.
const showLimit = 80

// Show is the kind of a value and its beginning, for an error.
func Show(v any) string {
	var text string
	switch v := v.(type) {
	case string:
		text = strconv.Quote(v)
	case []byte:
		text = strconv.Quote(string(v))
	default:
		encoded, err := json.Marshal(v)
		if err != nil {
			return kind(v)
		}
		text = string(encoded)
	}
	if len(text) > showLimit {
		text = text[:showLimit] + "..."
	}
	return kind(v) + " " + text
}

package offsets

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// ParseTimestamp reads a point in time as people write it in a config and returns it in milliseconds since the epoch:
// RFC 3339, a whole number of milliseconds since the epoch, or how long before now, such as -30m or -7d. What lies in
// the future is refused, since no record can be awaited there by its time, and so are numbers that are seconds, micro- or
// nanoseconds by their size: read as milliseconds, seconds would be January 1970, and the source would begin at
// everything the topic has. The error does not name the field.
func ParseTimestamp(value any, now time.Time) (int64, error) {
	ms, err := millis(value, now)
	if err != nil {
		return 0, err
	}
	if ms > now.UnixMilli() {
		return 0, fmt.Errorf("%v is in the future (%s, and now it is %s); records are found by the time they have, so name one "+
			"that has passed", value, inUTC(ms), now.UTC().Format(time.RFC3339))
	}
	return ms, nil
}

func millis(value any, now time.Time) (int64, error) {
	switch v := value.(type) {
	case time.Time: // YAML makes one of an unquoted timestamp
		return v.UnixMilli(), nil
	case int:
		return number(int64(v))
	case int64:
		return number(v)
	case uint64:
		return number(int64(min(v, math.MaxInt64)))
	case float64:
		if v != math.Trunc(v) || math.Abs(v) >= 1<<53 {
			return 0, fmt.Errorf("%v is no whole number of milliseconds", v)
		}
		return number(int64(v))
	case json.Number:
		return text(v.String(), now)
	case string:
		return text(strings.TrimSpace(v), now)
	}
	return 0, fmt.Errorf("%v is neither text nor a number: %s", value, timestampForms)
}

const timestampForms = "write RFC 3339 (2026-01-31T12:00:00Z), milliseconds since the epoch, or how long ago (-30m)"

var digits = regexp.MustCompile(`^[0-9]+$`)

func text(v string, now time.Time) (int64, error) {
	if digits.MatchString(v) {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s is larger than any time", v)
		}
		return number(n)
	}
	if ago, ok := strings.CutPrefix(v, "-"); ok {
		d, err := parseAgo(ago)
		if err != nil {
			return 0, fmt.Errorf("%q is no duration before now: %s", v, timestampForms)
		}
		return max(0, now.Add(-d).UnixMilli()), nil
	}
	t, err := time.Parse(time.RFC3339Nano, v)
	if err != nil {
		return 0, fmt.Errorf("%q is no point in time: %s", v, timestampForms)
	}
	return t.UnixMilli(), nil
}

var days = regexp.MustCompile(`^([0-9]{1,6})d`)

// parseAgo reads a Go duration, which may begin with days.
func parseAgo(v string) (time.Duration, error) {
	var d time.Duration
	if m := days.FindStringSubmatch(v); m != nil {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return 0, err
		}
		d = time.Duration(min(n, 100_000)) * 24 * time.Hour
		if v = v[len(m[0]):]; v == "" {
			return d, nil
		}
	}
	rest, err := time.ParseDuration(v)
	if err != nil {
		return 0, err
	}
	if rest < 0 {
		return 0, fmt.Errorf("%s has two signs", v)
	}
	return d + rest, nil
}

// Numbers of these sizes are times in another unit: seconds from 2001 to 2286, and micro- or nanoseconds since 1973.
const (
	minSeconds, maxSeconds = 1_000_000_000, 10_000_000_000
	minMicros, minNanos    = 100_000_000_000_000, 100_000_000_000_000_000
)

func number(n int64) (int64, error) {
	var other int64
	var unit string
	switch {
	case n < 0:
		return 0, fmt.Errorf("%d is before 1970: %s", n, timestampForms)
	case n >= minNanos:
		other, unit = n/1_000_000, "nanoseconds"
	case n >= minMicros:
		other, unit = n/1000, "microseconds"
	case n >= minSeconds && n < maxSeconds:
		other, unit = n*1000, "seconds"
	default:
		return n, nil
	}
	err := fmt.Errorf("%d looks like %s since the epoch, and milliseconds are meant: write %d for %s", n, unit, other, inUTC(other))
	if unit == "seconds" {
		err = fmt.Errorf("%w; if %s is meant, write it like that", err, inUTC(n))
	}
	return 0, err
}

func inUTC(ms int64) string {
	t := time.UnixMilli(ms).UTC()
	if t.Year() > 9999 {
		return fmt.Sprintf("the year %d", t.Year())
	}
	return t.Format("2006-01-02T15:04:05.999Z07:00")
}

package offsets

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/splits"
)

func TestParseTimestamp(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ms := func(v string) int64 {
		at, err := time.Parse(time.RFC3339Nano, v)
		require.NoError(t, err)
		return at.UnixMilli()
	}
	for name, tc := range map[string]struct {
		value any
		want  int64
		err   string
	}{
		"RFC 3339":             {value: "2026-01-01T00:00:00Z", want: ms("2026-01-01T00:00:00Z")},
		"with an offset":       {value: "2026-01-01T00:00:00+02:00", want: ms("2025-12-31T22:00:00Z")},
		"with milliseconds":    {value: " 2026-01-01T00:00:00.25Z ", want: ms("2026-01-01T00:00:00.25Z")},
		"as YAML makes it":     {value: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), want: ms("2026-01-01T00:00:00Z")},
		"epoch ms":             {value: 1767225600000, want: 1767225600000},
		"epoch ms as a float":  {value: 1767225600000.0, want: 1767225600000},
		"epoch ms as text":     {value: "1767225600000", want: 1767225600000},
		"epoch ms, JSON":       {value: json.Number("1767225600000"), want: 1767225600000},
		"zero":                 {value: 0, want: 0},
		"a small number":       {value: 2001, want: 2001},
		"half an hour ago":     {value: "-30m", want: ms("2026-03-01T11:30:00Z")},
		"a week ago":           {value: "-7d", want: ms("2026-02-22T12:00:00Z")},
		"a day and two hours":  {value: "-1d2h", want: ms("2026-02-28T10:00:00Z")},
		"no time ago":          {value: "-0s", want: now.UnixMilli()},
		"before 1970":          {value: "-99999d", want: 0},
		"now":                  {value: now.UnixMilli(), want: now.UnixMilli()},
		"one ms from now":      {value: now.UnixMilli() + 1, err: "is in the future"},
		"tomorrow":             {value: "2026-03-02T12:00:00Z", err: "2026-03-02T12:00:00Z is in the future (2026-03-02T12:00:00Z, and now it is 2026-03-01T12:00:00Z)"},
		"seconds":              {value: 1767225600, err: "1767225600 looks like seconds since the epoch, and milliseconds are meant: write 1767225600000 for 2026-01-01T00:00:00Z; if 1970-01-21T10:53:45.6Z is meant, write it like that"},
		"seconds as text":      {value: "1767225600", err: "looks like seconds"},
		"that day in 1970":     {value: "1970-01-21T10:53:45.6Z", want: 1767225600},
		"microseconds":         {value: int64(1767225600000000), err: "looks like microseconds since the epoch, and milliseconds are meant: write 1767225600000 for"},
		"nanoseconds":          {value: int64(1767225600000000000), err: "looks like nanoseconds"},
		"a duration":           {value: "30m", err: `"30m" is no point in time`},
		"two signs":            {value: "--30m", err: `"--30m" is no duration before now`},
		"no unit":              {value: "-30", err: `"-30" is no duration before now`},
		"negative":             {value: -5, err: "-5 is before 1970"},
		"a part of one":        {value: 1.5, err: "1.5 is no whole number"},
		"a date":               {value: "2026-01-01", err: "is no point in time: write RFC 3339 (2026-01-31T12:00:00Z)"},
		"without a zone":       {value: "2026-01-01T00:00:00", err: "is no point in time"},
		"empty":                {value: "", err: `"" is no point in time`},
		"larger than any time": {value: "99999999999999999999", err: "larger than any time"},
		"a list":               {value: []any{1}, err: "neither text nor a number"},
		"nothing":              {value: nil, err: "neither text nor a number"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseTimestamp(tc.value, now)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

// The strings are those of Flink's parseSpecificOffsets, and so are the answers.
func TestParseSpecificString(t *testing.T) {
	at := func(pairs ...int64) Specific {
		out := Specific{}
		for i := 0; i < len(pairs); i += 2 {
			out[splits.Partition{Topic: "orders", Partition: int32(pairs[i])}] = pairs[i+1]
		}
		return out
	}
	for value, want := range map[string]struct {
		want Specific
		err  string
	}{
		"partition:0,offset:42;partition:1,offset:300": {want: at(0, 42, 1, 300)},
		"partition:0,offset:1;":                        {want: at(0, 1)},
		"partition:0,offset:1;;;":                      {want: at(0, 1)},
		"partition:0,offset:1,":                        {want: at(0, 1)},
		"partition:0,offset:1;partition:0,offset:2":    {want: at(0, 2)},
		"partition:0,offset:-2":                        {want: at(0, -2)},
		"partition:0,offset:-7":                        {want: at(0, -7)}, // refused by Validate
		";":                                            {err: "names no offset"},
		"":                                             {err: "names no offset"},
		"partition:0,offset:1;;partition:1,offset:2": {err: "nothing between two semicolons"},
		"partition:0, offset:1":                      {err: "there is a blank"},
		" partition:0,offset:1":                      {err: "there is a blank"},
		"offset:1,partition:0":                       {err: "does not begin with partition:"},
		"partition:0":                                {err: "one comma between them"},
		"partition:0,":                               {err: "one comma between them"},
		"partition:0,offset:1,offset:2":              {err: "one comma between them"},
		"0:1":                                        {err: "one comma between them"},
		"partition:x,offset:1":                       {err: `"x" is not the number of a partition`},
		"partition:-1,offset:1":                      {err: `"-1" is not the number of a partition`},
		"partition:0,offset:":                        {err: `"" is not an offset`},
		"partition:0,offset:9223372036854775808":     {err: "is not an offset"},
		"partition:2147483648,offset:1":              {err: "is not the number of a partition"},
		"Partition:0,offset:1":                       {err: "does not begin with partition:"},
		"partition:0,Offset:1":                       {err: "does not begin with offset:"},
	} {
		t.Run(value, func(t *testing.T) {
			got, err := ParseSpecific(value, []string{"orders"})
			if want.err != "" {
				require.ErrorContains(t, err, want.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, want.want, got)
		})
	}
	for _, topics := range [][]string{nil, {"orders", "users"}} {
		_, err := ParseSpecific("partition:0,offset:1", topics)
		require.ErrorContains(t, err, "names no topic, so the source has to read exactly one by its name")
	}
}

func TestParseSpecificMap(t *testing.T) {
	type m = map[string]any
	both := []string{"orders", "users"}
	for name, tc := range map[string]struct {
		value  any
		topics []string
		want   Specific
		err    string
	}{
		"one topic":            {m{"0": 42, "1": "300"}, both[:1], Specific{p0: 42, p1: 300}, ""},
		"one topic by name":    {m{"orders": m{"0": 42, "1": 300.0}}, both[:1], Specific{p0: 42, p1: 300}, ""},
		"two topics":           {m{"orders": m{"1": 1}, "users": m{"7": int64(2)}}, both, Specific{p1: 1, {Topic: "users", Partition: 7}: 2}, ""},
		"as YAML makes it":     {map[any]any{"orders": map[any]any{0: 1, 1: 2}}, both[:1], Specific{p0: 1, p1: 2}, ""},
		"a pattern":            {m{"orders": m{"1": json.Number("1")}}, nil, Specific{p1: 1}, ""},
		"words":                {m{"0": "earliest-offset", "1": "Group-Offsets"}, both[:1], Specific{p0: MarkEarliest, p1: MarkCommitted}, ""},
		"a word":               {m{"0": "latest-offset"}, both[:1], Specific{p0: MarkLatest}, ""},
		"no topic, and two":    {m{"0": 42}, both, nil, "0: 42 belongs to no topic, and the source reads several; write { orders: { 0: 42 } }"},
		"an unknown topic":     {m{"order": m{"0": 42}}, both, nil, "order: it is not one of the topics that are read: orders, users"},
		"no partition":         {m{"orders": m{"x": 42}}, both, nil, `orders: "x" is not the number of a partition`},
		"two spellings":        {m{"orders": m{"0": 1, "00": 5}}, both, nil, "orders: partition 0 is there twice, with 1 and 5; take one of them out"},
		"with and without":     {m{"orders": m{"0": 1}, "0": 5}, []string{"orders"}, nil, "orders: partition 0 is there twice, with 1 and 5"},
		"no offset":            {m{"orders": m{"0": "soon"}}, both, nil, "orders: partition 0: soon is not an offset; write a whole number up to 9223372036854775807, or one of earliest-offset, group-offsets, latest-offset"},
		"half an offset":       {m{"orders": m{"0": 1.5}}, both, nil, "1.5 is not an offset"},
		"a list for an offset": {m{"0": []any{1}}, both[:1], nil, "is not an offset"},
		"empty":                {m{}, both, nil, "it is empty"},
		"an empty topic":       {m{"orders": m{}}, both, nil, "orders: it is empty; name at least one partition with its offset"},
		"a list":               {[]any{1}, both, nil, "neither a string (partition:0,offset:42;partition:1,offset:300) nor a map"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseSpecific(tc.value, tc.topics)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestSpecificOffsetsOfPartitionsThatDoNotExistAreRefused(t *testing.T) {
	topics := []splits.Topic{{Name: "orders", Partitions: []int32{0, 1}}}
	at := Specific{p0: 1, {Topic: "orders", Partition: 7}: 1, {Topic: "users", Partition: 0}: 1}
	require.ErrorContains(t, specific(ResetNone, at).Fits(topics), "startup.specific_offsets: there are no such partitions: orders 7; users 0")
	require.ErrorContains(t, Stop{Mode: SpecificStop, Offsets: at}.Fits(topics), "bounded.specific_offsets: there are no such partitions")
	require.NoError(t, specific(ResetNone, Specific{p1: 1}).Fits(topics))
	require.NoError(t, Start{Mode: EarliestStart}.Fits(nil))
	require.NoError(t, Stop{Mode: LatestStop}.Fits(nil))
}

package kafkaflinksource

import (
	"slices"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/benthosx"
	"github.com/tidegate/tidegate/internal/offsets"
	"github.com/tidegate/tidegate/internal/splits"
)

func startupField() *service.ConfigField {
	return service.NewObjectField(fieldStartup,
		benthosx.EnumField("startup.mode", fieldMode, map[string]string{
			string(offsets.EarliestStart):  "The first record each partition still has.",
			string(offsets.LatestStart):    "What is written after the first start. The offset is resolved once, and kept: a crash before the first checkpoint skips nothing.",
			string(offsets.GroupStart):     "The committed offsets of `group_id`.",
			string(offsets.TimestampStart): "The first record whose timestamp is `startup.timestamp` or later. A partition without one begins at its end.",
			string(offsets.SpecificStart):  "The offsets in `startup.specific_offsets`. A partition that is not listed begins at the committed offset of `group_id`, else as `startup.offset_reset` says.",
		}).Default(string(offsets.GroupStart)).
			Description("Where reading begins, by Flink's `scan.startup.mode`."),
		timestampField("startup").
			Description("With `startup.mode: timestamp`: RFC 3339, milliseconds since the epoch, or how long before the process started, such as `-30m` or `-7d`. The future is refused."),
		specificField("startup").
			Description("With `startup.mode: specific-offsets`: Flink's string for one topic, or a map, for several topics with their names. An offset is a whole number, or `earliest-offset`, `latest-offset` or `group-offsets` (in the string -2, -1 and -3)."),
		benthosx.EnumField("startup.offset_reset", fieldOffsetReset, map[string]string{
			string(offsets.ResetNone):     "The start-up fails and names the partitions.",
			string(offsets.ResetEarliest): "Such a partition begins at its first record.",
			string(offsets.ResetLatest):   "Such a partition begins at its end.",
		}).Optional().
			Description("What replaces an offset that does not exist, or that the partition does not have (with `group-offsets` and `specific-offsets`). Default, as in Flink: `none`, with `specific-offsets` `earliest`."),
		benthosx.BoolField(fieldStartup+"."+fieldIgnoreState, fieldIgnoreState, false,
			"Whether to start anew although the cluster knows of an earlier run whose checkpoints are not in the store, true or "+
				"false: an open transaction of the sink's ids, or an offset that a checkpoint of another store, or of another stream of this "+
				"one, has committed to the group. With a state that is older than what the group shows, whether to go on from it all the same.").Advanced(),
	).Description("Where reading begins when there is no checkpoint. A checkpoint always wins.")
}

func boundedField() *service.ConfigField {
	return service.NewObjectField(fieldBounded,
		benthosx.EnumField("bounded.mode", fieldMode, map[string]string{
			string(offsets.Unbounded):     "The source never ends.",
			string(offsets.LatestStop):    "The source ends at the offsets that were the ends of the partitions when it first started.",
			string(offsets.GroupStop):     "The source ends at the committed offsets of `group_id`, which every partition needs.",
			string(offsets.TimestampStop): "The source ends before the first record whose timestamp is `bounded.timestamp` or later, where there is none at the end that the partition had when it first started.",
			string(offsets.SpecificStop):  "The source ends before the offsets in `bounded.specific_offsets`; where one is beyond the end of its partition, it waits for the records. A partition that is not listed ends at the committed offset of `group_id`, else it is not read.",
		}).Default(string(offsets.Unbounded)).
			Description("Where reading ends, by Flink's `scan.bounded.mode`. It is resolved once, at the first start, and kept."),
		timestampField("bounded").Description("With `bounded.mode: timestamp`, in the forms of `startup.timestamp`."),
		specificField("bounded").Description("With `bounded.mode: specific-offsets`, in the forms of `startup.specific_offsets`; `earliest-offset` is no end."),
		benthosx.BoolField(fieldBounded+"."+fieldKeepRunning, fieldKeepRunning, false,
			"Whether the source goes on waiting when every partition has reached its end, true or false, as with Flink's `setUnbounded`.").Advanced(),
	).Description("Makes the source end.")
}

// timestampField's rule says in short what offsets.ParseTimestamp says at the start.
func timestampField(of string) *service.ConfigField {
	return service.NewAnyField(fieldTimestamp).Optional().Example("2026-01-31T12:00:00Z").Example(1767225600000).Example("-30m").
		LintRule(`
let text = this.string().trim()
let known = ["string", "number", "timestamp"].contains(this.type())
let ms = if !$known { null } else if this.type() == "number" { this.number() } else if $text.re_match("^[0-9]+$") { $text.number() } else {
  (if this.type() == "timestamp" { this } else { $text.ts_parse("2006-01-02T15:04:05.999999999Z07:00") }).ts_unix_milli().catch(null)
}
root = if $ms == null && !($known && $text.re_match("^-([0-9]{1,6}d)?([0-9.]+(ns|us|ms|s|m|h))*$") && $text != "-") {
  "` + of + `.timestamp: %v is no point in time; write RFC 3339 (2026-01-31T12:00:00Z), milliseconds since the epoch, or how long ago (-30m)".format($text.quote())
} else if $ms != null && $ms < 0 {
  "` + of + `.timestamp: %v is before 1970; write RFC 3339 (2026-01-31T12:00:00Z), milliseconds since the epoch, or how long ago (-30m)".format($text)
} else if $ms != null && this.type() != "timestamp" && $text.re_match("^[0-9.e+]+$") && $ms >= 100000000000000 {
  "` + of + `.timestamp: %v looks like micro- or nanoseconds since the epoch, and milliseconds are meant".format($text)
} else if $ms != null && this.type() != "timestamp" && $text.re_match("^[0-9.e+]+$") && $ms >= 1000000000 && $ms < 10000000000 {
  "` + of + `.timestamp: %v looks like seconds since the epoch, and milliseconds are meant".format($text)
} else if $ms != null && $ms > now().ts_parse("2006-01-02T15:04:05.999999999Z07:00").ts_unix_milli() {
  "` + of + `.timestamp: %v is in the future; records are found by the time they have, so name one that has passed".format($text)
}`)
}

// specificField's rule says in short what offsets.ParseSpecific says at the start. A rule cannot look into a map whose
// keys are numbers, which is of an unknown type to Bloblang.
func specificField(of string) *service.ConfigField {
	return service.NewAnyField(fieldSpecificOffsets).Optional().Example("partition:0,offset:42;partition:1,offset:300").
		Example(map[string]any{"orders": map[string]any{"0": 42, "1": string(offsets.EarliestStart)}}).
		LintRule(`
let words = [ "earliest-offset", "latest-offset", "group-offsets" ]
let wrong = if this.type() == "object" {
  this.values().map_each(v -> if v.type() == "object" { v.values() } else { [ v ] }).flatten().filter(v -> v.type() != "unknown" && !$words.contains(v.string().trim().lowercase()) && !v.string().trim().re_match("^([0-9]+|-[123])$"))
} else { [] }
root = if this.type() == "string" {
  if !this.re_match("^partition:[+]?[0-9]+,offset:[+-]?[0-9]+,*(;partition:[+]?[0-9]+,offset:[+-]?[0-9]+,*)*;*$") {
    "` + of + `.specific_offsets: %v is not of the form partition:0,offset:42;partition:1,offset:300, without blanks".format(this.quote())
  } else if this.re_match("offset:-0*([4-9]|[1-9][0-9]+)(,|;|$)") {
    "` + of + `.specific_offsets: in %v an offset is negative; an offset is 0 or more, or a marker: -1 for latest-offset, -2 for earliest-offset, -3 for group-offsets".format(this.quote())
  }
} else if this.type() == "object" && this.length().catch(1) == 0 {
  "` + of + `.specific_offsets is empty; name at least one partition with its offset"
} else if !["object", "unknown"].contains(this.type()) {
  "` + of + `.specific_offsets: %v is neither a string (partition:0,offset:42;partition:1,offset:300) nor a map ({ orders: { 0: 42 } })".format(this.string())
} else if $wrong.length() > 0 {
  "` + of + `.specific_offsets: %v is not an offset; write a whole number, or one of %v".format($wrong.index(0).string(), $words.join(", "))
}`)
}

// startStopRule holds modes against the fields that belong to them. It is part of a rule for the whole config.
const startStopRule = `
let startup = this.startup.or({})
let bounded = this.bounded.or({})
let starts = $startup.mode.or("group-offsets").string().lowercase()
let stops = $bounded.mode.or("unbounded").string().lowercase()
let companions = [
  ["startup", $startup, $starts, "timestamp", "timestamp"], ["startup", $startup, $starts, "specific_offsets", "specific-offsets"],
  ["bounded", $bounded, $stops, "timestamp", "timestamp"], ["bounded", $bounded, $stops, "specific_offsets", "specific-offsets"],
]
let startStop = $companions.map_each(c -> if c.index(2) == c.index(4) && !c.index(1).exists(c.index(3)) {
  "%v.mode is %v, which needs %v.%v".format(c.index(0), c.index(4), c.index(0), c.index(3))
} else if c.index(2) != c.index(4) && c.index(1).exists(c.index(3)) {
  "%v.%v has no effect with %v.mode: %v; set %v.mode to %v, or remove it".format(c.index(0), c.index(3), c.index(0), c.index(2), c.index(0), c.index(4))
} else { null }).filter(lint -> lint != null)
let startStop = $startStop.concat([
  if $stops == "group-offsets" && this.group_id.or("").string().trim() == "" {
    "bounded.mode is group-offsets, which needs group_id"
  },
  if $named.length() != 1 && ($startup.specific_offsets.type() == "string" || $bounded.specific_offsets.type() == "string") {
    "specific_offsets as a string names no topic, so the source has to read exactly one by its name; write a map for several: { orders: { 0: 42 } }"
  },
  if $stops == "specific-offsets" && $bounded.specific_offsets.string().contains("earliest-offset") {
    "bounded.specific_offsets: nothing ends at earliest-offset"
  },
  if this.checkpoint.interval != null && $startup.exists("offset_reset") && ["earliest-offset", "latest-offset", "timestamp"].contains($starts) {
    "startup.offset_reset has no effect with startup.mode: %v and checkpoints, which begin at what there is; for positions of a checkpoint there is checkpoint.on_restore_out_of_range; remove it".format($starts)
  },
  if $stops == "unbounded" && $bounded.keep_running.or(false) == true {
    "bounded.keep_running has no effect with bounded.mode: unbounded, which has no end; set bounded.mode, or remove it"
  },
].filter(lint -> lint != null))
`

// startFromConfig reads the start initialiser. A relative timestamp counts from now.
func startFromConfig(p *benthosx.Parser, group string, sub splits.Subscription, now time.Time) offsets.Start {
	s := offsets.Start{Mode: offsets.StartMode(p.Enum(fieldStartup, fieldMode)), Group: group}
	s.Reset = offsets.DefaultReset(s.Mode)
	if p.Conf.Contains(fieldStartup, fieldOffsetReset) {
		s.Reset = offsets.Reset(p.Enum(fieldStartup, fieldOffsetReset))
	}
	s.TimestampMS = timestampFromConfig(p, fieldStartup, s.Mode == offsets.TimestampStart, now)
	s.Offsets = specificFromConfig(p, fieldStartup, s.Mode == offsets.SpecificStart, sub)
	return s
}

// stopFromConfig reads the stop initialiser.
func stopFromConfig(p *benthosx.Parser, group string, sub splits.Subscription, now time.Time) offsets.Stop {
	s := offsets.Stop{
		Mode: offsets.StopMode(p.Enum(fieldBounded, fieldMode)), Group: group, KeepRunning: p.Bool(fieldBounded, fieldKeepRunning)}
	s.TimestampMS = timestampFromConfig(p, fieldBounded, s.Mode == offsets.TimestampStop, now)
	s.Offsets = specificFromConfig(p, fieldBounded, s.Mode == offsets.SpecificStop, sub)
	return s
}

// companion reads a field that belongs to a mode: there has to be one exactly where the mode is set.
func companion(p *benthosx.Parser, of, name, mode string, wanted bool) (any, bool) {
	path := []string{of, name}
	has := p.Conf.Contains(path...)
	switch {
	case wanted && !has:
		p.Fail(path, "required with %s.mode: %s", of, mode)
	case has && !wanted:
		p.Fail(path, "it has no effect without %s.mode: %s; set that, or remove it", of, mode)
	case has:
		v, err := p.Conf.FieldAny(path...)
		p.Join(err)
		return v, err == nil
	}
	return nil, false
}

func timestampFromConfig(p *benthosx.Parser, of string, wanted bool, now time.Time) int64 {
	v, ok := companion(p, of, fieldTimestamp, string(offsets.TimestampStart), wanted)
	if !ok {
		return 0
	}
	ms, err := offsets.ParseTimestamp(v, now)
	if err != nil {
		p.Fail([]string{of, fieldTimestamp}, "%v", err)
	}
	return ms
}

func specificFromConfig(p *benthosx.Parser, of string, wanted bool, sub splits.Subscription) map[splits.Partition]int64 {
	v, ok := companion(p, of, fieldSpecificOffsets, string(offsets.SpecificStart), wanted)
	if !ok {
		return nil
	}
	at, err := offsets.ParseSpecific(v, sub.Names())
	if err != nil {
		p.Fail([]string{of, fieldSpecificOffsets}, "%v", err)
		return nil
	}
	var other []splits.Partition
	for partition := range at {
		if !sub.Covers(partition) {
			other = append(other, partition)
		}
	}
	if len(other) > 0 && sub.Validate() == nil { // else that says what is wrong
		slices.SortFunc(other, splits.Compare)
		p.Fail([]string{of, fieldSpecificOffsets}, "%s: not among what is read; correct the names or numbers, or take them out", splits.Format(other))
	}
	return at
}

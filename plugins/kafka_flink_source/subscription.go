package kafkaflinksource

import (
	"strings"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/benthosx"
	"github.com/tidegate/tidegate/internal/splits"
)

func subscriptionFields() []*service.ConfigField {
	return []*service.ConfigField{
		// Any, since Benthos's own lists refuse Flink's form, one string.
		service.NewAnyField(fieldTopics).Optional().
			Description("The topics to read, all partitions of each: a list, or as in Flink one string with semicolons between. They have to exist. Exactly one of `topics`, `topic_pattern` and `partitions` is set.").
			Example([]any{"orders"}).Example("orders;users").
			LintRule(`
let bad_type = "topics: %v is neither a list of names nor one string with semicolons between".format(this.string().quote())
let entries = if this.type() == "string" { this.split(";").map_each(t -> t.trim()) } else if this.type() == "array" { this } else { [] }
let entries = if this.type() == "string" && $entries.length() > 1 && $entries.index(-1) == "" { $entries.slice(0, -1) } else { $entries }
root = if !["string", "array"].contains(this.type()) || $entries.any(t -> t.type() != "string") {
  $bad_type
} else if $entries.length() == 0 {
  "topics names no topic"
} else if $entries.any(t -> t.trim() == "") {
  "topics has an entry that is empty"
} else if $entries.any(t -> !t.re_match("^[a-zA-Z0-9._-]{1,249}$")) {
  "topics: %v cannot be the name of a topic, which has letters, digits, points, dashes and underscores; several are a list, or one string with semicolons between; a pattern belongs into topic_pattern".format($entries.filter(t -> !t.re_match("^[a-zA-Z0-9._-]{1,249}$")).index(0).quote())
} else if $entries.unique().length() < $entries.length() {
  "topics names a topic twice"
}`),
		service.NewStringField(fieldTopicPattern).Optional().
			Description("A regular expression (RE2) that matches the whole names of the topics to read, as Flink's `topic-pattern`. Topics that come later are read from their first record, within `discovery_interval`; one that is deleted is no longer read; none need be there. Internal topics are never read.").
			Example("orders-.*").
			LintRule(`
root = if this.string().trim() == "" {
  "topic_pattern matches no name; write a pattern such as orders-.*"
} else if this.string().re_match("\\(\\?(<?[=!]|>)|[*+?}]\\+|\\\\[1-9]") {
  "topic_pattern: %v has what Java's patterns know and RE2 does not: lookarounds, atomic groups, possessive quantifiers or back references; write it without".format(this.string().quote())
} else if this.string().re_match("\\[\\^?\\]?(\\\\.|[^\\]\\\\])*?(&&|\\[[^:])") {
  "topic_pattern: %v has a character class within another, or an intersection of classes (&&), which RE2 does not know; write it without".format(this.string().quote())
} else if "".re_match(this.string()).catch(null) == null {
  "topic_pattern: %v is no regular expression".format(this.string().quote())
}`),
		service.NewStringListField(fieldPartitions).Optional().
			Description("Single partitions to read, with no others: `topic:number`, or `topic:from-to` with both ends included. They have to exist.").
			Example([]any{"orders:0", "users:0-3"}).
			LintRule(`
root = if this.type() == "string" && !this.re_match("^.*[^: ] *: *[0-9]{1,9}( *- *[0-9]{1,9})?$") {
  [ "partitions: %v is not of the form orders:0 or orders:0-3".format(this.quote()) ]
}`),
	}
}

// subscriptionRule is part of a rule for the whole config.
const subscriptionRule = `
let partitions = this.partitions.or([])
let subscribed = ["topics", "topic_pattern", "partitions"].filter(f -> if f == "partitions" { $partitions.length() > 0 } else { this.exists(f) })
let named = if this.topics.type() == "array" { this.topics } else if this.topics.type() == "string" { this.topics.split(";") } else { [] }
let named = $named.concat($partitions.map_each(e -> e.string().split(":").slice(0, -1).join(":"))).map_each(t -> t.string().trim()).filter(t -> t != "").unique()
let misspelt = this.keys().any(k -> !["topics", "topic_pattern"].contains(k) && k.has_prefix("topi")) # Benthos says so
let subscription = if $subscribed.length() == 0 && $misspelt { [] } else if $subscribed.length() == 0 {
  [ "topics names no topic; name what to read in topics, topic_pattern or partitions" ]
} else if $subscribed.length() > 1 {
  [ "%v: only one of them can be set, since each says by itself what is read".format($subscribed.join(", ")) ]
} else { [] }
`

// subscriptionFromConfig reads what is subscribed to. It leaves to Validate that there is one.
func subscriptionFromConfig(p *benthosx.Parser) (sub splits.Subscription) {
	if p.Conf.Contains(fieldTopics) {
		v, err := p.Conf.FieldAny(fieldTopics)
		p.Join(err)
		sub.Topics = topicsFrom(p, v)
	}
	var err error
	if p.Conf.Contains(fieldTopicPattern) {
		if sub.Pattern, err = splits.ParsePattern(p.String(fieldTopicPattern)); err != nil {
			p.Fail([]string{fieldTopicPattern}, "%v", err)
		}
	}
	if p.Conf.Contains(fieldPartitions) {
		if sub.Partitions, err = splits.ParsePartitions(p.List(fieldPartitions)); err != nil {
			p.Fail([]string{fieldPartitions}, "%v", err)
		}
	}
	return sub
}

// topicsFrom reads a list, or Flink's string, in which a semicolon at the end means nothing.
func topicsFrom(p *benthosx.Parser, v any) (names []string) {
	switch v := v.(type) {
	case string:
		for name := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(v), ";"), ";") {
			names = append(names, strings.TrimSpace(name))
		}
	case []any:
		for _, e := range v {
			name, ok := e.(string)
			if !ok {
				p.Fail([]string{fieldTopics}, "%v is not the name of a topic; quote it, if it is", e)
			}
			names = append(names, name)
		}
	default:
		p.Fail([]string{fieldTopics}, "%v is neither a list of names nor one string with semicolons between", v)
	}
	return names
}

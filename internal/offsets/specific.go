package offsets

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tidegate/tidegate/internal/splits"
)

// Markers stand for an offset that only the cluster knows; they are those of Flink's KafkaPartitionSplit.
const (
	MarkLatest    int64 = -1
	MarkEarliest  int64 = -2
	MarkCommitted int64 = -3
)

// words are the names of the markers in a YAML map.
var words = map[string]int64{
	string(LatestStart): MarkLatest, string(EarliestStart): MarkEarliest, string(GroupStart): MarkCommitted,
}

// Specific are offsets by partition, markers among them.
type Specific map[splits.Partition]int64

// validate refuses negative offsets that are none of the markers which may stand there.
func (s Specific) validate(markers ...int64) error {
	for _, p := range slices.SortedFunc(maps.Keys(s), splits.Compare) {
		o := s[p]
		switch {
		case o >= 0, slices.Contains(markers, o):
		case o == MarkEarliest:
			return fmt.Errorf("%v has the offset %d, which means the earliest: nothing ends there", p, o)
		default:
			return fmt.Errorf("%v has the offset %d; an offset is 0 or more, or a marker: %s", p, o, formatMarkers(markers))
		}
	}
	return nil
}

// marked returns a partition that has the marker.
func (s Specific) marked(marker int64) (splits.Partition, bool) {
	for _, p := range slices.SortedFunc(maps.Keys(s), splits.Compare) {
		if s[p] == marker {
			return p, true
		}
	}
	return splits.Partition{}, false
}

func formatMarkers(markers []int64) string {
	var list []string
	for _, m := range markers {
		for word, marker := range words {
			if marker == m {
				list = append(list, fmt.Sprintf("%d for %s", m, word))
			}
		}
	}
	return strings.Join(list, ", ")
}

// beyond returns an error for partitions that are listed and do not exist in the topics as the cluster has them.
func (s Specific) beyond(topics []splits.Topic) error {
	var missing []splits.Partition
	for p := range s {
		if !slices.ContainsFunc(topics, func(t splits.Topic) bool { return t.Name == p.Topic && slices.Contains(t.Partitions, p.Partition) }) {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("there are no such partitions: %s; correct the numbers, or leave them out", splits.Format(missing))
}

// ParseSpecific reads offsets in one of two forms: Flink's string, "partition:0,offset:42;partition:1,offset:300", for
// exactly one topic, or a map, { 0: 42, 1: earliest-offset } for one topic, { orders: { 0: 42 } } for several. Topics are
// those that the source subscribes to by name; there are none where it does so by a pattern. The error does not name the
// field.
func ParseSpecific(value any, topics []string) (Specific, error) {
	switch v := value.(type) {
	case string:
		if len(topics) != 1 {
			return nil, fmt.Errorf("%q names no topic, so the source has to read exactly one by its name; write a map for several: "+
				"{ orders: { 0: 42, 1: 300 } }", v)
		}
		return parseSpecificString(v, topics[0])
	case map[string]any:
		return parseSpecificMap(v, topics)
	case map[any]any: // YAML makes one where keys are numbers
		return parseSpecificMap(byText(v), topics)
	}
	return nil, fmt.Errorf("%v is neither a string (%s) nor a map ({ orders: { 0: 42 } })", value, specificForm)
}

const specificForm = "partition:0,offset:42;partition:1,offset:300"

// parseSpecificString follows KafkaConnectorOptionsUtil.parseSpecificOffsets: no blanks, this order, lower case; a
// trailing semicolon or comma is passed over, and of a partition that is there twice the last one counts.
func parseSpecificString(v, topic string) (Specific, error) {
	fail := func(entry, why string) error {
		return fmt.Errorf("%q is not of the form %s: in %q %s", v, specificForm, entry, why)
	}
	list := strings.TrimRight(v, ";") // Java's split drops what is empty at the end
	if list == "" {
		return nil, fmt.Errorf("%q names no offset; write %s", v, specificForm)
	}
	out := make(Specific)
	for entry := range strings.SplitSeq(list, ";") {
		parts := strings.Split(strings.TrimRight(entry, ","), ",")
		switch {
		case entry == "":
			return nil, fail(entry, "there is nothing between two semicolons")
		case strings.ContainsAny(entry, " \t\n"):
			return nil, fail(entry, "there is a blank; remove it")
		case len(parts) != 2:
			return nil, fail(entry, "there have to be a partition and an offset, with one comma between them")
		}
		partition, ok := strings.CutPrefix(parts[0], "partition:")
		if !ok {
			return nil, fail(entry, "the first part does not begin with partition:")
		}
		offset, ok := strings.CutPrefix(parts[1], "offset:")
		if !ok {
			return nil, fail(entry, "the second part does not begin with offset:")
		}
		p, err := strconv.ParseInt(partition, 10, 32)
		if err != nil || p < 0 {
			return nil, fail(entry, fmt.Sprintf("%q is not the number of a partition", partition))
		}
		o, err := strconv.ParseInt(offset, 10, 64)
		if err != nil {
			return nil, fail(entry, fmt.Sprintf("%q is not an offset%s", offset, tooLarge(err)))
		}
		out[splits.Partition{Topic: topic, Partition: int32(p)}] = o
	}
	return out, nil
}

// tooLarge says why a number is none here.
func tooLarge(err error) string {
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Sprintf(", of which the largest is %d", math.MaxInt64)
	}
	return ""
}

func byText(m map[any]any) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[fmt.Sprint(k)] = v
	}
	return out
}

func parseSpecificMap(v map[string]any, topics []string) (Specific, error) {
	out := make(Specific)
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(v)) {
		nested, isTopic := v[key].(map[string]any)
		if byAny, ok := v[key].(map[any]any); ok {
			nested, isTopic = byText(byAny), true
		}
		if !isTopic {
			if len(topics) != 1 {
				errs = append(errs, fmt.Errorf("%s: %v belongs to no topic, and the source reads several; write { orders: { %s: %v } }", key, v[key], key, v[key]))
				continue
			}
			errs = append(errs, out.add(topics[0], key, v[key]))
			continue
		}
		if topics != nil && !slices.Contains(topics, key) {
			errs = append(errs, fmt.Errorf("%s: it is not one of the topics that are read: %s; correct the name, or take it out", key, strings.Join(topics, ", ")))
			continue
		}
		if len(nested) == 0 {
			errs = append(errs, fmt.Errorf("%s: it is empty; name at least one partition with its offset", key))
		}
		for _, partition := range slices.Sorted(maps.Keys(nested)) {
			errs = append(errs, out.add(key, partition, nested[partition]))
		}
	}
	if len(v) == 0 {
		errs = append(errs, errors.New("it is empty; name at least one partition with its offset"))
	}
	return out, errors.Join(errs...)
}

func (s Specific) add(topic, partition string, value any) error {
	p, err := strconv.ParseInt(partition, 10, 32)
	if err != nil || p < 0 {
		return fmt.Errorf("%s: %q is not the number of a partition; write { %s: { 0: 42 } }, each partition with its number", topic,
			partition, topic)
	}
	o, ok := offsetOf(value)
	if !ok {
		if value == nil {
			value = "null"
		}
		return fmt.Errorf("%s: partition %d: %v is not an offset; write a whole number up to %d, or one of %s", topic, p, value, math.MaxInt64,
			strings.Join(slices.Sorted(maps.Keys(words)), ", "))
	}
	at := splits.Partition{Topic: topic, Partition: int32(p)}
	if is, listed := s[at]; listed {
		return fmt.Errorf("%s: partition %d is there twice, with %d and %d; take one of them out", topic, p, min(is, o), max(is, o))
	}
	s[at] = o
	return nil
}

func offsetOf(value any) (int64, bool) {
	switch v := value.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	case float64:
		return int64(v), v == math.Trunc(v) && math.Abs(v) < 1<<53
	case json.Number:
		n, err := v.Int64()
		return n, err == nil
	case string:
		if marker, ok := words[strings.ToLower(strings.TrimSpace(v))]; ok {
			return marker, true
		}
		n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		return n, err == nil
	}
	return 0, false
}

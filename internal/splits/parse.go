package splits

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
)

// ParsePattern compiles a pattern that has to match the whole name of a topic, as in Flink. It is RE2, which has no
// backtracking; what java.util.regex has beyond it is an error that says so. The error does not name the field.
func ParsePattern(pattern string) (*regexp.Regexp, error) {
	if strings.TrimSpace(pattern) == "" {
		return nil, fmt.Errorf("%q matches no name; write a pattern such as orders-.*", pattern)
	}
	if _, err := syntax.Parse(pattern, syntax.Perl); err != nil {
		if java := onlyInJava(pattern); java != "" {
			return nil, fmt.Errorf("%q has %s, which Java's patterns know and RE2, the kind used here, does not (%w); write it without, "+
				"or list the names in topics", pattern, java, err)
		}
		return nil, fmt.Errorf("%q is no pattern: %w", pattern, err)
	}
	if otherwiseInJava.MatchString(pattern) {
		return nil, fmt.Errorf("%q has a character class within another, or an intersection of classes (&&), as Java's patterns know "+
			"them; RE2, the kind used here, takes them for single characters; write it without, or list the names in topics", pattern)
	}
	return regexp.Compile(`^(?:` + pattern + `)$`)
}

// javaOnly are the constructs of java.util.regex that RE2 refuses.
var javaOnly = []struct {
	construct *regexp.Regexp
	name      string
}{
	{regexp.MustCompile(`\(\?<?[=!]`), "a lookaround"},
	{regexp.MustCompile(`\(\?>`), "an atomic group"},
	{regexp.MustCompile(`\\[1-9]`), "a back reference"},
	{regexp.MustCompile(`\\k<`), "a back reference"},
	{regexp.MustCompile(`\[[^\]]*&&`), "an intersection of character classes"},
	{regexp.MustCompile(`\\[pP]\{(java|Is|In|Alpha|Digit|Alnum|Upper|Lower|Punct|ASCII|Space)`), "a Java character class"},
	{regexp.MustCompile(`\\[hHvVRXGZe]`), "an escape"},
	{regexp.MustCompile(`[*+?}]\+`), "a possessive quantifier"},
}

// otherwiseInJava are unions and intersections of character classes, which RE2 takes for the characters [ and &. No topic
// has them in its name.
var otherwiseInJava = regexp.MustCompile(`\[\^?\]?(\\.|[^\]\\])*?(&&|\[[^:])`)

func onlyInJava(pattern string) string {
	for _, j := range javaOnly {
		if j.construct.MatchString(pattern) {
			return j.name
		}
	}
	return ""
}

// maxRange bounds the partitions that one entry names, so that a slip of the pen does not become millions of them.
const maxRange = 100_000

// ParsePartitions reads entries such as orders:0 and orders:0-3, both ends included. The error does not name the field.
func ParsePartitions(entries []string) ([]Partition, error) {
	var out []Partition
	seen := make(map[Partition]bool)
	for _, entry := range entries {
		i := strings.LastIndex(entry, ":")
		if i < 0 {
			return nil, fmt.Errorf("%q names no partition; write topic:partition, such as orders:0, or orders:0-3", entry)
		}
		topic, numbers := strings.TrimSpace(entry[:i]), strings.TrimSpace(entry[i+1:])
		if topic == "" {
			return nil, fmt.Errorf("%q names no topic; write topic:partition, such as orders:0, or orders:0-3", entry)
		}
		from, to, isRange := strings.Cut(numbers, "-")
		if !isRange {
			to = from
		}
		first, err := parsePartition(entry, from)
		if err != nil {
			return nil, err
		}
		last, err := parsePartition(entry, to)
		if err != nil {
			return nil, err
		}
		if last < first || last-first >= maxRange {
			return nil, fmt.Errorf("%q: from %d to %d is no range of 1 to %d partitions", entry, first, last, maxRange)
		}
		for n := first; n <= last; n++ {
			p := Partition{topic, int32(n)}
			if seen[p] {
				return nil, fmt.Errorf("%q names %v, which is listed already", entry, p)
			}
			seen[p] = true
			out = append(out, p)
		}
	}
	return out, nil
}

func parsePartition(entry, text string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q: %q is not the number of a partition; write topic:partition, such as orders:0, or orders:0-3", entry, text)
	}
	return n, nil
}

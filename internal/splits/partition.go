package splits

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Partition is one partition of a topic.
type Partition struct {
	Topic     string
	Partition int32
}

func (p Partition) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.Partition) }

// Compare orders partitions by topic, then number.
func Compare(a, b Partition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// maxListed bounds the partitions an error or a log line lists.
const maxListed = 30

// Format lists partitions for people, grouped by topic: "orders 0, 1, 4; users 0".
func Format(parts []Partition) string {
	parts = slices.Clone(parts)
	slices.SortFunc(parts, Compare)
	var b strings.Builder
	for i, p := range parts {
		switch {
		case i == maxListed:
			fmt.Fprintf(&b, " and %d more", len(parts)-i)
			return b.String()
		case i == 0:
			fmt.Fprintf(&b, "%s %d", p.Topic, p.Partition)
		case p.Topic != parts[i-1].Topic:
			fmt.Fprintf(&b, "; %s %d", p.Topic, p.Partition)
		default:
			fmt.Fprintf(&b, ", %d", p.Partition)
		}
	}
	return b.String()
}

package streams

import (
	"fmt"
	"strconv"
	"strings"
)

// Row is one record as a stream read it.
type Row struct {
	Topic     string
	Partition int
	Offset    int64
	Value     string
	// TimestampMS is the record's timestamp.
	TimestampMS int64
}

// Ranges writes rows as ranges of offsets by partition. In the topics of tests/topics every record's value is its own
// offset; where it is not, the range shows it.
func Ranges(rows []Row, name func(topic string) string) map[string]string {
	by := map[string][]Row{}
	for _, r := range rows {
		p := fmt.Sprintf("%s-%d", name(r.Topic), r.Partition)
		by[p] = append(by[p], r)
	}
	out := make(map[string]string, len(by))
	for p, rs := range by {
		var ranges []string
		for i := 0; i < len(rs); {
			j := i
			for j+1 < len(rs) && rs[j+1].Offset == rs[j].Offset+1 && honest(rs[j+1]) && honest(rs[j]) {
				j++
			}
			switch {
			case !honest(rs[i]):
				ranges = append(ranges, fmt.Sprintf("%d=%q", rs[i].Offset, rs[i].Value))
			case i == j:
				ranges = append(ranges, fmt.Sprint(rs[i].Offset))
			default:
				ranges = append(ranges, fmt.Sprintf("%d-%d", rs[i].Offset, rs[j].Offset))
			}
			i = j + 1
		}
		out[p] = strings.Join(ranges, ",")
	}
	return out
}

func honest(r Row) bool { return r.Value == strconv.FormatInt(r.Offset, 10) }

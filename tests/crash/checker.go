package crash

import (
	"fmt"
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// verdict is what became of the records.
type verdict struct {
	// in is how many records were to come out, out how many came.
	in, out int64
	// lost were never seen. doubled counts every sight of a record after its first.
	lost, doubled int64
	// disordered were seen, for the first time, behind a later record of their partition that went to the same
	// partition of the output.
	disordered int64
	// altered are not byte for byte what was written. foreign were never written, or were to be left out.
	altered, foreign int64
	// first is the first finding of each kind.
	first []string
}

// clean tells whether every record was seen once, in order and as it was written; with repeats, at least once.
func (v verdict) clean(repeats bool) bool {
	return v.lost == 0 && (repeats || v.doubled == 0) && v.disordered == 0 && v.altered == 0 && v.foreign == 0
}

func (v verdict) String() string {
	text := fmt.Sprintf("in %d, out %d, lost %d, doubled %d, out of order %d, altered %d, foreign %d",
		v.in, v.out, v.lost, v.doubled, v.disordered, v.altered, v.foreign)
	if len(v.first) > 0 {
		text += "; first: " + strings.Join(v.first, "; ")
	}
	return text
}

// checker looks at the records of an output in the order of their partitions. It is for one goroutine.
type checker struct {
	// read finds what of the input a record of the output holds: itself, unless the pipeline makes something else of it.
	// wanted tells whether a record is to come out.
	read   func(r *kgo.Record) ([]sight, error)
	wanted func(partition int32, n int64) bool
	// keyedOrder leaves records without a key out of the order. One that is written again, as it may be where records
	// may repeat, goes to any partition, also behind later ones that had come through the first time.
	keyedOrder bool
	// noOrder is set where records may come in any order.
	noOrder bool
	// behind is set where a stop may come while records are read once more, so that the group is behind the output.
	behind bool
	// lossy allows the consumer group to be past records that did not come.
	lossy bool

	sights [][]uint8 // of each record by partition and number; stops counting at 255
	last   map[lane]int64
	found  verdict
	// distinct is how many different records have come.
	distinct int64
	seen     map[string]bool // kinds of finding that have a first one
}

// lane is a way from a partition of the input to one of the output; whatever takes it keeps its order.
type lane struct {
	in    int32
	topic string
	out   int32
}

// sight is a record of the input, seen in the output, and how it differs there from what was written.
type sight struct {
	partition  int32
	n          int64
	difference string
}

func newChecker(partitions int32, original func(int32, int64) *kgo.Record, wanted func(int64) bool) *checker {
	return &checker{
		read: func(r *kgo.Record) ([]sight, error) { return readCopy(r, partitions, original) },
		// All partitions are alike.
		wanted: func(_ int32, n int64) bool { return wanted(n) },
		sights: make([][]uint8, partitions), last: map[lane]int64{}, seen: map[string]bool{},
	}
}

// readCopy reads a record that is to be a copy of one of the input.
func readCopy(r *kgo.Record, partitions int32, original func(int32, int64) *kgo.Record) ([]sight, error) {
	partition, n, err := numberOf(r)
	switch {
	case err != nil:
		return nil, err
	case partition >= partitions:
		return nil, fmt.Errorf("partition %d was never written to", partition)
	}
	return []sight{{partition, n, difference(original(partition, n), r)}}, nil
}

// see takes the next record of a partition of the output.
func (c *checker) see(r *kgo.Record) {
	c.found.out++
	sights, err := c.read(r)
	if err != nil {
		c.note("foreign", &c.found.foreign, r, err.Error())
		return
	}
	for _, s := range sights {
		c.take(r, s)
	}
}

func (c *checker) take(r *kgo.Record, s sight) {
	partition, n := s.partition, s.n
	name := fmt.Sprintf("record %d:%d", partition, n)
	if !c.wanted(partition, n) {
		c.note("foreign", &c.found.foreign, r, name+" was to be left out")
		return
	}
	if s.difference != "" {
		c.note("altered", &c.found.altered, r, name+": "+s.difference)
	}
	c.grow(partition, n)
	way := lane{partition, r.Topic, r.Partition}
	last, taken := c.last[way]
	ordered := !c.noOrder && (r.Key != nil || !c.keyedOrder)
	switch {
	case c.sights[partition][n] > 0:
		c.note("doubled", &c.found.doubled, r, name)
	case ordered && taken && n < last:
		c.note("disordered", &c.found.disordered, r, fmt.Sprintf("%s after %d", name, last))
	case ordered:
		c.last[way] = n
	}
	if c.sights[partition][n] == 0 {
		c.distinct++
	}
	if c.sights[partition][n] < math.MaxUint8 {
		c.sights[partition][n]++
	}
}

// agrees checks an offset of the consumer group after a graceful stop: everything before it has come, nothing behind it
// unless that may be.
func (c *checker) agrees(partition int32, offset int64) error {
	sights := c.sights[partition]
	for n := range max(offset, int64(len(sights))) {
		came := n < int64(len(sights)) && sights[n] > 0
		switch {
		case n < offset && !came && c.wanted(partition, n) && !c.lossy:
			return fmt.Errorf("the group is at offset %d of partition %d, and record %d has not come", offset, partition, n)
		case n >= offset && came && !c.behind:
			return fmt.Errorf("the group is at offset %d of partition %d, and record %d has come", offset, partition, n)
		}
	}
	return nil
}

// expected is how many of the records that were written are to come out.
func (c *checker) expected(written []int64) int64 {
	var total int64
	for partition, count := range written {
		for n := range count {
			if c.wanted(int32(partition), n) {
				total++
			}
		}
	}
	return total
}

// missing is how many of the records that were written are to come out and have not come.
func (c *checker) missing(written []int64) int64 {
	var total int64
	for partition, count := range written {
		sights := c.sights[partition]
		for n := range count {
			if (n >= int64(len(sights)) || sights[n] == 0) && c.wanted(int32(partition), n) {
				total++
			}
		}
	}
	return total
}

// result is the verdict when so many records were written to each partition and no more will come.
func (c *checker) result(written []int64) verdict {
	v := c.found
	v.in = c.expected(written)
	v.first = append([]string{}, v.first...)
	for partition, count := range written {
		sights := c.sights[partition]
		for n := range max(count, int64(len(sights))) {
			came := n < int64(len(sights)) && sights[n] > 0
			switch {
			case n >= count && came:
				v.foreign++
				v.first = append(v.first, fmt.Sprintf("foreign: record %d:%d was never written", partition, n))
			case came && !c.wanted(int32(partition), n): // which is only known since
				v.foreign++
				v.first = append(v.first, fmt.Sprintf("foreign: record %d:%d was to be left out", partition, n))
			case n < count && !came && c.wanted(int32(partition), n):
				if v.lost++; v.lost == 1 {
					v.first = append(v.first, fmt.Sprintf("lost: record %d:%d", partition, n))
				}
			}
		}
	}
	return v
}

func (c *checker) grow(partition int32, n int64) {
	if more := n + 1 - int64(len(c.sights[partition])); more > 0 {
		c.sights[partition] = append(c.sights[partition], make([]uint8, more)...)
	}
}

func (c *checker) note(kind string, count *int64, r *kgo.Record, what string) {
	*count++
	if !c.seen[kind] {
		c.seen[kind] = true
		c.found.first = append(c.found.first, fmt.Sprintf("%s: %s, at %s/%d offset %d", kind, what, r.Topic, r.Partition, r.Offset))
	}
}

package crash

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// shape is what a scenario has where its pipeline is not one source, some processors and one sink, or where what comes
// out is not a copy of what went in.
type shape struct {
	// input and output are templates of what stands under those names, resources of what stands beside them. Source and
	// Sink write one of ours, as in {{ .Source }}.
	input, output, resources string
	// twoTopics has two input topics; the partitions of the second are numbered behind those of the first.
	twoTopics bool
	// json is set where records come out as identities (see toJSON), one or several in a record; pieces is how many come
	// out for each one that went in, 0: 1.
	json   bool
	pieces int64
	// outlets are the ways out; none: everything into the first topic.
	outlets []outlet
	// sides are what else is written, looked at in the end.
	sides []side

	// unordered and lossy take back a part of the promise; scenario.repeats is another.
	unordered, lossy bool
	// ends is set where the pipeline may end by itself, without error, before everything is through.
	ends bool
	// stumbles has one message in each process refused, which sends the stream back to its last checkpoint.
	stumbles bool
	// refusal is what the start-up says to a config that cannot keep any promise.
	refusal string
}

// outlet is a way out that is to show records of its own, each once: one topic, or several where each record takes
// either.
type outlet struct {
	topics []string
	wanted func(n int64) bool
}

// side is what a pipeline writes beside its topics on the cluster.
type side struct {
	name string
	// read gets all of it as records.
	read func(tr *trial) ([]*kgo.Record, error)
	// copies is set where they are copies of what went in, else they are identities.
	copies  bool
	repeats bool
}

const (
	first, second = "Out", "Out2"
	// toJSON puts the identity of a record in place of it: partition and number, and the hash of its value.
	toJSON = `
    - mapping: |
        root.id = @kafka_partition.string() + ":" + @kafka_offset.string()
        root.sum = content().hash("sha256").encode("hex")
        meta kafka_tombstone_message = deleted()`
	// stumble refuses one message in each process.
	stumble = `
    - mapping: 'root = if count("stumble") == 300 { throw("refused once") } else { content() }'`
)

// identity is what toJSON makes.
type identity struct {
	ID    string `json:"id"`
	Piece int64  `json:"piece"`
	Sum   string `json:"sum"`
}

// lanes is how many partitions the input has in all.
func (s scenario) lanes() int32 {
	return s.each() * int32(len(s.inTopics(names{})))
}

// each is how many partitions a topic of the input has, or may have.
func (s scenario) each() int32 { return max(partitions, s.grows) }

func (s scenario) inTopics(n names) []string {
	if s.twoTopics {
		return []string{n.In, n.In2}
	}
	return []string{n.In}
}

// ways are the outlets, with the names of their topics.
func (s scenario) ways(n names) []outlet {
	topics := map[string]string{first: n.Out, second: n.Out2}
	all := s.outlets
	if len(all) == 0 {
		all = []outlet{{topics: []string{first}}}
	}
	ways := make([]outlet, len(all))
	for i, o := range all {
		for _, t := range o.topics {
			ways[i].topics = append(ways[i].topics, topics[t])
		}
		ways[i].wanted = func(n int64) bool { return (o.wanted == nil || o.wanted(n)) && s.comesOut(n) }
	}
	return ways
}

func (s scenario) outTopics(n names) []string {
	var topics []string
	for _, o := range s.ways(n) {
		topics = append(topics, o.topics...)
	}
	return topics
}

func (s scenario) perRecord() int64 { return max(1, s.pieces) }

// due turns how many records were written to each partition into how many are to come out of each of the checker's:
// each outlet has the input's partitions once more, and a record's pieces are numbered one by one.
func (s scenario) due(written []int64) []int64 {
	var due []int64
	for range max(1, len(s.outlets)) {
		for _, count := range written {
			due = append(due, count*s.perRecord())
		}
	}
	return due
}

// newChecker looks at what comes out of all outlets.
func (s scenario) newChecker(n names, original func(int32, int64) *kgo.Record) *checker {
	ways, lanes := s.ways(n), s.lanes()
	c := newChecker(lanes*int32(len(ways)), original, s.comesOut)
	read := s.reader(original)
	c.read = func(r *kgo.Record) ([]sight, error) {
		at := slices.IndexFunc(ways, func(o outlet) bool { return slices.Contains(o.topics, r.Topic) })
		sights, err := read(r)
		for i := range sights {
			sights[i].partition += int32(at) * lanes
		}
		return sights, err
	}
	c.wanted = func(partition int32, v int64) bool { return ways[partition/lanes].wanted(v / s.perRecord()) }
	c.keyedOrder, c.noOrder, c.lossy = s.repeats, s.threads > 1, s.lossy
	// Where kills and stops take turns, a stop may come before what the kill has left to repeat was read.
	c.behind = s.solo != "" && (s.refusing || s.brokerToo || s.grows > 0)
	return c
}

func (s scenario) reader(original func(int32, int64) *kgo.Record) func(*kgo.Record) ([]sight, error) {
	if !s.json {
		return func(r *kgo.Record) ([]sight, error) { return readCopy(r, s.lanes(), original) }
	}
	return func(r *kgo.Record) ([]sight, error) { return readIdentities(r, s.lanes(), s.perRecord(), original) }
}

// readIdentities reads a record that holds one identity, or a list of them.
func readIdentities(r *kgo.Record, lanes int32, pieces int64, original func(int32, int64) *kgo.Record) ([]sight, error) {
	var all []identity
	text := r.Value
	if len(text) == 0 || text[0] != '[' {
		text = []byte("[" + string(text) + "]")
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("%s is no identity: %w", show(r.Value), err)
	}
	sights := make([]sight, len(all))
	for i, id := range all {
		partition, n, err := parseNumber(id.ID)
		switch {
		case err != nil:
			return nil, err
		case partition >= lanes:
			return nil, fmt.Errorf("partition %d was never written to", partition)
		case id.Piece < 0 || id.Piece >= pieces:
			return nil, fmt.Errorf("record %s has no piece %d", id.ID, id.Piece)
		}
		sights[i] = sight{partition: partition, n: n*pieces + id.Piece}
		if sum := sha256.Sum256(original(partition, n).Value); hex.EncodeToString(sum[:]) != id.Sum {
			sights[i].difference = "the hash of its value is " + id.Sum
		}
	}
	return sights, nil
}

// kept tells whether a pipeline of the scenario has kept its promise.
func (s scenario) kept(v verdict) bool {
	if s.lossy {
		v.lost = 0
	}
	if s.unordered || s.threads > 1 {
		v.disordered = 0
	}
	return v.clean(s.repeats)
}

// promise is what the scenario promises, for people.
func (s scenario) promise() string {
	words := []string{"exactly once"}
	switch {
	case s.refusal != "":
		return "refused"
	case s.lossy:
		words[0] = "at most once"
	case s.repeats:
		words[0] = "at least once"
	}
	if !s.unordered && s.threads <= 1 {
		words = append(words, "in order")
	}
	for _, side := range s.sides {
		how := "exactly once"
		if side.repeats {
			how = "at least once"
		}
		words = append(words, side.name+" "+how)
	}
	return strings.Join(words, ", ")
}

// shapes are all there are.
func shapes() []scenario {
	return slices.Concat(processorShapes, outputShapes, inputShapes, boundedShapes())
}

// pickShapes are the shapes in a list of names, separated by commas; "shapes" and "all" are all, "ending" those with an
// end.
func pickShapes(list string) []scenario { return pickFrom(shapes(), list) }

func pickFrom(all []scenario, list string) []scenario {
	if slices.Contains(strings.Split(list, ","), "shapes") {
		return all
	}
	return pickKind(all, list)
}

package kafkasource

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// readAheadBytes is how much memory the records may take that are fetched and not handed out, of all brokers together,
	// unless the config lets one broker send more than half of it.
	// The last batch that was handed out may hold on to as much again, and the collector lets a heap grow to three times
	// what is live: 16 MB here are up to 100 MB of a process, and more of one that writes large records.
	readAheadBytes = 16 << 20
	// answerBytes is the part of it that the client's answers may take; as much again is what was taken from it before, and
	// is handed out while it asks for more.
	answerBytes = readAheadBytes / 2
	// fetchMaxBytes and fetchMaxPartitionBytes are the most that one broker is asked for, unless the config sets others. An
	// answer that is not compressed is one piece of memory, which its last record holds on to.
	fetchMaxBytes          = 4 << 20
	fetchMaxPartitionBytes = 1 << 20
	// firstFetchBytes is asked for as long as nobody knows what records take unpacked, minFetchBytes is the least.
	// It is no size that anybody sets.
	firstFetchBytes = 1<<20 - 1
	minFetchBytes   = 16 << 10
	// recordOverhead is what a record takes in memory beside its bytes.
	recordOverhead = 256
	// maxBatchBytes bounds a batch of large records: a checkpoint waits until the batch is through.
	maxBatchBytes = 4 << 20
	// decodePause is how long nothing was unpacked where no answer is being unpacked any more.
	decodePause = time.Second
)

// errReadAhead is what a batch gets that is not unpacked for now. The client keeps what it has unpacked of the partition,
// and asks for the rest again.
var errReadAhead = errors.New("as much as may be is read ahead; the batch is fetched again")

// readAhead bounds what a client holds in memory. A client buffers one answer of each broker and asks for the next when
// that is used up; what it can be told to bound is the bytes on the wire, of one broker. Small records take ten times
// that in memory, and compressed ones a thousand times. So what answers take is measured as they are unpacked, the
// next are asked for in the size that fits, and where an answer turns out to be larger than that, its rest is not
// unpacked but fetched again.
type readAhead struct {
	budget int64
	unpack kgo.Decompressor
	client atomic.Pointer[kgo.Client]
	// most and mostOfOne are the most that a broker is asked for, in all and of one partition.
	most, mostOfOne int32

	mu sync.Mutex
	// held is what the last answer of each broker takes, until the next one is asked for; total is the sum.
	held  map[int32]int64
	total int64
	// unpacked is when a batch was unpacked last.
	unpacked time.Time
	// wire and memory are what batches took lately there, and records how many were in them.
	wire, memory, records int64
	// asked is what a broker is asked for now.
	asked int64
}

var (
	_ kgo.Decompressor       = (*readAhead)(nil)
	_ kgo.HookNewClient      = (*readAhead)(nil)
	_ kgo.HookBrokerWrite    = (*readAhead)(nil)
	_ kgo.HookFetchBatchRead = (*readAhead)(nil)
)

func newReadAhead(budget int64, unpack kgo.Decompressor) *readAhead {
	return &readAhead{
		budget: budget, unpack: unpack, most: fetchMaxBytes, mostOfOne: fetchMaxPartitionBytes,
		held: map[int32]int64{}, asked: firstFetchBytes,
	}
}

// options make a client keep to it. They come before the connection's, which may set other sizes.
func (r *readAhead) options() []kgo.Opt {
	return []kgo.Opt{
		kgo.WithHooks(r), kgo.WithDecompressor(r),
		kgo.FetchMaxBytes(firstFetchBytes), kgo.FetchMaxPartitionBytes(firstFetchBytes),
	}
}

// OnNewClient is called before the client is anybody's. Sizes that the config has set are the most that is asked for, and
// where one answer may be larger than the budget, as much may be held.
func (r *readAhead) OnNewClient(client *kgo.Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if set, _ := client.OptValue(kgo.FetchMaxBytes).(int32); set != firstFetchBytes {
		r.most, r.budget = set, max(r.budget, int64(set))
	}
	if set, _ := client.OptValue(kgo.FetchMaxPartitionBytes).(int32); set != firstFetchBytes {
		r.mostOfOne = set
	}
	r.client.Store(client)
}

// OnBrokerWrite notes that a broker is asked for more: what it sent before is used up.
func (r *readAhead) OnBrokerWrite(broker kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key != kmsg.Fetch.Int16() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total -= r.held[broker.NodeID]
	r.held[broker.NodeID] = 0
}

// Decompress unpacks a batch, unless too much is held already. Where nothing is held it does, up to what unpack takes: there
// is no other way to get past it.
func (r *readAhead) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	r.mu.Lock()
	full := r.total >= r.budget
	r.mu.Unlock()
	if full && codec != kgo.CodecNone {
		return nil, errReadAhead
	}
	return r.unpack.Decompress(src, codec)
}

// OnFetchBatchRead notes what a batch takes, and what that means for the next question.
func (r *readAhead) OnFetchBatchRead(broker kgo.BrokerMetadata, _ string, _ int32, m kgo.FetchBatchMetrics) {
	if m.NumRecords == 0 {
		return // it was not unpacked
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	takes := int64(m.UncompressedBytes) + int64(m.NumRecords)*recordOverhead
	r.held[broker.NodeID] += takes
	r.total += takes
	r.unpacked = time.Now()
	if r.wire >= firstFetchBytes { // what was long ago counts less and less
		r.wire, r.memory, r.records = r.wire/2, r.memory/2, r.records/2
	}
	r.wire += int64(m.CompressedBytes)
	r.memory += takes
	r.records += int64(m.NumRecords)
	r.ask()
}

// ask sets what each broker is asked for next: its part of the budget, as it comes over the wire. r.mu is held.
func (r *readAhead) ask() {
	want := float64(r.budget) / float64(len(r.held)) * float64(r.wire) / float64(max(1, r.memory))
	next := int64(min(max(want, minFetchBytes), float64(r.most)))
	if next > r.asked*4/5 && next < r.asked*5/4 {
		return // not worth it
	}
	if client := r.client.Load(); client != nil {
		r.asked = next
		client.UpdateFetchMaxBytes(int32(next), min(int32(next), r.mostOfOne))
	}
}

// batch is how many records are handed out at a time, where most is the most. Of the first batch nobody knows how large they
// are; what is read ahead bounds it.
func (r *readAhead) batch(most int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.memory == 0 {
		return most
	}
	return int(min(max(1, maxBatchBytes*r.records/r.memory), int64(most)))
}

// settle forgets what a broker had sent that is not asked any more, since its partitions have moved to another one: once
// the client has nothing buffered and nothing is being unpacked, nothing is held.
func (r *readAhead) settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.total == 0 || time.Since(r.unpacked) < decodePause || r.client.Load().BufferedFetchRecords() > 0 {
		return
	}
	clear(r.held)
	r.total = 0
}

package kafkasource

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/internal/splits"
)

const (
	// publishInterval is how often the numbers of partitions are handed to the metrics.
	publishInterval = time.Second
	// defaultEndInterval is how often the ends of the log are asked for, by one request to each broker: the answers to
	// fetches tell them too, but not while nothing is fetched, and nothing of what the client passes over in silence.
	defaultEndInterval = 5 * time.Second
	// lostAfter is for how long no broker may answer until the source counts as not connected.
	lostAfter = 30 * time.Second
)

// unknown stands for an offset that is not known.
const unknown int64 = -1

// Progress is what there is to say of one partition that is read. Offsets are those that Kafka commits: the next to read.
type Progress struct {
	// Position is where the source is, Committed what was committed last, End the end of what the isolation level lets
	// it see; Committed and End may be unknown, which is -1.
	Position, Committed, End int64
	// Lag is how far Position is behind End, or behind the partition's stop (rule 11); -1 where End is unknown.
	Lag int64
	// Records and Bytes are what was emitted since the last time, FetchErrors the errors of fetches.
	Records, Bytes, FetchErrors int64
}

// PartitionMetrics takes the numbers of partitions, now and then and from one goroutine at a time.
type PartitionMetrics interface {
	Show(topic string, partition int32, p Progress)
	// Forget takes a partition away that is not read any more, Drop also what was counted of it: its topic is deleted.
	Forget(topic string, partition int32)
	Drop(topic string, partition int32)
}

// meter follows the partitions across attempts. It has a lock of its own, which is taken once a batch.
type meter struct {
	mu    sync.Mutex
	parts map[splits.Partition]*metered
	// records and bytes are those of all partitions since the source was built.
	records, bytes int64
}

// metered is what is known of a partition.
type metered struct {
	Progress
	stop int64
	// stale is set where the end that the last fetch told is too old to be shown.
	stale bool
	// read is set where the attempt under way, or the last one, reads the partition.
	read bool
	// dropped is set where its topic is deleted.
	dropped bool
}

func newMeter() *meter { return &meter{parts: map[splits.Partition]*metered{}} }

// of returns what is known of a partition. m.mu is held.
func (m *meter) of(at splits.Partition) *metered {
	p := m.parts[at]
	if p == nil {
		p = &metered{Progress: Progress{Position: unknown, Committed: unknown, End: unknown, Lag: unknown}, stop: checkpoint.NoStop}
		m.parts[at] = p
	}
	return p
}

// emitted counts the records of a batch.
func (m *meter) emitted(records []*kgo.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := 0; i < len(records); {
		first := records[i]
		var n, bytes int64
		for ; i < len(records) && records[i].Partition == first.Partition && records[i].Topic == first.Topic; i++ {
			n++
			bytes += size(records[i])
		}
		p := m.of(splits.Partition{Topic: first.Topic, Partition: first.Partition})
		p.Records += n
		p.Bytes += bytes
		m.records += n
		m.bytes += bytes
	}
}

// size is what a record holds for its user: key, value and headers.
func size(r *kgo.Record) int64 {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return int64(n)
}

func (m *meter) fetchFailed(topic string, partition int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(splits.Partition{Topic: topic, Partition: partition}).FetchErrors++
}

// committed notes positions that are committed.
func (m *meter) committed(all []checkpoint.Split) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range all {
		m.of(splits.Partition{Topic: s.Topic, Partition: s.Partition}).Committed = s.Offset
	}
}

// drop notes that a partition's topic is deleted.
func (m *meter) drop(at splits.Partition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(at).dropped = true
}

// follow takes the positions of an attempt; what it does not hold is not read any more.
func (m *meter) follow(all []metered, at []splits.Partition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.parts {
		p.read = false
	}
	for i, now := range all {
		p := m.of(at[i])
		p.Position, p.stop, p.read = now.Position, now.stop, true
		if now.End != unknown && !p.stale {
			p.End = now.End
		}
	}
}

// ended notes where the log ends.
func (m *meter) ended(ends map[splits.Partition]int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at, end := range ends {
		p := m.of(at)
		p.End, p.stale = end, false
	}
}

// forgetEnds takes back what nobody can confirm any more.
func (m *meter) forgetEnds() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.parts {
		p.End, p.stale = unknown, true
	}
}

// forgetEnd takes back what nobody can confirm of one partition.
func (m *meter) forgetEnd(at splits.Partition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.of(at)
	p.End, p.stale = unknown, true
}

// lag is how far a position is behind what can be read, or is to be.
func (p *metered) lag() int64 {
	end := p.End
	if end == unknown {
		return unknown
	}
	if p.stop != checkpoint.NoStop {
		end = min(end, p.stop)
	}
	return max(0, end-p.Position)
}

// publish hands everything to the metrics. Partitions that are not read any more are forgotten.
func (m *meter) publish(to PartitionMetrics) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range slices.SortedFunc(maps.Keys(m.parts), splits.Compare) {
		p := m.parts[at]
		p.Lag = p.lag()
		if to != nil && (p.read || p.Records > 0 || p.FetchErrors > 0) {
			to.Show(at.Topic, at.Partition, p.Progress)
		}
		p.Records, p.Bytes, p.FetchErrors = 0, 0, 0
		if p.read {
			p.dropped = false // a new topic has its name
			continue
		}
		delete(m.parts, at)
		if to != nil {
			to.Forget(at.Topic, at.Partition)
			if p.dropped {
				to.Drop(at.Topic, at.Partition)
			}
		}
	}
}

// totals sums up all partitions.
func (m *meter) totals() (t checkpoint.Totals) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t.Records, t.Bytes = m.records, m.bytes
	for _, p := range m.parts {
		if p.read {
			t.Partitions++
			t.Lag += max(0, p.lag())
		}
	}
	return t
}

// Totals are what the source has emitted since it was built, and how far it is behind.
func (r *Reader) Totals() checkpoint.Totals {
	r.locate()
	return r.meter.totals()
}

// locate looks where the attempt under way is. Between two attempts everything stays where it was.
func (r *Reader) locate() {
	r.mu.Lock()
	a := r.att
	if a == nil {
		r.mu.Unlock()
		return
	}
	var all []metered
	var parts []splits.Partition
	for _, s := range a.splits {
		if s.gone {
			continue
		}
		now := metered{Progress: Progress{Position: s.pos.Offset, End: unknown}, stop: s.pos.Stop}
		if s.end > 0 {
			now.End = s.end
		}
		all, parts = append(all, now), append(parts, at(s.pos))
	}
	r.mu.Unlock()
	r.meter.follow(all, parts)
}

// publish runs until the Reader is closed, and leaves nothing that looks like a partition that is read.
func (r *Reader) publish() {
	tick := time.NewTicker(publishInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.locate()
			r.meter.publish(r.cfg.Metrics.Partitions)
			continue
		case <-r.stopped.Done():
		}
		r.meter.publish(r.cfg.Metrics.Partitions)
		r.meter.follow(nil, nil)
		r.meter.publish(r.cfg.Metrics.Partitions)
		return
	}
}

// measure asks for the ends of the log until the Reader is closed, and notes whether any broker answers.
func (r *Reader) measure() {
	tick := time.NewTicker(r.cfg.EndInterval)
	defer tick.Stop()
	for {
		r.askEnds()
		silent := r.ear.silence() >= r.cfg.LostAfter
		r.setSilent(silent)
		if silent {
			r.meter.forgetEnds()
			r.askWhy()
		}
		select {
		case <-tick.C:
		case <-r.stopped.Done():
			r.noteUnavailable(time.Now(), nil, nil) // nothing is read any more
			return
		}
	}
}

// whyTimeout bounds the question why nobody answers.
const whyTimeout = 10 * time.Second

// askWhy ends the stream where brokers are there and refuse the connection that they took before, as after a change of the
// password: they will refuse it again (rule 13), and nothing but this question says so, since the clients try for ever.
func (r *Reader) askWhy() {
	ctx, cancel := context.WithTimeout(r.stopped, whyTimeout)
	defer cancel()
	if _, err := kafkaclient.Ping(ctx, r.admin, r.cluster().quiet().log); kafkaclient.Final(err) {
		r.seat.Fatal(fmt.Errorf("source %s: no broker has answered for %v, and they refuse a new connection: %w", r.cfg.Key,
			r.cfg.LostAfter, err))
	}
}

// watchDoor ends the stream where a broker refuses the source's new connections, while older ones may well answer: the client
// that fetches would stand still and nothing else would tell.
func (r *Reader) watchDoor() {
	options, err := r.cfg.Connection.WithClientID(r.cfg.clientID("admin")).Options(r.log)
	if err == nil {
		err = r.door.Watch(r.stopped, options, r.log)
	}
	if err != nil {
		r.seat.Fatal(fmt.Errorf("source %s: %w", r.cfg.Key, err))
	}
}

// askEnds asks once, and looks at partitions of which no broker tells the end, or that stand still in front of it. Where
// nothing is left to read it asks whether any broker is there.
func (r *Reader) askEnds() {
	r.mu.Lock()
	a := r.att
	var asked []*split
	var parts []splits.Partition
	if a != nil {
		for _, s := range a.splits {
			if !s.pos.AtStop() && !s.gone {
				asked, parts = append(asked, s), append(parts, at(s.pos))
			}
		}
	}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(r.stopped, r.cfg.EndInterval)
	defer cancel()
	if len(parts) == 0 {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = []kmsg.MetadataRequestTopic{}
		_, _ = req.RequestWith(ctx, r.admin) // the ear hears the answer
		// Between two attempts it is not known what will be read.
		if a != nil {
			r.noteUnavailable(time.Now(), nil, nil)
		}
		return
	}
	ends, refused := r.cluster().logEnds(ctx, parts, r.cfg.ReadCommitted)
	if r.stopped.Err() != nil {
		return // what the context's end says is no answer
	}
	r.meter.ended(ends)
	r.mu.Lock()
	r.noteEnds(a, asked, ends)
	r.mu.Unlock()
	r.noteUnavailable(time.Now(), parts, refused)
	r.lookAtStanding(a)
}

// noteEnds lets a read that waits know what there is to come. It moves no position: only fetches do. r.mu is held.
func (r *Reader) noteEnds(a *attempt, asked []*split, ends map[splits.Partition]int64) {
	stood := len(a.standing())
	for _, s := range asked {
		// Race: the answer was given before one to a fetch, and is noted after it. If the end went back, a read that waits
		// for a probe over offsets without records would have nothing to wait for, and wait without a limit. Where the log
		// was really cut, the next probe says so.
		if end, ok := ends[at(s.pos)]; ok {
			s.end = max(s.end, end)
		}
	}
	if r.att == a && stood == 0 && len(a.standing()) > 0 {
		a.interrupt() // A poll that waits without a limit knows of nothing that should come.
	}
}

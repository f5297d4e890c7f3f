package kafkasource

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// maxEmptyProbes is how many probes in a row find nothing in front of a position before that is logged.
const maxEmptyProbes = 5

const (
	// probeTimeout bounds a probe: meanwhile nothing is handed out.
	probeTimeout = 2 * time.Second
	// probeMaxBytes is what a probe asks for of one partition, beyond the first batch. A probe that has moved a
	// position is followed by another at once, so that this need not be much.
	probeMaxBytes = 64 << 10
	// maxProbeInterval bounds the wait for the next probe, which doubles with each that has moved nothing: then the
	// records are there, and the broker is slow, or a transaction is open.
	maxProbeInterval = 30 * time.Second
)

// probeDue tells whether to probe now, and else how long a poll may wait before it is due: 0 for as long as it likes.
func (a *attempt) probeDue(now time.Time, interval time.Duration) (wait time.Duration, due bool) {
	if len(a.standing()) == 0 {
		a.idleSince, a.fruitless = time.Time{}, 0
		return 0, false
	}
	if a.idleSince.IsZero() {
		a.idleSince = now
	}
	wait = max(interval, min(interval<<min(a.fruitless, 16), maxProbeInterval)) - now.Sub(a.idleSince)
	return max(wait, 0), wait <= 0
}

// standing returns the splits whose position should move, since there is something in front of it: their stop, or the
// end of the log.
func (a *attempt) standing() (out []*split) {
	for _, s := range a.splits {
		if !s.gone && !s.blocked && !s.pos.AtStop() && (s.pos.Stop != checkpoint.NoStop || s.end > s.pos.Offset) {
			out = append(out, s)
		}
	}
	return out
}

// probe asks for the true next offset of splits that stand still. The client moves over aborted batches and compaction
// holes too, but tells nobody where it has come to while it returns no record. Errors are left to the client, which
// meets them as well.
func (r *Reader) probe(ctx context.Context, a *attempt) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	r.mu.Lock()
	due := a.standing()
	at := make([]checkpoint.Split, len(due))
	for i, s := range due {
		at[i] = s.pos
	}
	r.mu.Unlock()
	fruitful := false
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if a.fruitless++; fruitful {
			a.fruitless = 0
		} else {
			a.idleSince = time.Now()
		}
	}()
	leaders, err := r.cluster().leaders(ctx, at)
	if err != nil {
		return
	}
	for i, s := range due {
		leader, ok := leaders[at[i].Topic][at[i].Partition]
		if !ok {
			continue
		}
		p, err := r.askRaw(ctx, leader, "", at[i])
		if err != nil {
			continue
		}
		answer, ok := readRaw(p, at[i], r.isolation(), r.unpack)
		if !ok {
			continue
		}
		r.mu.Lock()
		// The client may have moved the position while we asked; then there is nothing to find out any more.
		stuck := r.att == a && s.pos == at[i] && len(a.pending) == 0 && s.step(answer, r.cfg.ReadCommitted)
		fruitful = fruitful || s.pos != at[i]
		r.mu.Unlock()
		if stuck {
			r.warnNothing(at[i], answer.highWatermark)
		}
	}
}

func (r *Reader) warnNothing(at checkpoint.Split, logEnd int64) {
	r.log.Warn("the broker returns nothing between the position and the end of the log, which is tried again for ever: its quota holds "+
		"the reader up, or the log is damaged", "topic", at.Topic, "partition", at.Partition, "position", at.Offset, "log_end", logEnd)
}

// step moves the position to what a probe found, and tells whether probes have found nothing at all for too long.
func (s *split) step(answer rawFetch, readCommitted bool) (stuck bool) {
	s.end = answer.highWatermark
	if readCommitted {
		s.end = answer.lastStable
	}
	next := min(answer.next, s.end)
	if s.pos.Stop != checkpoint.NoStop {
		next = min(next, s.pos.Stop)
	}
	if next > s.pos.Offset {
		s.pos.Offset = next
		if answer.epoch >= 0 {
			s.pos.LeaderEpoch = answer.epoch
		}
	}
	return s.holdsNothing(answer.empty)
}

// holdsNothing counts answers without any bytes, and tells whether that is to be logged. In front of the end a broker should
// never answer so, but for a moment: it is not taken for a hole, since to be wrong there would lose records.
func (s *split) holdsNothing(empty bool) bool {
	if !empty || s.end <= s.pos.Offset {
		s.emptyProbes = 0
		return false
	}
	s.emptyProbes++
	return s.emptyProbes == maxEmptyProbes
}

// rawFetch is what one fetch tells of a position.
type rawFetch struct {
	// next is the first record that is to be emitted at or after the position, else the next offset to ask for.
	next int64
	// epoch is that of the last thing before next, -1 where unknown.
	epoch                     int32
	highWatermark, lastStable int64
	// empty is set where the answer has no bytes at all.
	empty bool
}

// askRaw fetches from one position, outside the client's sessions. With a rack the leader may name a nearer replica instead.
func (r *Reader) askRaw(ctx context.Context, broker int32, rack string, at checkpoint.Split) (*kmsg.FetchResponseTopicPartition, error) {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = -1
	req.MaxWaitMillis, req.MinBytes = 0, 0 // what is there now
	req.MaxBytes = probeMaxBytes
	if r.cfg.ReadCommitted {
		req.IsolationLevel = 1
	}
	req.SessionID, req.SessionEpoch = 0, -1 // outside any session
	req.Rack = rack
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = at.Topic, at.TopicID
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = at.Partition, at.Offset, probeMaxBytes
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)

	kresp, err := r.admin.Broker(int(broker)).RetriableRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := kresp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, errIncomplete
	}
	return &resp.Topics[0].Partitions[0], nil
}

// readRaw reads the answer for one partition. The second result is false where it tells nothing.
func readRaw(p *kmsg.FetchResponseTopicPartition, at checkpoint.Split, isolation kgo.IsolationLevel, unpack kgo.Decompressor,
) (rawFetch, bool) {
	if p.ErrorCode != 0 {
		return rawFetch{}, false
	}
	fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, Offset: at.Offset, IsolationLevel: isolation, Topic: at.Topic, Partition: at.Partition,
	}, p, unpack, nil)
	if fp.Err != nil {
		return rawFetch{}, false
	}
	out := rawFetch{
		next: next, epoch: -1, highWatermark: fp.HighWatermark, lastStable: fp.LastStableOffset, empty: len(p.RecordBatches) == 0,
	}
	for _, rec := range fp.Records {
		if !rec.Attrs.IsControl() {
			out.next = rec.Offset // the client will return it
			break
		}
		out.epoch = rec.LeaderEpoch
	}
	return out, true
}

// leaders returns the leader of each partition, where it has one.
func (c cluster) leaders(ctx context.Context, of []checkpoint.Split) (map[string]map[int32]int32, error) {
	req := kmsg.NewPtrMetadataRequest()
	seen := make(map[string]bool)
	for _, s := range of {
		if !seen[s.Topic] {
			seen[s.Topic] = true
			rt := kmsg.NewMetadataRequestTopic()
			rt.Topic = kmsg.StringPtr(s.Topic)
			req.Topics = append(req.Topics, rt)
		}
	}
	resp, err := req.RequestWith(ctx, c.client)
	if err != nil {
		return nil, err
	}
	out := make(map[string]map[int32]int32)
	for _, t := range resp.Topics {
		if t.Topic == nil || t.ErrorCode != 0 {
			continue
		}
		out[*t.Topic] = make(map[int32]int32)
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 && p.Leader >= 0 {
				out[*t.Topic][p.Partition] = p.Leader
			}
		}
	}
	return out, nil
}

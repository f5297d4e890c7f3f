package kafkasource

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkaclient"
)

// A log may hold what cannot be read: a disk, a memory or a file system has changed bytes of it. Some of that the client
// reports (a checksum that does not fit), some it asks for again and again without a word (the broker's CORRUPT_MESSAGE, a
// batch that claims to be longer than the log is), so partitions that stand still are looked at.
//
// Nothing is skipped (rule 12). What was read before the batch is delivered, and with checkpoints committed, before the attempt
// fails: else each attempt would take it back, and whoever then goes on behind the batch would miss it. After corruptTries
// attempts in a row the stream ends, since a batch is not mended by reading it; meanwhile a replica that is whole may have
// become the leader.

const (
	// corruptTries is how many attempts may meet the same batch.
	corruptTries = 3
	// inspectTimeout bounds a look at a batch.
	inspectTimeout = 2 * time.Second
	// standingAtATime bounds how many partitions are looked at in one round.
	standingAtATime = 3
)

// errNoBatch stands for an answer with bytes that lead nowhere.
var errNoBatch = errors.New("no whole batch can be found in what the broker sends from there on")

// corruption is a batch that cannot be read.
type corruption struct {
	split *split
	// offset is the first that cannot be read.
	offset int64
	err    error
	told   bool
}

// met is what is remembered of a corrupt batch across attempts.
type met struct {
	offset int64
	times  int
}

// isCorrupt tells whether an error of a partition's fetch is about the bytes of its batch: none that a broker reports, but
// for CORRUPT_MESSAGE, and none of the network.
func isCorrupt(err error) bool {
	if errors.Is(err, kerr.CorruptMessage) {
		return true
	}
	_, reported := errors.AsType[*kerr.Error](err)
	_, dataLoss := errors.AsType[*kgo.ErrDataLoss](err)
	if err == nil || reported || dataLoss || errors.Is(err, kgo.ErrMaxDecompress) || errors.Is(err, errReadAhead) {
		return false
	}
	return isUnpacking(err) || kafkaclient.Classify(err) == kafkaclient.ClassFatal
}

// isUnpacking tells whether the client could not unpack a batch. It has no error of its own for it, and what it wraps may
// look like a connection that broke: compressed data that ends too early is an unexpected EOF too.
func isUnpacking(err error) bool {
	return strings.HasPrefix(err.Error(), "unable to decompress batch: ")
}

// block stops fetching a partition at a batch that cannot be read. r.mu is held.
func (a *attempt) block(s *split, offset int64, err error) {
	if s.blocked {
		return // it was fetched again before the client was told
	}
	s.blocked = true
	a.corrupt = append(a.corrupt, &corruption{split: s, offset: offset, err: err})
	if a.client != nil {
		a.client.PauseFetchPartitions(map[string][]int32{s.pos.Topic: {s.pos.Partition}})
	}
}

// readTo is up to where records of a split were fetched.
func (a *attempt) readTo(s *split) int64 {
	to := s.pos.Offset
	for _, c := range a.pending {
		if c.split == s {
			to = max(to, c.records[len(c.records)-1].Offset+1)
		}
	}
	return to
}

// corruptDue returns a corruption that is to be reported: what was read before it is emitted, since nothing is pending,
// and with checkpoints a barrier has passed over it. wait are those for which that is still to come, once each.
func (a *attempt) corruptDue(solo bool) (due *corruption, wait []*corruption) {
	for _, c := range a.corrupt {
		s := c.split
		switch {
		case a.byPart[s.pos.Topic][s.pos.Partition] != s || s.gone || s.pos.AtStop(): // it is read no more
		case solo || s.pos.Offset == s.barrier:
			return c, nil
		case !c.told:
			c.told = true
			wait = append(wait, c)
		}
	}
	return nil, wait
}

// reportCorrupt has the attempt fail, or ends the stream.
func (r *Reader) reportCorrupt(ctx context.Context, a *attempt, c *corruption) {
	r.breakOff(a)
	where := at(c.split.pos)
	m := r.corrupt[where]
	if m.offset != c.offset {
		m = met{offset: c.offset}
	}
	m.times++
	r.corrupt[where] = m
	err := r.explainCorrupt(ctx, c)
	if m.times >= corruptTries {
		r.seat.Fatal(fmt.Errorf("%w; it was read %d times", err, m.times))
		return
	}
	r.seat.Failed(a.tag, err)
}

// explainCorrupt says which batch it is, where it lies, and what can be done.
func (r *Reader) explainCorrupt(ctx context.Context, c *corruption) error {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	pos := c.split.pos
	pos.Offset = c.offset
	where, behind, unchecked := "the log", "the batch", ""
	if leaders, err := r.cluster().leaders(ctx, []checkpoint.Split{pos}); err == nil {
		if leader, ok := leaders[pos.Topic][pos.Partition]; ok {
			p, broker, err := r.askWhereRead(ctx, leader, pos)
			if where = fmt.Sprintf("the log of its leader, broker %d", leader); broker != leader {
				where = fmt.Sprintf("the log of broker %d, which is read for its rack (the leader is broker %d)", broker, leader)
			}
			if err == nil {
				if last, ok := lastOffset(p.RecordBatches, c.offset); ok {
					behind = fmt.Sprintf("the batch, whose last offset is %d", last)
				}
				if r.checksCRCs() && r.readable(p, pos, true) == nil {
					unchecked = `read it as it is, with properties.check.crcs: "false"; `
				}
			}
		}
	}
	return fmt.Errorf("fetching %v at offset %d: the batch there is corrupt in %s: %w. Nothing of it is skipped. As a rule that broker's "+
		"disk or memory has a fault. Ways out: let a replica that is whole %s, or restore it; %sor go on behind "+
		"%s: %s", at(pos), c.offset, where, c.err, r.wayToAnother(), unchecked, behind, r.wayBehind())
}

// wayToAnother says how another replica is read.
func (r *Reader) wayToAnother() string {
	if r.cfg.Rack != "" {
		return "lead the partition, and remove rack"
	}
	return "lead the partition"
}

// askWhereRead asks the replica that the client reads from: the leader, or one of the rack that the leader names.
func (r *Reader) askWhereRead(ctx context.Context, leader int32, from checkpoint.Split,
) (p *kmsg.FetchResponseTopicPartition, broker int32, err error) {
	p, err = r.askRaw(ctx, leader, r.cfg.Rack, from)
	if err != nil || r.cfg.Rack == "" || p.PreferredReadReplica < 0 {
		return p, leader, err
	}
	near := p.PreferredReadReplica
	p, err = r.askRaw(ctx, near, r.cfg.Rack, from)
	return p, near, err
}

// wayBehind says how to go on behind something that cannot be read.
func (r *Reader) wayBehind() string {
	if r.solo {
		return "kafka-consumer-groups.sh --reset-offsets, or startup.mode: specific-offsets"
	}
	return "kafka-delete-records.sh up to there, and checkpoint.on_restore_out_of_range: earliest, which counts what is lost"
}

// checksCRCs tells whether the config leaves it to the client to check them.
func (r *Reader) checksCRCs() bool {
	check, set := r.cfg.Connection.Properties.Bool("check.crcs")
	return check || !set
}

// lastOffset reads a batch's last offset from its header, where that begins at the offset or before, and looks like one.
func lastOffset(batch []byte, offset int64) (int64, bool) {
	const header = 27 // up to the end of the last offset's delta
	if len(batch) < header || batch[16] != 2 {
		return 0, false
	}
	first := int64(binary.BigEndian.Uint64(batch))
	last := first + int64(int32(binary.BigEndian.Uint32(batch[23:])))
	return last, first <= offset && last >= offset
}

// stuck are standing partitions that have not moved since the last look, as many as are looked at in one: first those that
// were not for longest. Some stand for ever, as before a stop beyond the end of the log. r.mu is held.
func (a *attempt) stuck() (out []*split) {
	for _, s := range a.standing() {
		if s.stood == s.pos.Offset && a.readTo(s) == s.pos.Offset {
			out = append(out, s)
		}
		s.stood = s.pos.Offset
	}
	slices.SortStableFunc(out, func(x, y *split) int { return cmp.Compare(x.looked, y.looked) })
	out = out[:min(len(out), standingAtATime)]
	a.looks++
	for _, s := range out {
		s.looked = a.looks
	}
	return out
}

// lookAtStanding asks for what lies in front of partitions whose position has not moved since the last look, though the
// log goes on: where the broker or the batch is the reason, the client does not say so. Only measure calls it.
func (r *Reader) lookAtStanding(a *attempt) {
	r.mu.Lock()
	var stands []*split
	var from []checkpoint.Split
	if r.att == a && !a.paused && !a.halted && !a.broken {
		stands = a.stuck()
		for _, s := range stands {
			from = append(from, s.pos)
		}
	}
	r.mu.Unlock()
	if len(stands) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(r.stopped, r.cfg.EndInterval)
	defer cancel()
	leaders, err := r.cluster().leaders(ctx, from)
	if err != nil {
		return
	}
	for i, s := range stands {
		leader, ok := leaders[from[i].Topic][from[i].Partition]
		if !ok {
			continue
		}
		p, _, err := r.askWhereRead(ctx, leader, from[i])
		if err != nil {
			continue
		}
		err = r.readable(p, from[i], !r.checksCRCs())
		r.mu.Lock()
		if r.att != a || a.halted || s.pos != from[i] || a.readTo(s) != s.pos.Offset {
			r.mu.Unlock()
			continue // it went on meanwhile
		}
		corrupt := isCorrupt(err)
		empty := err == nil && s.holdsNothing(len(p.RecordBatches) == 0)
		if corrupt {
			a.block(s, s.pos.Offset, err)
			a.interrupt()
			r.bump()
		}
		r.mu.Unlock()
		switch {
		case corrupt:
			r.meter.fetchFailed(from[i].Topic, from[i].Partition)
		case empty:
			r.warnNothing(from[i], p.HighWatermark)
		}
	}
}

// readable is nil where an answer leads beyond the position, or holds nothing.
func (r *Reader) readable(p *kmsg.FetchResponseTopicPartition, from checkpoint.Split, unchecked bool) error {
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return err
	}
	fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, Offset: from.Offset, IsolationLevel: r.isolation(), Topic: from.Topic, Partition: from.Partition,
		DisableCRCValidation: unchecked,
	}, p, r.unpack, nil)
	switch {
	case len(fp.Records) > 0 || next > from.Offset:
		return nil // the client comes that far too
	case fp.Err != nil:
		return fp.Err
	case len(p.RecordBatches) > 0:
		return errNoBatch
	}
	return nil
}

// reportWaiting says that partitions are not read on, while what was read of them is on its way.
func (r *Reader) reportWaiting(wait []*corruption) {
	for _, c := range wait {
		r.log.Warn("a batch cannot be read; what was read before it is committed first, then the stream goes back to there and tries again",
			"topic", c.split.pos.Topic, "partition", c.split.pos.Partition, "offset", c.offset, "err", c.err)
	}
}

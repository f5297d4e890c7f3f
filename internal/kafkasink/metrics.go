package kafkasink

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/txn"
)

// publishInterval is how often counts of single records are handed to the metrics.
const publishInterval = time.Second

// Metrics are what a Sink counts (rule 12).
type Metrics struct {
	// Written counts what the brokers have acknowledged, SendErrors records that could not be sent.
	Written    func(records, bytes int64)
	SendErrors func(records int64)
	// Dropped are records of an attempt that is over: its successor emits them again. Lost are those that could not be sent
	// with guarantee none.
	Dropped, Lost func(records int)
	// Committed and Aborted count transactions. Batches are those whose writers were told, which only writers that no
	// checkpoint decides about are; Abandoned counts those whose writers had gone before the outcome was known.
	Committed func(batches, records int)
	Aborted   func()
	Abandoned func(batches int)
	// Flush is how long the brokers took to acknowledge what was sent before a barrier, Commit how long a commit took, and
	// IDWait for how long no transactional id was free.
	Flush, Commit, IDWait func(time.Duration)
	// IDs is told how many transactional ids are free, where no coordinator knows it.
	IDs func(free, inUse int)
}

func (m Metrics) withDefaults() Metrics {
	counts := func(f *func(int)) {
		if *f == nil {
			*f = func(int) {}
		}
	}
	counts(&m.Dropped)
	counts(&m.Lost)
	counts(&m.Abandoned)
	for _, f := range []*func(time.Duration){&m.Flush, &m.Commit, &m.IDWait} {
		if *f == nil {
			*f = func(time.Duration) {}
		}
	}
	if m.Written == nil {
		m.Written = func(int64, int64) {}
	}
	if m.SendErrors == nil {
		m.SendErrors = func(int64) {}
	}
	if m.Committed == nil {
		m.Committed = func(int, int) {}
	}
	if m.Aborted == nil {
		m.Aborted = func() {}
	}
	if m.IDs == nil {
		m.IDs = func(int, int) {}
	}
	return m
}

// acks counts records by how they ended. Each is counted once, where its promise gives its place in the window back.
type acks struct{ records, bytes, failed atomic.Int64 }

func (a *acks) count(size int64, err error) {
	switch {
	case err == nil:
		a.records.Add(1)
		a.bytes.Add(size)
	case !errors.Is(err, kgo.ErrClientClosed): // else a consequence of a halt
		a.failed.Add(1)
	}
}

// publish hands the counts of records to the metrics until the sink is closed.
func (s *Sink) publish() {
	tick := time.NewTicker(publishInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			s.publishOnce()
		}
	}
}

// publishOnce is called by one goroutine at a time.
func (s *Sink) publishOnce() {
	now := published{s.acks.records.Load(), s.acks.bytes.Load(), s.acks.failed.Load()}
	before := s.published
	s.published = now
	s.cfg.Metrics.Written(now.records-before.records, now.bytes-before.bytes)
	s.cfg.Metrics.SendErrors(now.failed - before.failed)
	s.mu.Lock()
	w := s.groups
	s.mu.Unlock()
	if w != nil {
		s.cfg.Metrics.IDs(w.ids())
	}
}

type published struct{ records, bytes, failed int64 }

// Totals are what the brokers have acknowledged since the sink was built.
func (s *Sink) Totals() checkpoint.Totals {
	return checkpoint.Totals{Records: s.acks.records.Load(), Bytes: s.acks.bytes.Load()}
}

// About says in words what the sink promises, and under which ids.
func (s *Sink) About() string {
	text := s.cfg.Guarantee.String()
	if len(s.cfg.Topics) > 0 {
		text += " to " + strings.Join(s.cfg.Topics, ", ")
	}
	if s.cfg.Guarantee == ExactlyOnce && s.cfg.Pool.Size > 0 {
		text += fmt.Sprintf(", transactional ids %s to %s", txn.ID(s.cfg.Pool, 0), txn.ID(s.cfg.Pool, s.cfg.Pool.Size-1))
	}
	return text
}

// ids tells how many transactional ids are free, and how many are not.
func (w *groups) ids() (free, inUse int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.free), w.pool - len(w.free)
}

// committed counts a group that has committed, of which so many writers are told. What it holds of other batches is there
// too, although their writers have gone; a batch whose writer had gone before its records were sent is not in it.
func (g *group) committed(m Metrics) func(told int) {
	return func(told int) {
		if g.records == 0 {
			return // nothing was sent at all
		}
		held := 0
		for _, e := range g.entries {
			if e.produced {
				held++
			}
		}
		m.Committed(told, int(g.records))
		m.Abandoned(held - told)
	}
}

package kafkasource

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// AwaitReady waits until the source is ready: an attempt runs, and brokers answer. Between two attempts, and while no broker
// has answered for a while, it is not; it goes on by itself all the same. A source that has ended is ready to say so.
func (r *Reader) AwaitReady(ctx context.Context) error {
	if err := r.await(ctx, r.ready); err != nil {
		return err
	}
	r.mu.Unlock()
	return nil
}

// ready is what AwaitReady waits for. r.mu is held.
func (r *Reader) ready() bool {
	return r.finished || r.closing || !r.silent && r.att != nil && !r.att.halted && !r.att.broken
}

// setSilent notes whether no broker has answered for a while.
func (r *Reader) setSilent(silent bool) {
	r.mu.Lock()
	was := r.silent
	r.silent = silent
	if silent != was {
		if silent && r.att != nil {
			r.att.interrupt() // Race: a poll under way would find out only when something comes.
		}
		r.bump()
	}
	r.mu.Unlock()
	switch {
	case silent && !was:
		r.log.Warn("no broker has answered for a while; the source is not ready until one does", "for", r.cfg.LostAfter)
	case was && !silent:
		r.log.Info("a broker answers again")
	}
}

// ear notes when a broker has answered last, whatever it was asked, and whoever of the source's clients has asked.
type ear struct {
	born time.Time
	last atomic.Int64 // since born, in ns
}

var _ kgo.HookBrokerRead = (*ear)(nil)

// OnBrokerRead is called by the clients.
func (e *ear) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	switch kmsg.Key(key) {
	case kmsg.ApiVersions, kmsg.SASLHandshake, kmsg.SASLAuthenticate:
		return // a broker that lets nobody in says that much
	}
	if err == nil {
		e.last.Store(int64(time.Since(e.born)))
	}
}

// silence is for how long none has answered.
func (e *ear) silence() time.Duration { return time.Since(e.born) - time.Duration(e.last.Load()) }

// About says in words what the source reads and from where, once that is resolved.
func (r *Reader) About() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.about
}

// describe notes it.
func (r *Reader) describe(partitions int, from string, endsKept bool) {
	of := strings.Join(r.cfg.Subscription.Names(), ", ")
	if p := r.cfg.Subscription.Pattern; p != nil {
		of = "topics like " + p.String()
	}
	text := fmt.Sprintf("%d partitions of %s", partitions, of)
	if from != "" {
		text += " (" + from + ")"
	}
	if r.cfg.ReadCommitted {
		text += ", read_committed"
	}
	if r.cfg.Stop.Bounded() {
		text += ", until " + string(r.cfg.Stop.Mode)
		if endsKept {
			text += " as the first start resolved it"
		}
	}
	if r.cfg.Group != "" {
		text += ", group " + r.cfg.Group
	}
	r.log.Debug("positions resolved", "partitions", partitions, "from", from)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.about = text
}

// describeSolo adds where exactly a source without checkpoints begins, which nothing else keeps, and what it commits.
func (r *Reader) describeSolo(state checkpoint.SourceState, interval time.Duration) {
	commits := "nothing is committed"
	if interval > 0 {
		commits = fmt.Sprintf("committed every %v", interval)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.about += fmt.Sprintf(", from %s; %s", describe(state), commits)
}

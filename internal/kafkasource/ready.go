package kafkasource

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// Ready tells whether an attempt runs and brokers answer, and gives a context that ends when that changes. Between
// two attempts, and while no broker has answered for a while, the source is not ready; it goes on by itself all the same.
func (r *Reader) Ready() (ready bool, turned context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn()
	return r.ready, r.turned
}

// turn notes whether the source is ready. r.mu is held.
func (r *Reader) turn() {
	ready := !r.silent && r.att != nil && !r.att.halted && !r.att.broken
	if ready != r.ready {
		r.ready = ready
		r.endTurn()
		r.turned, r.endTurn = context.WithCancel(context.Background())
	}
}

// setLost notes whether no broker has answered for a while.
func (r *Reader) setLost(lost bool) {
	r.mu.Lock()
	was := r.silent
	if lost != was && !r.closing {
		r.silent = lost
		r.turn()
	}
	r.mu.Unlock()
	switch {
	case lost && !was:
		r.log.Warn("no broker has answered for a while; the source is not ready until one does", "for", r.cfg.LostAfter)
	case was && !lost:
		r.log.Info("a broker answers again")
	}
}

// About says in words what the source reads and from where, once that is resolved.
func (r *Reader) About() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.about
}

// describe notes it.
func (r *Reader) describe(partitions int, from string) {
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
	r.about += fmt.Sprintf(", at %s; %s", describe(state), commits)
}

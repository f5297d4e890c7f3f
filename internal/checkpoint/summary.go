package checkpoint

import (
	"fmt"
	"maps"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/repeats"
)

// What a stream says of itself when all is well: one line at the start, one in a minute.

// minute is how often a stream says how it fares.
const minute = time.Minute

// Totals are what a component has read or written since it was built.
type Totals struct {
	Records, Bytes int64
	// Lag is how many offsets a source is behind, and Partitions how many partitions it reads.
	Lag        int64
	Partitions int
}

// pulse remembers what the line before has said.
type pulse struct {
	records map[*Seat]int64
	at      time.Time
}

func newPulse() *pulse { return &pulse{records: map[*Seat]int64{}, at: time.Now()} }

// attrs are what has happened since the line before, and where the components are.
func (p *pulse) attrs(seats []*Seat) []any {
	var in, out, lag int64
	partitions, sources := 0, 0
	now := time.Now()
	for _, s := range seats {
		t, ok := s.totals()
		if !ok {
			continue
		}
		n := t.Records - p.records[s]
		p.records[s] = t.Records
		if s.source != nil {
			sources++
			in, lag, partitions = in+n, lag+t.Lag, partitions+t.Partitions
		} else {
			out += n
		}
	}
	maps.DeleteFunc(p.records, func(s *Seat, _ int64) bool { return !slices.Contains(seats, s) })
	seconds := max(now.Sub(p.at).Seconds(), 0.001)
	p.at = now
	var attrs []any
	if sources > 0 {
		attrs = append(attrs, "records_in", in, "records_in_per_s", int64(float64(in)/seconds))
	}
	attrs = append(attrs, "records_out", out, "records_out_per_s", int64(float64(out)/seconds))
	if sources > 0 {
		attrs = append(attrs, "lag", lag, "partitions", partitions)
	}
	return append(attrs, "memory_mb", memoryMB())
}

// memoryMB is what the Go runtime has of the system's memory.
func memoryMB() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return (s[0].Value.Uint64() - s[1].Value.Uint64()) >> 20
}

func (s *Seat) totals() (Totals, bool) {
	switch {
	case s.source != nil && s.source.Totals != nil:
		return s.source.Totals(), true
	case s.sink != nil && s.sink.Totals != nil:
		return s.sink.Totals(), true
	}
	return Totals{}, false
}

func (s *Seat) about() string {
	switch {
	case s.source != nil && s.source.About != nil:
		return s.key + ": " + s.source.About()
	case s.sink != nil && s.sink.About != nil:
		return s.key + ": " + s.sink.About()
	}
	return s.key
}

// introduce are the attributes of the line at the start that every stream has.
func (s *Stream) introduce(seats []*Seat) []any {
	var inputs, outputs []string
	for _, seat := range seats {
		if seat.source != nil {
			inputs = append(inputs, seat.about())
		} else {
			outputs = append(outputs, seat.about())
		}
	}
	attrs := []any{"version", s.opts.Version}
	if s.opts.ID != "" {
		attrs = append(attrs, "stream", s.opts.ID)
	}
	if len(inputs) > 0 {
		attrs = append(attrs, "inputs", strings.Join(inputs, "; "))
	}
	if len(outputs) > 0 {
		attrs = append(attrs, "outputs", strings.Join(outputs, "; "))
	}
	return attrs
}

// say logs a line that comes on purpose.
func (s *Stream) say(text string, attrs ...any) {
	s.opts.Logger.InfoContext(repeats.Always(s.ctx), text, attrs...)
}

// announce says at the first attempt, in one line, what runs and from where, and at later ones that it runs again.
func (r *run) announce(attempt uint64) {
	if r.announced != nil {
		r.stream.opts.Logger.Info("running again after a restart from the last checkpoint", "attempt", attempt)
		return
	}
	seats := r.seats()
	r.announced = map[*Seat]bool{}
	for _, s := range seats {
		r.announced[s] = true
	}
	attrs := append(r.stream.introduce(seats), "store", r.store.Describe(), "restored", restored(r.restored),
		"interval", r.cfg.Interval.String(), "mode", mode(&r.cfg), "attempt", attempt)
	r.stream.say("sources and sinks are running", attrs...)
	r.warnOfWeakSinks(seats)
}

// announceLate says that a source has joined a stream that runs, as the children of a sequence do.
func (r *run) announceLate(seat *Seat) {
	if r.announced == nil || r.announced[seat] {
		return
	}
	r.announced[seat] = true
	r.stream.say("another input is running", "input", seat.about())
}

// warnOfWeakSinks says what checkpoints that are exactly-once promise behind a sink that is not.
func (r *run) warnOfWeakSinks(seats []*Seat) {
	if r.cfg.AtLeastOnce {
		return
	}
	for _, s := range seats {
		if s.sink == nil || s.sink.Pool.Size > 0 || s.sink.Guarantee == "" {
			continue
		}
		promise := "after a crash or a restart, what came since the last checkpoint is there twice"
		if s.sink.Guarantee == "none" {
			promise = "what is on its way in a crash is lost, and what came since the last checkpoint may be there twice"
		}
		r.stream.opts.Logger.Warn("checkpoint.mode is exactly-once, and an output is not: "+promise+"; set its "+
			"delivery_guarantee: exactly-once, or checkpoint.mode: at-least-once where that is meant",
			"sink", s.key, "delivery_guarantee", s.sink.Guarantee)
	}
}

// restored says what a run has begun with.
func restored(newest *Record) string {
	if newest == nil {
		return "nothing"
	}
	text := fmt.Sprintf("checkpoint %d (record %d)", newest.LastCheckpoint, newest.Number)
	if n := len(newest.Entries); n > 0 {
		text += fmt.Sprintf(", with %d that an earlier process had not committed", n)
	}
	return text
}

// minute says how a stream with checkpoints fares.
func (r *run) minute() {
	g := &r.gauges
	attrs := append(r.pulse.attrs(r.seats()), "checkpoint", g.last,
		"checkpoint_age", time.Since(g.settled).Round(time.Millisecond).String(),
		"checkpoint_duration", g.duration.Round(time.Millisecond).String(),
		"failovers", g.failovers, "attempt", r.m.attempt)
	r.stream.say("status", attrs...)
}

// watcher is what a stream without checkpoints has in place of a run: it says how the stream fares.
type watcher struct {
	stop chan struct{}
	wg   sync.WaitGroup
}

// Begun tells that a component of a stream without checkpoints is at work: such a one has nobody that tells it to begin.
// When the whole build has begun the log says so.
func (s *Seat) Begun() {
	st := s.stream
	st.mu.Lock()
	defer st.mu.Unlock()
	if s.begun || s.left || s.checkpointing() != nil {
		return
	}
	s.begun = true
	st.watched = append(st.watched, s)
	if slices.ContainsFunc(s.build.seats, func(o *Seat) bool { return !o.begun }) {
		return
	}
	st.say("sources and sinks are running without checkpoints", st.introduce(s.build.seats)...)
	if st.watcher == nil {
		st.watcher = &watcher{stop: make(chan struct{})}
		st.watcher.watch(st)
	}
}

func (w *watcher) watch(s *Stream) {
	p := newPulse()
	w.wg.Go(func() {
		tick := time.NewTicker(minute)
		defer tick.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-tick.C:
				s.mu.Lock()
				seats := slices.Clone(s.watched)
				s.mu.Unlock()
				s.say("status", p.attrs(seats)...)
			}
		}
	})
}

// unwatch takes a component away that leaves, and returns the watcher if it has nothing to watch any more: it is to be
// ended without the lock. s.mu is held.
func (s *Stream) unwatch(seat *Seat) *watcher {
	s.watched = slices.DeleteFunc(s.watched, func(o *Seat) bool { return o == seat })
	if len(s.watched) > 0 {
		return nil
	}
	w := s.watcher
	s.watcher = nil
	return w
}

func (w *watcher) end() {
	close(w.stop)
	w.wg.Wait()
}

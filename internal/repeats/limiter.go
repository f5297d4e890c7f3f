package repeats

import (
	"context"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"
)

const (
	// firstSilence is how long a line is not said again. Each time it was said again the silence doubles, up to
	// longestSilence: what goes on for an hour needs no more lines than what went on for ten minutes.
	firstSilence   = 30 * time.Second
	longestSilence = 5 * time.Minute
	// maxKinds bounds the memory: beyond it the Limiter forgets, and a repeat may be said early.
	maxKinds = 256
)

// HeldBack is the key of the number of repeats that were not logged since the line was logged before.
const HeldBack = "repeats_not_logged"

// Limiter holds repeats back. Handlers that share one take the same line from several components for one.
type Limiter struct {
	now func() time.Time

	mu    sync.Mutex
	kinds map[string]*kind
}

// kind is what is known of lines that say the same.
type kind struct {
	said, seen time.Time
	silence    time.Duration
	held       int
}

// NewLimiter returns a Limiter that has heard nothing yet.
func NewLimiter() *Limiter { return &Limiter{now: time.Now, kinds: map[string]*kind{}} }

type alwaysKey struct{}

// Always returns a context for lines that are never held back: losses, of which each has an extent of its own, and lines
// that come on purpose.
func Always(ctx context.Context) context.Context { return context.WithValue(ctx, alwaysKey{}, true) }

// Handler returns a handler in front of next. Lines below Info pass: who asks for them wants all.
func (l *Limiter) Handler(next slog.Handler) slog.Handler { return &handler{limiter: l, next: next} }

// due tells whether a line is to be logged now, and how many of its kind were held back since the last one.
func (l *Limiter) due(key string) (held int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	k := l.kinds[key]
	if k == nil || now.Sub(k.seen) > longestSilence {
		if k == nil && len(l.kinds) >= maxKinds {
			clear(l.kinds)
		}
		l.kinds[key] = &kind{said: now, seen: now, silence: firstSilence}
		return 0, true
	}
	k.seen = now
	if now.Sub(k.said) < k.silence {
		k.held++
		return 0, false
	}
	held = k.held
	k.said, k.held, k.silence = now, 0, min(2*k.silence, longestSilence)
	return held, true
}

type handler struct {
	limiter *Limiter
	next    slog.Handler
	// bound are the attributes that every line of this handler has, as a part of its key.
	bound string
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelInfo || ctx.Value(alwaysKey{}) != nil {
		return h.next.Handle(ctx, r)
	}
	key := strings.Builder{}
	key.WriteString(r.Level.String())
	key.WriteString(h.bound)
	key.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		writeKey(&key, a)
		return true
	})
	held, ok := h.limiter.due(key.String())
	if !ok {
		return nil
	}
	if held > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int(HeldBack, held))
	}
	return h.next.Handle(ctx, r)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	key := strings.Builder{}
	key.WriteString(h.bound)
	for _, a := range attrs {
		writeKey(&key, a)
	}
	return &handler{limiter: h.limiter, next: h.next.WithAttrs(attrs), bound: key.String()}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{limiter: h.limiter, next: h.next.WithGroup(name), bound: h.bound + "|" + name}
}

// digits differ from one repeat to the next: offsets, counts, epochs, the port that a connection was opened from.
var digits = regexp.MustCompile(`[0-9]+`)

// writeKey adds to a key what tells lines of one message apart: whom they are about, and the words of their other
// values. Numbers and times tell how often or how much, and not what.
func writeKey(key *strings.Builder, a slog.Attr) {
	value := a.Value.Resolve()
	switch a.Key {
	case "topic", "partition", "addr", "broker", "transactional_id":
		key.WriteString("|" + a.Key + "=" + value.String())
		return
	}
	switch value.Kind() {
	case slog.KindInt64, slog.KindUint64, slog.KindFloat64, slog.KindDuration, slog.KindTime:
		return
	}
	key.WriteString("|" + a.Key + "=" + digits.ReplaceAllString(value.String(), "#"))
}

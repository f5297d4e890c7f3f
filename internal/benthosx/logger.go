package benthosx

import (
	"context"
	"log/slog"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/repeats"
)

// limiterKey is the key of what holds a stream's repeated lines back, among the generics.
type limiterKey struct{ streamID string }

// Logger returns the component's Benthos logger as a slog.Logger. Levels are Benthos's to filter. What the components of
// one stream say again and again, such as that a broker is away, is held back for all of them together.
func Logger(res *service.Resources) *slog.Logger {
	limiter, _ := res.GetOrSetGeneric(limiterKey{res.StreamID()}, repeats.NewLimiter())
	return slog.New(limiter.(*repeats.Limiter).Handler(&logHandler{to: res.Logger()}))
}

type logHandler struct {
	to    *service.Logger
	group string
}

func (h *logHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	to := h.to
	if r.NumAttrs() > 0 {
		kv := make([]any, 0, 2*r.NumAttrs())
		r.Attrs(func(a slog.Attr) bool {
			kv = append(kv, h.group+a.Key, a.Value.Resolve().String())
			return true
		})
		to = to.With(kv...)
	}
	switch {
	case r.Level >= slog.LevelError:
		to.Error(r.Message)
	case r.Level >= slog.LevelWarn:
		to.Warn(r.Message)
	case r.Level >= slog.LevelInfo:
		to.Info(r.Message)
	default:
		to.Debug(r.Message)
	}
	return nil
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	kv := make([]any, 0, 2*len(attrs))
	for _, a := range attrs {
		kv = append(kv, h.group+a.Key, a.Value.Resolve().String())
	}
	return &logHandler{to: h.to.With(kv...), group: h.group}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &logHandler{to: h.to, group: h.group + name + "."}
}

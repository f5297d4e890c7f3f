package kafkaclient

import (
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Logger carries the client's log lines to slog. The client's own "info" is what other programs call debug, so it goes
// one level down. A client says the same several times a second while a broker is away; who makes the slog.Logger holds
// that back (internal/repeats), for all clients of a stream together.
type Logger struct{ log *slog.Logger }

// NewLogger returns a client logger on top of log; a nil log drops everything.
func NewLogger(log *slog.Logger) *Logger {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Logger{log: log}
}

// Level is how much the client needs to format. Its own "debug" is a line for every request and is never asked for.
func (l *Logger) Level() kgo.LogLevel {
	ctx := context.Background()
	switch {
	case l.log.Enabled(ctx, slog.LevelDebug):
		return kgo.LogLevelInfo
	case l.log.Enabled(ctx, slog.LevelWarn):
		return kgo.LogLevelWarn
	case l.log.Enabled(ctx, slog.LevelError):
		return kgo.LogLevelError
	}
	return kgo.LogLevelNone
}

// Log logs one line of the client.
func (l *Logger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	var to slog.Level
	switch level {
	case kgo.LogLevelError:
		to = slog.LevelError
	case kgo.LogLevelWarn:
		to = slog.LevelWarn
	default:
		to = slog.LevelDebug
	}
	l.log.Log(context.Background(), to, "kafka client: "+msg, keyvals...)
}

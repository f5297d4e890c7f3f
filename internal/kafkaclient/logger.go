package kafkaclient

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// repeatInterval is how long one warning or error of the client stays silent after it was logged.
	repeatInterval = 30 * time.Second
	// maxRepeatKeys bounds the memory of the limiter; beyond it the limiter forgets and a repeat may be logged early.
	maxRepeatKeys = 256
)

// Logger carries the client's log lines to slog. The client's own "info" is what other programs call debug, so it goes
// one level down. Of warnings and errors that repeat (a broker that is away is dialled several times a second) one in
// 30 seconds is logged, with the number of those left out.
type Logger struct {
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex
	seen map[string]*repeat
}

type repeat struct {
	logged  time.Time
	skipped int
}

// NewLogger returns a client logger on top of log; a nil log drops everything.
func NewLogger(log *slog.Logger) *Logger {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Logger{log: log, now: time.Now, seen: make(map[string]*repeat)}
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
	if to >= slog.LevelWarn {
		skipped, ok := l.due(repeatKey(msg, keyvals))
		if !ok {
			return
		}
		if skipped > 0 {
			keyvals = append(keyvals[:len(keyvals):len(keyvals)], "repeats_not_logged", skipped)
		}
	}
	l.log.Log(context.Background(), to, "kafka client: "+msg, keyvals...)
}

// due tells whether a line is to be logged now, and how many of its kind were left out since the last one.
func (l *Logger) due(key string) (skipped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	r := l.seen[key]
	if r == nil {
		if len(l.seen) >= maxRepeatKeys {
			clear(l.seen)
		}
		l.seen[key] = &repeat{logged: now}
		return 0, true
	}
	if now.Sub(r.logged) < repeatInterval {
		r.skipped++
		return 0, false
	}
	skipped, r.logged, r.skipped = r.skipped, now, 0
	return skipped, true
}

// localAddress is the client's side of a connection in a network error: its port differs every time.
var localAddress = regexp.MustCompile(`\S+:\d+->`)

// repeatKey is what makes two lines the same: the message, whom it is about, and the error without the client's port.
func repeatKey(msg string, keyvals []any) string {
	key := msg
	for i := 0; i+1 < len(keyvals); i += 2 {
		switch keyvals[i] {
		case "addr", "broker", "topic", "partition", "err":
			key += "|" + localAddress.ReplaceAllString(fmt.Sprint(keyvals[i+1]), "")
		}
	}
	return key
}

package crash

import (
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/child"
)

// launch is the start of one process.
type launch struct {
	p    *child.Process
	log  string
	from int
	once sync.Once
}

// await waits until Benthos has made its streams, or the process has ended. Before that it adds paths to the router of its
// HTTP API while it serves them, without a lock, so whoever asks then makes a race-built process report it.
func (l *launch) await() {
	l.once.Do(func() {
		timeUp := time.After(stallLimit)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			said, err := os.ReadFile(l.log)
			if err == nil && len(said) > l.from && strings.Contains(string(said[l.from:]), "in streams mode, use CTRL+C to close") {
				return
			}
			select {
			case <-tick.C:
			case <-l.p.Done():
				return
			case <-timeUp:
				return // what is asked for says what is the matter
			}
		}
	})
}

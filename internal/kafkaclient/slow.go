package kafkaclient

import (
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	// slowAfter is how long a request may take in silence: longer, and people look at the log.
	slowAfter = 3 * time.Second
	// slowAgain is when it is said again.
	slowAgain = 30 * time.Second
)

// Slow says in the log what is being waited for, and of whom, where a request takes long. A broker that is frozen, or
// behind a firewall that swallows packets, gives no error for many seconds. done ends it.
func Slow(log *slog.Logger, bootstrap []string, what string) (done func()) {
	ended := make(chan struct{})
	var wg sync.WaitGroup
	began := time.Now()
	wg.Go(func() {
		t := time.NewTimer(slowAfter)
		defer t.Stop()
		for {
			select {
			case <-ended:
				return
			case <-t.C:
			}
			log.Warn("Kafka has not answered yet, still waiting: the broker is overloaded or frozen, or something on the way "+
				"swallows packets", "waiting_for", what, "for", time.Since(began).Round(time.Second),
				"bootstrap_servers", strings.Join(bootstrap, ","))
			t.Reset(slowAgain)
		}
	})
	return func() {
		close(ended)
		wg.Wait()
	}
}

package cache

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/redpanda-data/benthos/v4/public/service"
)

const (
	// slowAfter is how long something may take before it is logged, and slowAgain how long until the next time.
	slowAfter = 5 * time.Second
	slowAgain = time.Minute
	// littleSpace is how much space there has to be for it not to be logged: several times what Pebble sets aside for a log.
	littleSpace = 64 << 20
	// measureAgain is how long a measurement of the space counts, warnAgain how often it is logged that there is little.
	measureAgain = 10 * time.Second
	warnAgain    = 10 * time.Minute
)

// The metrics of a cache on a disk.
const (
	// metricSlow counts operations that took longer than slowAfter.
	metricSlow = "state_store_slow"
	// metricErrors counts records that were not written, or of which that is not known, and Pebble's background writes
	// that failed.
	metricErrors = "state_store_errors"
	// metricFree is the space on the disk, in bytes, as of the last record.
	metricFree = "state_store_free_bytes"
)

// health says how the disk of a cache does. A nil one says nothing.
type health struct {
	log  *slog.Logger
	path string

	slow, errors *service.MetricCounter
	free         *service.MetricGauge

	mu               sync.Mutex
	measured, warned time.Time
}

func newHealth(path string, log *slog.Logger, metrics *service.Metrics) *health {
	return &health{
		log: log, path: path,
		slow: metrics.NewCounter(metricSlow), errors: metrics.NewCounter(metricErrors), free: metrics.NewGauge(metricFree),
	}
}

func (h *health) failed() {
	if h != nil {
		h.errors.Incr(1)
	}
}

// watch says it when something takes long, while it does: what hangs would else never be heard of. The function that it
// returns ends the watch.
func (h *health) watch(doing string) (done func()) {
	if h == nil {
		return func() {}
	}
	var mu sync.Mutex
	var timer *time.Timer
	began, over, said := time.Now(), false, false
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(slowAfter, func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		if !said {
			h.slow.Incr(1)
		}
		said = true
		h.log.Warn(doing+" takes long: the disk is slow, or hangs; or the process was suspended", "path", h.path,
			"so_far", time.Since(began).Round(time.Second).String())
		timer.Reset(slowAgain)
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		timer.Stop()
		if said {
			h.log.Info(doing+" has ended after all", "path", h.path, "took", time.Since(began).Round(time.Millisecond).String())
		}
	}
}

// measure looks how much space there is, now and then.
func (h *health) measure(fsys vfs.FS) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if now.Sub(h.measured) < measureAgain {
		return
	}
	h.measured = now
	usage, err := fsys.GetDiskUsage(h.path)
	if err != nil {
		return // what that means for the records, their writing tells
	}
	h.free.Set(int64(min(usage.AvailBytes, 1<<62)))
	if usage.AvailBytes < littleSpace && now.Sub(h.warned) >= warnAgain {
		h.warned = now
		h.log.Warn("there is little space left for the state: without any the job ends, and goes on once there is some",
			"path", h.path, "free", fmt.Sprintf("%d KiB", usage.AvailBytes>>10))
	}
}

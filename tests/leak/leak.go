package leak

import (
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

const (
	// warmUp is the part of the times after which is counted first.
	warmUp = 10
	// slack is by how much a count may differ that does not grow.
	slack = 6
)

// patience is how long what ends in the background may take.
var patience = 20 * time.Second

// Repeat does something so many times, and fails the test where it leaves goroutines or open files behind.
func Repeat(t testing.TB, times int, once func(i int)) {
	t.Helper()
	before := counts{}
	for i := range times {
		once(i)
		if i == times/warmUp {
			before = settled(func(counts) bool { return false }, time.Second)
		}
	}
	after := settled(func(c counts) bool { return c.goroutines <= before.goroutines+slack && c.files <= before.files+slack }, patience)
	if after.goroutines > before.goroutines+slack {
		var stacks strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		t.Errorf("after %d times there are %d goroutines, and after %d there were %d:\n%s", times, after.goroutines, times/warmUp, before.goroutines, &stacks)
	}
	if after.files > before.files+slack {
		t.Errorf("after %d times %d files are open, and after %d there were %d", times, after.files, times/warmUp, before.files)
	}
}

// counts are what a process holds; files is 0 where the system does not tell.
type counts struct{ goroutines, files int }

// settled counts until done says so or the time is up, and returns the least of each.
func settled(done func(counts) bool, limit time.Duration) counts {
	over := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	least := count()
	for !done(least) {
		select {
		case <-over:
			return least
		case <-tick.C:
		}
		now := count()
		least = counts{min(least.goroutines, now.goroutines), min(least.files, now.files)}
	}
	return least
}

func count() counts {
	c := counts{goroutines: runtime.NumGoroutine()}
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		c.files = len(entries)
	}
	return c
}

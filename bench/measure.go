package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidegate/tidegate/internal/child"
)

// lookEvery is how often a run is looked at: at its process's memory, and at the end of its topic. It is the error of
// the time.
const lookEvery = 20 * time.Millisecond

// result is one run.
type result struct {
	system  string
	records int64
	// took is from the first record in the copy to the last one that readers see.
	took time.Duration
	// cpu is user and system time of the process, from its start to its end.
	cpu time.Duration
	// brokerCPU is what the broker took meanwhile.
	brokerCPU time.Duration
	// rss is the most memory that it had at a time, in bytes.
	rss int64
}

func (r result) rate() float64 { return float64(r.records) / r.took.Seconds() }

// perMillion is CPU time for a million records, in seconds.
func (r result) perMillion(cpu time.Duration) float64 {
	return cpu.Seconds() / float64(r.records) * 1e6
}

func (r result) String() string {
	return fmt.Sprintf("%6.0f k rec/s  %5.2f CPU-s/M  %5.2f of the broker  %4d MB", r.rate()/1e3, r.perMillion(r.cpu),
		r.perMillion(r.brokerCPU), r.rss>>20)
}

// warmUps is how often every system runs before the runs that count. A broker compiles what it runs while it runs: for its
// first ten million records it takes twice the CPU that it takes later, and each system makes it run other code.
const warmUps = 2

// measureAll runs every system, after runs that make the broker warm and do not count.
func (b *bench) measureAll(ctx context.Context) ([]result, error) {
	names := strings.Split(b.systems, ",")
	warm := slices.Repeat(slices.Compact(slices.Sorted(slices.Values(names))), warmUps)
	var results []result
	for i, name := range append(warm, slices.Repeat(names, b.rounds)...) {
		counts := i >= len(warm)
		r, err := b.measure(ctx, name, i, counts && b.profiles != "")
		if err != nil {
			return nil, fmt.Errorf("measuring %s: %w", name, err)
		}
		if counts {
			fmt.Printf("  %-15s %s\n", name, r)
			results = append(results, r)
		}
	}
	return results, nil
}

// measure runs one system to its end and looks at what it has written.
func (b *bench) measure(ctx context.Context, system string, run int, profiled bool) (result, error) {
	r := result{system: system, records: b.records}
	topic := fmt.Sprintf("bench-%d-%s", run, system)
	dir := filepath.Join(b.dir, topic)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return r, fmt.Errorf("making its folder: %w", err)
	}
	if err := b.create(ctx, topic); err != nil {
		return r, err
	}
	cmd, err := b.command(system, topic, dir)
	if err != nil {
		return r, err
	}
	logFile := filepath.Join(dir, "log")
	before := cpuTime(b.broker)
	process, err := child.Start(cmd, logFile)
	if err != nil {
		return r, err
	}
	defer process.Kill()
	if system != floor && profiled {
		done := make(chan error, 1)
		go func() { done <- profile(ctx, b.profiles, system) }()
		defer func() {
			if err := <-done; err != nil {
				fmt.Fprintln(os.Stderr, "profiling:", err)
			}
		}()
	}
	if err := b.watch(ctx, topic, cmd.Process.Pid, process, &r); err != nil {
		return r, err
	}
	if err := process.Err(); err != nil {
		return r, fmt.Errorf("it ended with %w%s", err, child.Tail(logFile, 20))
	}
	r.brokerCPU = cpuTime(b.broker) - before
	r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if err := b.verify(ctx, topic); err != nil {
		return r, err
	}
	_, err = b.admin.DeleteTopic(ctx, topic)
	return r, err
}

// watch looks at a run from outside, the same way for each system, until its process has ended and readers see all that
// it wrote: the markers of a transaction come a moment after the answer to its commit.
func (b *bench) watch(ctx context.Context, topic string, pid int, process *child.Process, r *result) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var first, last time.Time
	visible := int64(0)
	for {
		ended := process.Ended()
		r.rss = max(r.rss, highWater(pid))
		written, err := total(b.admin.ListEndOffsets(ctx, topic))
		if err != nil {
			return err
		}
		if written > 0 && first.IsZero() {
			first = time.Now()
		}
		seen, err := total(b.admin.ListCommittedOffsets(ctx, topic))
		if err != nil {
			return err
		}
		if seen > visible {
			visible, last = seen, time.Now()
		}
		if ended && (seen == written || process.Err() != nil) {
			r.took = last.Sub(first)
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// total adds up the offsets of a topic's partitions.
func total(offsets kadm.ListedOffsets, err error) (int64, error) {
	if err == nil {
		err = offsets.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("looking up the end of the copy: %w", err)
	}
	n := int64(0)
	offsets.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n, nil
}

// highWater is the most memory that a process has had so far, 0 where the system does not say. What wait(2) tells is of
// no use: it holds the memory of the parent that the process was forked from.
func highWater(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err == nil {
				return kb << 10
			}
		}
	}
	return 0
}

// clockTicks is how many units of CPU time in /proc a second has: USER_HZ is 100 on every Linux that Go runs on.
const clockTicks = 100

// cpuTime is the user and system time that a process has taken so far, 0 where the system does not say.
func cpuTime(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, second and in brackets, may have blanks in it. After it utime and stime are the 12th and 13th field.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	ticks := int64(0)
	for _, i := range []int{11, 12} {
		if i < len(fields) {
			n, _ := strconv.ParseInt(fields[i], 10, 64)
			ticks += n
		}
	}
	return time.Duration(ticks * int64(time.Second) / clockTicks)
}

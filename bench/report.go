package main

import (
	"fmt"
	"strings"
)

// The aims, for 4 M records or more and a checkpoint each second.
const (
	aimRatio = 0.55      // of the floor's records a second, exactly-once
	aimRSS   = 200 << 20 // bytes at most
)

// report makes the table of all runs, and tells whether an aim was missed. Ratios are to the mean of the floors.
func report(results []result) (table string, missed bool) {
	var rates []float64
	for _, r := range results {
		if r.system == floor {
			rates = append(rates, r.rate())
		}
	}
	base := mean(rates)
	var out strings.Builder
	out.WriteString("| system | rec/s | of the floor | CPU-s per million | of the broker | peak RSS |\n|---|---|---|---|---|---|\n")
	for _, r := range results {
		ratio := "-"
		if base > 0 {
			ratio = fmt.Sprintf("%.2f", r.rate()/base)
		}
		broker := "-" // where the system does not tell
		if r.brokerCPU > 0 {
			broker = fmt.Sprintf("%.2f", r.perMillion(r.brokerCPU))
		}
		fmt.Fprintf(&out, "| %s | %.0f k | %s | %.2f | %s | %d MB |\n", r.system, r.rate()/1e3, ratio, r.perMillion(r.cpu),
			broker, r.rss>>20)
	}
	out.WriteString("\n")
	if len(rates) > 1 {
		fmt.Fprintf(&out, "noise: the floors differ by %.0f %% of their mean\n", spread(rates)/base*100)
	}
	say := func(met bool, format string, args ...any) {
		word := "met   "
		if !met {
			word, missed = "MISSED", true
		}
		fmt.Fprintf(&out, "%s  %s\n", word, fmt.Sprintf(format, args...))
	}
	for _, r := range results {
		if r.system == exactlyOnce && base > 0 {
			say(r.rate() >= aimRatio*base, "exactly-once at %.3f of the floor; aim: at least %.2f", r.rate()/base, aimRatio)
		}
		if r.system != floor {
			say(r.rss > 0 && r.rss <= aimRSS, "%s with %d MB at its peak; aim: at most %d MB", r.system, r.rss>>20, aimRSS>>20)
		}
	}
	return out.String(), missed
}

func mean(of []float64) float64 {
	sum := 0.0
	for _, v := range of {
		sum += v
	}
	return sum / max(1, float64(len(of)))
}

func spread(of []float64) float64 {
	low, high := of[0], of[0]
	for _, v := range of {
		low, high = min(low, v), max(high, v)
	}
	return high - low
}

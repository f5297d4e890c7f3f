package kafkasink

import "time"

// lingerShare is the part of the commit interval after which a transaction that gets nothing more is complete.
const lingerShare = 100

// gather decides when the transaction that takes writes is complete: a state machine without clock, goroutine or I/O.
//
// Senders that wait for their answers before they send more (HTTP clients) come in as many as there are, and then there
// is silence: making them wait for the whole interval would serve nobody. Senders that do not wait go on coming, and
// fill the transaction until every writer waits. So a transaction is complete when
//
//   - every writer waits, for this transaction or for the one before it: no more can come,
//   - nothing has come for a hundredth of the interval: those who would come have come,
//   - the interval is over since the first write, or
//   - it holds so much that memory counts.
type gather struct {
	writers          int
	interval, linger time.Duration
	maxRecords       int
	maxBytes         int64

	// waiting is how many writers have no answer yet, of whichever transaction.
	waiting int

	// What is gathered, since the last take.
	batches, records int
	bytes            int64
	first, last      time.Time
	complete         bool
}

func newGather(cfg Config) gather {
	return gather{
		writers: cfg.Writers, interval: cfg.CommitInterval, linger: cfg.CommitInterval / lingerShare,
		maxRecords: cfg.MaxBufferedRecords, maxBytes: cfg.MaxBufferedBytes,
	}
}

// join takes a write. It returns whether somebody who sleeps by due has to look again.
func (g *gather) join(now time.Time, records int, bytes int64) (look bool) {
	g.waiting++
	if g.batches == 0 {
		g.first, look = now, true
	}
	g.last = now
	g.batches++
	g.records += records
	g.bytes += bytes
	if g.waiting >= g.writers || g.records >= g.maxRecords || g.bytes >= g.maxBytes {
		look = look || !g.complete
		g.complete = true
	}
	return look
}

// answered takes that a writer waits no more.
func (g *gather) answered() { g.waiting-- }

// due returns how long the transaction is to take writes yet: not at all when it is complete, and -1 while it is empty.
func (g *gather) due(now time.Time) time.Duration {
	switch {
	case g.batches == 0:
		return -1
	case g.complete:
		return 0
	}
	return max(0, min(g.last.Add(g.linger).Sub(now), g.first.Add(g.interval).Sub(now)))
}

// take begins the next transaction.
func (g *gather) take() {
	g.batches, g.records, g.bytes, g.complete = 0, 0, 0, false
}

package checkpoint

import (
	"errors"
	"fmt"
	"slices"
)

// The explorer drives the product's own Machine through every interleaving of its environment: the answers to its
// actions in any order, crashes with the write under way landed or not, power cuts, transactions that the broker times
// out, nacks, failed and unknown writes, timeouts, stops. world is that environment: one partition of n records, k
// sinks that each get all of them, and a broker; and where a model says so a second source that joins late, and records
// that are written only after the start.

type txnState uint8

const (
	txnOpen txnState = iota
	txnCommitted
	txnAborted
)

// txn is a transaction on the broker. superseded is set when its id was initialised again: a raw EndTxn for it is then
// answered with PRODUCER_FENCED, or below transaction.version 2 commits another, newer transaction.
type txn struct {
	sink, id   int8
	state      txnState
	superseded bool
}

// written is one record in a sink's log.
type written struct{ sink, source, record, txn int8 }

// emitted is a message between source and sinks.
type emitted struct {
	attempt        uint64
	source, record int8
}

// reader is a source's adapter. stop is what was resolved, for good or by this process.
type reader struct {
	joined, running, paused bool
	attempt                 uint64
	pos, stop               int8
}

// decided is what the first durable record says of a source: which records are due (rule 2). published is set once the
// group has heard of it.
type decided struct {
	known, published bool
	begin, stop      int8
}

// endpoint is a sink's adapter: the attempt it takes messages of, and its open id and transaction.
type endpoint struct {
	attempt uint64
	id, txn int8 // -1: none
}

// asked is an action that waits for its answer. done counts the steps of it that already had their effect.
type asked struct {
	action Action
	done   int8
}

type world struct {
	o *options

	txns []txn
	log  []written
	// durable survives a power cut; visible survives only a kill.
	durable, visible *Record

	m       *Machine
	pending []asked
	timers  []Timer

	// readers are the sources' adapters, and due what they are to read. end is how many records there are by now.
	readers   [2]reader
	due       [2]decided
	end       int8
	inFlight  []emitted
	endpoints []endpoint

	faults int8
	over   bool
}

// options are the size of a model and its faults.
type options struct {
	records, sinks, ids, concurrent, tolerable, faults int
	broken                                             Rule
	// noSync leaves out the sync of what is visible before a recovery acts on it.
	noSync bool
	// oldAttempts lets a sink take messages of an older attempt (rule 8).
	oldAttempts bool
	// late is how many records a second source has, which joins at any time while the stream runs; 0: there is none. next
	// has it join only when the first one has ended, as in a sequence.
	late int
	next bool
	// latest has sources begin at the end of what is there when they resolve it, untilNow has them stop there; the rest is
	// written at any time after the start. anew resolves that again where there is a record (rule 2).
	latest, untilNow, anew bool
}

func (o *options) String() string {
	text := fmt.Sprintf("records=%d sinks=%d ids=%d max_concurrent=%d tolerable=%d faults=%d",
		o.records, o.sinks, o.ids, o.concurrent, o.tolerable, o.faults)
	if o.late > 0 {
		text += fmt.Sprintf(" late=%d", o.late)
	}
	if o.next {
		text += " next"
	}
	if o.latest {
		text += " latest"
	}
	if o.untilNow {
		text += " until_now"
	}
	return text
}

// modelSources are the sources of a model, the late one last.
var modelSources = [...]string{"src", "late"}

func sinkKey(i int) string { return fmt.Sprintf("sink%d", i) }

// recordsOf is how many records a source has in the end.
func (o *options) recordsOf(source int) int8 {
	if source > 0 {
		return int8(o.late)
	}
	return int8(o.records)
}

// logEnd is where the log of a source ends by now.
func (w *world) logEnd(source int) int8 { return min(w.end, w.o.recordsOf(source)) }

// state is a source's at a position.
func (w *world) state(source int, p int8) SourceState {
	stop := w.readers[source].stop
	return SourceState{Source: modelSources[source], Parallelism: 1, Finished: p == stop,
		Splits: []Split{{Topic: "t", Offset: int64(p), Stop: int64(stop)}}}
}

// offsetOf is the position of a source in states, 0 where it has none.
func offsetOf(states []SourceState, source int) int8 {
	if s := stateOf(states, modelSources[source]); s != nil && len(s.Splits) > 0 {
		return int8(s.Splits[0].Offset)
	}
	return 0
}

func sourceIndex(key string) int { return slices.Index(modelSources[:], key) }

// violation is a broken promise.
type violation struct{ what string }

func (v violation) Error() string { return v.what }

func violated(format string, args ...any) error { return violation{fmt.Sprintf(format, args...)} }

func newWorld(o *options) *world {
	w := &world{o: o, faults: int8(o.faults)}
	if !o.latest && !o.untilNow {
		w.end = int8(max(o.records, o.late))
	}
	w.start()
	return w
}

// start is a process that begins with what the store shows.
func (w *world) start() {
	newest := w.durable
	if w.visible != nil {
		newest = w.visible
		if !w.o.noSync {
			w.durable, w.visible = w.visible, nil
		}
	}
	var sinks []SinkSeat
	w.endpoints = nil
	for i := range w.o.sinks {
		sinks = append(sinks, SinkSeat{Key: sinkKey(i), Pool: Pool{Prefix: sinkKey(i), Size: int32(w.o.ids)}})
		w.endpoints = append(w.endpoints, endpoint{id: -1, txn: -1})
	}
	cfg := Config{MaxConcurrent: w.o.concurrent, TolerableFailures: w.o.tolerable, MaxRestarts: -1}
	w.m = NewMachine(cfg, "", []SourceSeat{{Key: modelSources[0]}}, sinks, newest)
	w.m.broken = w.o.broken
	w.pending, w.timers, w.inFlight = nil, nil, nil
	w.readers = [2]reader{{joined: true}}
}

func (w *world) clone() *world {
	c := *w
	c.txns, c.log = slices.Clone(w.txns), slices.Clone(w.log)
	c.pending, c.timers = slices.Clone(w.pending), slices.Clone(w.timers)
	c.inFlight, c.endpoints = slices.Clone(w.inFlight), slices.Clone(w.endpoints)
	m := *w.m
	m.out = nil
	m.sources, m.checkpoints = slices.Clone(m.sources), slices.Clone(m.checkpoints)
	m.sinks = slices.Clone(m.sinks)
	for i := range m.sinks {
		m.sinks[i].ids = slices.Clone(m.sinks[i].ids)
	}
	c.m = &m
	return &c
}

// step gives the Machine an event and does what it asks for.
func (w *world) step(ev Event) error {
	m := w.m
	for _, a := range slices.Clone(m.Step(ev)) {
		if err := w.act(a); err != nil {
			return err
		}
		if w.m != m {
			break // The process has ended, another one runs.
		}
	}
	return nil
}

func (w *world) act(a Action) error {
	switch a := a.(type) {
	case Verify:
		return w.step(Verified{Key: a.Key})
	case Resolve:
		return w.resolve(a)
	case Pause:
		w.readers[sourceIndex(a.Source)].paused = true
		w.pending = append(w.pending, asked{action: a})
	case Halt:
		if i := sourceIndex(a.Key); i >= 0 {
			w.readers[i].running = false
		} else {
			*w.endpoint(a.Key) = endpoint{attempt: a.Attempt, id: -1, txn: -1}
		}
		w.pending = append(w.pending, asked{action: a})
	case Commit, Write, InitIDs, Flush, Abort:
		w.pending = append(w.pending, asked{action: a})
	case Seal:
		return w.seal(a)
	case CancelBarrier:
		w.pending = slices.DeleteFunc(w.pending, func(p asked) bool {
			switch p.action.(type) {
			case Pause, Flush:
				return true
			}
			return false
		})
	case StartSource:
		return w.startSource(a)
	case StartSink:
		e := w.endpoint(a.Sink)
		*e = endpoint{attempt: a.Attempt, id: int8(a.ID), txn: -1}
	case Open:
		w.endpoint(a.Sink).id = int8(a.ID)
	case Resume:
		w.readers[sourceIndex(a.Source)].paused = false
	case CommitOffsets:
		return w.checkOffsets(a)
	case Finish:
		return w.checkEnd(sourceIndex(a.Source))
	case CloseDone:
		// The process ends; another one goes on.
		if err := w.checkStopped(); err != nil {
			return err
		}
		w.start()
		return w.step(Begin{})
	case SetTimer:
		if !slices.Contains(w.timers, a.Timer) {
			w.timers = append(w.timers, a.Timer)
		}
	case StopTimer:
		w.timers = slices.DeleteFunc(w.timers, func(t Timer) bool { return t == a.Timer })
	case Report:
	case Die:
		if len(w.txns) > 0 && w.o.sinks > 1 {
			if partial := w.partlyLost(); partial {
				w.over = true // Said loudly: a checkpoint is committed in part and lost in part.
				return nil
			}
		}
		w.start()
		return w.step(Begin{})
	}
	return nil
}

// resolve answers for a source's adapter: what a record says stays (rule 2).
func (w *world) resolve(a Resolve) error {
	i := sourceIndex(a.Source)
	begin, stop, restored := int8(0), w.o.recordsOf(i), a.Restored != nil && !w.o.anew
	if restored {
		begin, stop = int8(a.Restored.Splits[0].Offset), int8(a.Restored.Splits[0].Stop)
	} else {
		if w.o.latest {
			begin = w.logEnd(i)
		}
		if w.o.untilNow {
			stop = w.logEnd(i)
		}
	}
	w.readers[i].stop = stop
	st := w.state(i, begin)
	st.Publish = !restored && w.o.latest
	return w.step(Resolved{State: st})
}

func (w *world) startSource(a StartSource) error {
	i := sourceIndex(a.State.Source)
	from := offsetOf([]SourceState{a.State}, i)
	if k := w.newest(); k == nil || stateOf(k.Positions, a.State.Source) == nil || offsetOf(k.Positions, i) != from {
		return violated("rule 2: source starts at %v, the newest record is %v", a.State, k)
	}
	if w.o.latest && !w.due[i].published {
		return violated("start: %v begins at the end, and the group has not heard of it", a.State)
	}
	r := &w.readers[i]
	r.running, r.paused, r.attempt, r.pos = true, false, a.Attempt, from
	return nil
}

// partlyLost tells whether the newest record holds a checkpoint that is committed in one sink and aborted in another.
func (w *world) partlyLost() bool {
	for _, e := range w.newest().Entries {
		committed, aborted := false, false
		for _, c := range e.Committables {
			committed = committed || w.txns[c.ProducerID].state == txnCommitted
			aborted = aborted || w.txns[c.ProducerID].state == txnAborted
		}
		if committed && aborted {
			return true
		}
	}
	return false
}

func (w *world) endpoint(key string) *endpoint {
	for i := range w.endpoints {
		if sinkKey(i) == key {
			return &w.endpoints[i]
		}
	}
	panic(key)
}

// newest is the newest record that a process starting now would see.
func (w *world) newest() *Record {
	if w.visible != nil {
		return w.visible
	}
	return w.durable
}

// initID is InitProducerId, or the first record on a new client: it aborts what is open and makes the outcome of
// anything older on the id unknowable.
func (w *world) initID(sink, id int8) error {
	for _, r := range []*Record{w.durable, w.visible} {
		if r == nil {
			continue
		}
		for _, e := range r.Entries {
			for _, c := range e.Committables {
				if t := w.txns[c.ProducerID]; t.sink == sink && t.id == id && r == w.newest() {
					return violated("rule 6: id %d of %s is initialised while the newest record holds it: %v",
						id, sinkKey(int(sink)), r)
				}
			}
		}
	}
	for i := range w.txns {
		if t := &w.txns[i]; t.sink == sink && t.id == id {
			t.superseded = true
			if t.state == txnOpen {
				t.state = txnAborted
			}
		}
	}
	return nil
}

// endTxn is a raw EndTxn(commit).
func (w *world) endTxn(c *Committable) (Verdict, error) {
	t := &w.txns[c.ProducerID]
	if t.superseded {
		return 0, violated("EndTxn for %s, whose id was initialised again: undecidable", c.TransactionalID)
	}
	if t.state == txnAborted {
		return Aborted, nil
	}
	t.state = txnCommitted
	return Committed, nil
}

var errModel = errors.New("by the model")

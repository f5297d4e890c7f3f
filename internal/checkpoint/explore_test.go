package checkpoint

import (
	"errors"
	"fmt"
	"slices"
)

// The explorer drives the product's own Machine through every interleaving of its environment: the answers to its
// actions in any order, crashes with the write under way landed or not, power cuts, transactions that the broker times
// out, nacks, failed and unknown writes, timeouts, stops. world is that environment: one partition of n records, k
// sinks that each get all of them, and a broker.

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
type written struct{ sink, record, txn int8 }

// emitted is a message between source and sinks.
type emitted struct {
	attempt uint64
	record  int8
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

	// The source's adapter.
	running, paused bool
	attempt         uint64
	pos             int8
	inFlight        []emitted
	endpoints       []endpoint

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
}

func (o *options) String() string {
	return fmt.Sprintf("records=%d sinks=%d ids=%d max_concurrent=%d tolerable=%d faults=%d",
		o.records, o.sinks, o.ids, o.concurrent, o.tolerable, o.faults)
}

const modelSource = "src"

func sinkKey(i int) string { return fmt.Sprintf("sink%d", i) }

func (o *options) position(p int8) SourceState {
	return SourceState{Source: modelSource, Parallelism: 1, Finished: int(p) == o.records,
		Splits: []Split{{Topic: "t", Offset: int64(p), Stop: int64(o.records)}}}
}

func offsetOf(states []SourceState) int8 {
	if s := stateOf(states, modelSource); s != nil {
		return int8(s.Splits[0].Offset)
	}
	return 0
}

// violation is a broken promise.
type violation struct{ what string }

func (v violation) Error() string { return v.what }

func violated(format string, args ...any) error { return violation{fmt.Sprintf(format, args...)} }

func newWorld(o *options) *world {
	w := &world{o: o, faults: int8(o.faults)}
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
	w.m = NewMachine(cfg, "", []SourceSeat{{Key: modelSource}}, sinks, newest)
	w.m.broken = w.o.broken
	w.pending, w.timers, w.inFlight = nil, nil, nil
	w.running, w.paused, w.attempt, w.pos = false, false, 0, 0
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
		p := int8(0)
		if a.Restored != nil {
			p = int8(a.Restored.Splits[0].Offset)
		}
		return w.step(Resolved{State: w.o.position(p)})
	case Pause:
		w.paused = true
		w.pending = append(w.pending, asked{action: a})
	case Halt:
		if a.Key == modelSource {
			w.running = false
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
		if k := w.newest(); k == nil || offsetOf(k.Positions) != offsetOf([]SourceState{a.State}) {
			return violated("rule 2: source starts at %v, the newest record is %v", a.State, k)
		}
		w.running, w.paused, w.attempt, w.pos = true, false, a.Attempt, offsetOf([]SourceState{a.State})
	case StartSink:
		e := w.endpoint(a.Sink)
		*e = endpoint{attempt: a.Attempt, id: int8(a.ID), txn: -1}
	case Open:
		w.endpoint(a.Sink).id = int8(a.ID)
	case Resume:
		w.paused = false
	case CommitOffsets:
		return w.checkOffsets(a)
	case Finish:
		w.over = true
		return w.checkEnd()
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

// visibleRecords are what a read_committed reader of the sink sees.
func (w *world) visibleRecords(sink int) []int8 {
	var out []int8
	for _, l := range w.log {
		if int(l.sink) == sink && w.txns[l.txn].state == txnCommitted {
			out = append(out, l.record)
		}
	}
	return out
}

// check is what must hold in every state: each sink shows 1, 2, 3 … without gap or double.
func (w *world) check() error {
	for i := range w.o.sinks {
		for j, r := range w.visibleRecords(i) {
			if int(r) != j+1 {
				return violated("a reader of %s sees %v", sinkKey(i), w.visibleRecords(i))
			}
		}
	}
	return nil
}

func (w *world) checkOffsets(a CommitOffsets) error {
	p := offsetOf(a.Positions)
	if k := w.durable; k == nil || offsetOf(k.Positions) < p {
		return violated("rule 1: offset %d goes to the group, the durable record is %v", p, k)
	}
	for i := range w.o.sinks {
		if n := len(w.visibleRecords(i)); n < int(p) {
			return violated("rule 1: offset %d goes to the group, a reader of %s sees %d records", p, sinkKey(i), n)
		}
	}
	return nil
}

func (w *world) checkEnd() error {
	for i := range w.o.sinks {
		if n := len(w.visibleRecords(i)); n != w.o.records {
			return violated("loss: the end is reached, a reader of %s sees %d records", sinkKey(i), n)
		}
	}
	if len(w.durable.Entries) > 0 {
		return violated("closing record: after the end the newest is %v", w.durable)
	}
	return nil
}

// checkStopped is what a soft stop promises where it came to its end: nothing is pending on the broker.
func (w *world) checkStopped() error {
	if w.m.phase != phaseRunning {
		return nil
	}
	if len(w.durable.Entries) > 0 {
		return violated("stop: the newest record is %v", w.durable)
	}
	for _, t := range w.txns {
		if t.state == txnOpen {
			return violated("stop: a transaction of id %d is open", t.id)
		}
	}
	return nil
}

var errModel = errors.New("by the model")

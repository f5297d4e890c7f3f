package checkpoint

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// move is one thing that may happen next. fault moves use up the budget and are no progress.
type move struct {
	label string
	fault bool
	do    func(*world) error
}

// moves lists everything that may happen next.
func (w *world) moves() []move {
	if w.over {
		return nil
	}
	var out []move
	for i := range w.pending {
		out = append(out, w.answers(i)...)
	}
	for _, t := range w.timers {
		fault := t.Kind == TimerTimeout || t.Kind == TimerWrite || t.Kind == TimerHalt
		out = append(out, move{"fired " + t.String(), fault, func(w *world) error {
			w.timers = slices.DeleteFunc(w.timers, func(o Timer) bool { return o == t })
			return w.step(Fired{Timer: t})
		}})
	}
	for i := range w.readers {
		out = append(out, w.readerMoves(i)...)
	}
	if w.end < int8(max(w.o.records, w.o.late)) {
		out = append(out, move{fmt.Sprintf("record %d is there to be read", w.end+1), false, func(w *world) error {
			w.end++
			return nil
		}})
	}
	if len(w.inFlight) > 0 && w.deliverable() {
		out = append(out, move{fmt.Sprintf("deliver %d", w.inFlight[0].record), false, (*world).deliver})
	}
	return append(out, w.faultMoves()...)
}

// readerMoves are what a source's adapter may do.
func (w *world) readerMoves(i int) (out []move) {
	key, r := modelSources[i], &w.readers[i]
	if i > 0 && w.o.late > 0 && !r.joined && w.m.phase == phaseRunning && (!w.o.next || w.m.released()) {
		out = append(out, move{key + " joins", false, func(w *world) error {
			w.readers[i].joined = true
			return w.step(Joined{Source: key})
		}})
	}
	if r.running && !r.paused && len(w.inFlight) == 0 && r.pos < min(r.stop, w.end) {
		out = append(out, move{fmt.Sprintf("%s emits %d", key, r.pos+1), false, func(w *world) error {
			r := &w.readers[i]
			r.pos++
			w.inFlight = append(w.inFlight, emitted{r.attempt, int8(i), r.pos})
			return nil
		}})
	}
	if r.running && r.pos == r.stop && !w.m.sourceOf(key).atEnd {
		out = append(out, move{key + " is at its end", false, func(w *world) error {
			return w.step(AtEnd{Attempt: w.readers[i].attempt, Source: key})
		}})
	}
	return out
}

// deliverable tells whether the write of the message in flight would not block for an id.
func (w *world) deliverable() bool {
	for i := range w.endpoints {
		if e := &w.endpoints[i]; e.attempt == w.inFlight[0].attempt && e.id < 0 {
			return false
		}
	}
	return true
}

func (w *world) deliver() error {
	msg := w.inFlight[0]
	w.inFlight = w.inFlight[1:]
	for i := range w.endpoints {
		e := &w.endpoints[i]
		if e.attempt != msg.attempt && (!w.o.oldAttempts || e.id < 0) {
			continue // Rule 8: what an older attempt emitted is dropped.
		}
		if e.txn < 0 {
			if err := w.initID(int8(i), e.id); err != nil {
				return err
			}
			e.txn = int8(len(w.txns))
			w.txns = append(w.txns, txn{sink: int8(i), id: e.id})
		}
		if w.txns[e.txn].state != txnOpen {
			return w.step(Failed{Attempt: msg.attempt, Cause: errModel})
		}
		w.log = append(w.log, written{int8(i), msg.source, msg.record, e.txn})
	}
	return nil
}

// take removes pending i and gives its answer.
func take(i int, ev Event) func(*world) error {
	return func(w *world) error {
		w.pending = slices.Delete(w.pending, i, i+1)
		return w.step(ev)
	}
}

// answers are the steps that the pending action i allows now.
func (w *world) answers(i int) []move {
	p := w.pending[i]
	switch a := p.action.(type) {
	case Pause:
		if len(w.inFlight) > 0 {
			return nil
		}
		source := sourceIndex(a.Source)
		return []move{{a.String() + ": drained", false, take(i, Drained{a.Checkpoint, w.state(source, w.readers[source].pos)})}}
	case Flush:
		if e := w.endpoint(a.Sink); e.txn >= 0 && w.txns[e.txn].state != txnOpen {
			return []move{{a.String() + ": fails", false, take(i, Failed{Attempt: e.attempt, Cause: errModel})}}
		}
		return []move{{a.String() + ": flushed", false, take(i, Flushed{a.Checkpoint, a.Sink})}}
	case Halt:
		if sourceIndex(a.Key) >= 0 && len(w.inFlight) > 0 && !w.o.oldAttempts {
			return nil
		}
		return []move{{a.String() + ": halted", false, take(i, Halted{a.Attempt, a.Key})}}
	case Abort:
		return []move{{a.String(), false, func(w *world) error {
			if err := w.initID(sinkIndex(a.Sink), int8(a.ID)); err != nil {
				return err
			}
			return take(i, AbortDone{a.Sink, a.ID})(w)
		}}}
	case InitIDs:
		return []move{{fmt.Sprintf("InitProducerId %s id %d", a.Sink, p.done), false, func(w *world) error {
			if err := w.initID(sinkIndex(a.Sink), w.pending[i].done); err != nil {
				return err
			}
			if w.pending[i].done++; int(w.pending[i].done) < w.o.ids {
				return nil
			}
			return take(i, IDsReady{a.Sink})(w)
		}}}
	case Commit:
		return []move{w.commitMove(i, a)}
	case Write:
		return w.writeMoves(i, a)
	}
	return nil
}

func sinkIndex(key string) int8 { return int8(key[len("sink")] - '0') }

// seal happens at once: it sends nothing.
func (w *world) seal(a Seal) error {
	e := w.endpoint(a.Sink)
	var c *Committable
	if e.txn >= 0 {
		c = &Committable{
			Sink: a.Sink, ProducerID: int64(e.txn), Records: 1,
			TransactionalID: Pool{Prefix: a.Sink}.TransactionalID(int32(e.id)),
		}
		e.id, e.txn = int8(a.Next), -1
	}
	return w.step(Sealed{a.Checkpoint, a.Sink, c})
}

// commitMove is one EndTxn, or after the last one the answer. Where there are several, all are described first.
func (w *world) commitMove(i int, a Commit) move {
	p := w.pending[i]
	verdicts := make([]Verdict, len(a.Committables))
	lost := false
	for j := range a.Committables {
		switch w.txns[a.Committables[j].ProducerID].state {
		case txnCommitted:
			verdicts[j] = Committed
		case txnAborted:
			verdicts[j], lost = Aborted, true
		default:
			verdicts[j] = NotTried
		}
	}
	if p.done == 0 && lost || int(p.done) == len(a.Committables) {
		return move{fmt.Sprintf("%v: %v", a, verdicts), false, take(i, CommitDone{a.Checkpoint, verdicts})}
	}
	return move{fmt.Sprintf("EndTxn(commit) %v", a.Committables[p.done]), false, func(w *world) error {
		_, err := w.endTxn(&a.Committables[w.pending[i].done])
		w.pending[i].done++
		return err
	}}
}

func (w *world) writeMoves(i int, a Write) []move {
	number := a.Record.Number
	land := func(w *world) { w.durable, w.visible = a.Record, nil }
	if w.pending[i].done > 0 {
		return []move{
			{fmt.Sprintf("record %d: answered", number), false, take(i, WriteDone{Number: number, Outcome: Durable})},
		}
	}
	return []move{
		{a.String() + ": landed", false, func(w *world) error {
			land(w)
			w.pending[i].done = 1
			return nil
		}},
		{fmt.Sprintf("record %d: write fails", number), true,
			take(i, WriteDone{Number: number, Outcome: NotWritten, Cause: errModel})},
		{fmt.Sprintf("record %d: outcome unknown, it is not there", number), true,
			take(i, WriteDone{Number: number, Outcome: OutcomeUnknown, Cause: errModel})},
		{fmt.Sprintf("record %d: outcome unknown, it is there", number), true, func(w *world) error {
			land(w)
			return take(i, WriteDone{Number: number, Outcome: OutcomeUnknown, Cause: errModel})(w)
		}},
	}
}

// faultMoves are what the world does to the process, within the budget.
func (w *world) faultMoves() []move {
	restart := func(w *world) error {
		w.start()
		return w.step(Begin{})
	}
	out := []move{{"kill -9", true, restart}}
	for i := range w.txns {
		if w.txns[i].state == txnOpen {
			out = append(out, move{fmt.Sprintf("broker times out T%d", i), true, func(w *world) error {
				w.txns[i].state = txnAborted
				return nil
			}})
		}
	}
	for _, p := range w.pending {
		if a, ok := p.action.(Write); ok && p.done == 0 {
			out = append(out, move{fmt.Sprintf("kill -9; record %d is visible, not synced", a.Record.Number), true,
				func(w *world) error {
					w.visible = a.Record
					return restart(w)
				}})
		}
	}
	if w.visible != nil {
		out = append(out, move{"power cut", true, func(w *world) error {
			w.visible = nil
			return restart(w)
		}})
	}
	if w.m.phase == phaseRunning {
		out = append(out, move{"nack", true, func(w *world) error {
			return w.step(Failed{Attempt: w.m.attempt, Cause: errModel})
		}})
	}
	if w.readers[0].running && !w.m.closing() && w.o.late == 0 {
		out = append(out, move{"soft stop", true, func(w *world) error {
			// The engine has no message in flight any more when it closes the source.
			if len(w.inFlight) > 0 {
				return nil
			}
			w.readers[0].paused = true
			return w.step(Closing{Source: modelSources[0]})
		}})
	}
	return out
}

// fingerprint tells two worlds apart that can go on differently.
func (w *world) fingerprint(b []byte) []byte {
	u := func(vs ...uint64) {
		for _, v := range vs {
			b = binary.AppendUvarint(b, v)
		}
	}
	flags := func(fs ...bool) {
		for _, f := range fs {
			if f {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		}
	}
	record := func(r *Record) {
		if flags(r != nil); r == nil {
			return
		}
		u(r.Number, r.LastCheckpoint, uint64(len(r.Entries)))
		b = fingerprintStates(b, r.Positions)
		for i := range r.Entries {
			b = fingerprintEntry(b, &r.Entries[i])
		}
	}
	u(uint64(w.faults), uint64(len(w.txns)))
	for _, t := range w.txns {
		u(uint64(t.sink), uint64(t.id), uint64(t.state))
		flags(t.superseded)
	}
	u(uint64(len(w.log)))
	for _, l := range w.log {
		u(uint64(l.sink), uint64(l.source), uint64(l.record), uint64(l.txn))
	}
	record(w.durable)
	record(w.visible)
	u(uint64(len(w.pending)))
	for _, p := range w.pending {
		b = append(append(b, p.action.String()...), byte(p.done))
	}
	u(uint64(len(w.timers)))
	for _, t := range w.timers {
		u(uint64(t.Kind), t.Of)
	}
	flags(w.over)
	for i, r := range w.readers {
		d := w.due[i]
		flags(r.joined, r.running, r.paused, d.known, d.published)
		u(r.attempt, uint64(r.pos), uint64(r.stop), uint64(d.begin), uint64(d.stop))
	}
	u(uint64(w.end), uint64(len(w.inFlight)))
	for _, e := range w.inFlight {
		u(e.attempt, uint64(e.source), uint64(e.record))
	}
	for _, e := range w.endpoints {
		u(e.attempt, uint64(e.id+1), uint64(e.txn+1))
	}
	m := w.m
	u(uint64(m.phase), m.attempt, m.nextRecord, m.nextCheckpoint, uint64(m.tries), m.committing, uint64(m.barrier),
		m.barrierNumber, uint64(m.declines), m.giveUp, uint64(m.restarts))
	b = fingerprintStates(b, m.positions)
	flags(m.unresolved, m.recordDue, m.resumeDue, m.intervalElapsed, m.pauseElapsed, m.restartRecorded, m.restartDelayOver)
	record(m.known)
	if flags(m.write != nil); m.write != nil {
		u(m.write.record.Number, m.write.upTo)
		flags(m.write.essential)
	}
	for _, s := range m.sources {
		u(uint64(s.status), s.finalAt)
		b = fingerprintStates(b, []SourceState{s.state})
		flags(s.paused, s.drained, s.halted, s.atEnd, s.closing, s.last, s.final, s.verified, s.publish)
	}
	for _, s := range m.sinks {
		for _, id := range s.ids {
			b = append(b, byte(id))
		}
		u(uint64(s.open+1), uint64(s.next+1))
		flags(s.flushed, s.sealed, s.halted, s.ready, s.committable != nil)
	}
	for _, c := range m.checkpoints {
		b = fingerprintEntry(b, c.entry)
		b = append(b, byte(c.state))
		flags(c.declined)
	}
	return b
}

// fingerprintStates takes what a model's states may differ in; they are few.
func fingerprintStates(b []byte, states []SourceState) []byte {
	b = append(b, byte(len(states)))
	for _, s := range states {
		b = append(b, byte(sourceIndex(s.Source)), byte(len(s.Splits)))
		for _, p := range s.Splits {
			b = append(b, byte(p.Offset), byte(p.Stop))
		}
	}
	return b
}

func fingerprintEntry(b []byte, e *Entry) []byte {
	b = binary.AppendUvarint(b, e.Checkpoint)
	b = fingerprintStates(fingerprintStates(b, e.Before), e.After)
	b = append(b, byte(len(e.Committables)))
	for _, c := range e.Committables {
		b = append(b, byte(c.ProducerID))
	}
	return b
}

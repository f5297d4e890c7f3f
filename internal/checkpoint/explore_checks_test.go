package checkpoint

// visibleRecords are what a read_committed reader of the sink sees of a source.
func (w *world) visibleRecords(sink, source int) []int8 {
	var out []int8
	for _, l := range w.log {
		if int(l.sink) == sink && int(l.source) == source && w.txns[l.txn].state == txnCommitted {
			out = append(out, l.record)
		}
	}
	return out
}

// decide notes what the first durable record says of each source.
func (w *world) decide() {
	for i := range w.due {
		if d := &w.due[i]; !d.known && w.durable != nil {
			if s := stateOf(w.durable.Positions, modelSources[i]); s != nil {
				d.known, d.begin, d.stop = true, int8(s.Splits[0].Offset), int8(s.Splits[0].Stop)
			}
		}
	}
}

// check is what must hold in every state: of each source each sink shows what is due, 1, 2, 3 … from where it began,
// without gap or double, and nothing from beyond its stop.
func (w *world) check() error {
	w.decide()
	for i := range w.o.sinks {
		for source, d := range w.due {
			seen := w.visibleRecords(i, source)
			for j, r := range seen {
				if r != d.begin+int8(j)+1 || r > d.stop {
					return violated("a reader of %s sees %v of %s, due are those after %d up to %d", sinkKey(i), seen, modelSources[source], d.begin, d.stop)
				}
			}
		}
	}
	return nil
}

func (w *world) checkOffsets(a CommitOffsets) error {
	w.decide()
	for _, s := range a.Positions {
		i := sourceIndex(s.Source)
		p := offsetOf(a.Positions, i)
		if k := w.durable; k == nil || offsetOf(k.Positions, i) < p {
			return violated("rule 1: offset %d goes to the group, the durable record is %v", p, k)
		}
		for sink := range w.o.sinks {
			if n := len(w.visibleRecords(sink, i)); n < int(p-w.due[i].begin) {
				return violated("rule 1: offset %d goes to the group, a reader of %s sees %d records after %d", p, sinkKey(sink), n, w.due[i].begin)
			}
		}
		if w.readers[i].joined { // nobody else can
			w.due[i].published = true
		}
	}
	return nil
}

// checkEnd follows the end of a source; after the last one there is nothing more.
func (w *world) checkEnd(source int) error {
	d := w.due[source]
	for i := range w.o.sinks {
		if n := len(w.visibleRecords(i, source)); n != int(d.stop-d.begin) {
			return violated("loss: the end is reached, a reader of %s sees %d records after %d up to %d", sinkKey(i), n, d.begin, d.stop)
		}
	}
	if !w.m.released() {
		return nil
	}
	if len(w.durable.Entries) > 0 {
		return violated("closing record: after the end the newest is %v", w.durable)
	}
	w.over = w.o.late == 0 || w.readers[1].joined
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

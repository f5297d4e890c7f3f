package checkpoint

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// checkTraces refuses to start anew where an earlier run has left traces that only its records explain: its open
// transactions would be aborted although they may belong to a durable checkpoint, and what it has committed would be
// read again. A store whose records were deleted on purpose is not asked about.
func (r *run) checkTraces() error {
	for _, s := range r.seats() {
		ask := func(ctx context.Context) (string, error) { return "", nil }
		if s.asSource != nil {
			ask = s.asSource.Traces
		} else if s.asSink != nil {
			ask = s.asSink.Traces
		}
		found, err := ask(r.ctx)
		if err != nil {
			return fmt.Errorf("%s: looking for traces of an earlier run: %w", s.key, err)
		}
		if found != "" {
			return LostStore(s.key, r.store.Describe(), found)
		}
	}
	return nil
}

// LostStore says that a store holds no checkpoint although a component has found traces of an earlier run.
func LostStore(component, place, found string) error {
	return fmt.Errorf("%s: the state store %s holds no checkpoint, but %s: the store was lost, or checkpoint.store "+
		"leads to another place than before, or another job has the same group_id or transactional_id_prefix. Bring it "+
		"back, or give each job its own; or set startup.ignore_missing_state: true to start anew, "+
		"which may lose or double what the earlier run had not completed", component, place, found)
}

// checkOvertaken refuses a record that the store itself has been further than, as that of an old copy: what was committed
// since would be read, and written, again.
func (r *run) checkOvertaken(newest *Record) error {
	for _, s := range r.seats() {
		if s.asSource == nil {
			continue
		}
		found, err := s.asSource.Overtaken(r.ctx, newest)
		if err != nil {
			return fmt.Errorf("%s: looking for traces of a newer checkpoint: %w", s.key, err)
		}
		switch {
		case found == "":
		case r.cfg.IgnoreMissingState:
			r.stream.opts.Logger.Warn("the state is older than what the cluster shows, and is used all the same, as "+
				"startup.ignore_missing_state says: what was committed since comes again", "input", s.key, "cause", found)
		default:
			return OldStore(s.key, r.store.Describe(), newest, found)
		}
	}
	return nil
}

// OldStore says that a store holds an older record than one that it has held before.
func OldStore(component, place string, newest *Record, found string) error {
	return fmt.Errorf("%s: checkpoint %d, the newest in %s, is older than what this store has held: %s. As a rule an old copy of "+
		"the state was put back, and what was committed since would be read and written again; or a start that was told to go back "+
		"ended before it could tell the group. Bring the newest state back; or, to go on "+
		"from the consumer group's offsets, set startup.mode: group-offsets and %s; or set startup.ignore_missing_state: "+
		"true with the state as it is, which doubles what was committed since", component, newest.LastCheckpoint, place, found, StartAnew)
}

// warnOfRemovedSinks says which transactions nobody looks after any more: the ids of an output that is no longer in the
// config may be another job's now, so they are left alone.
func (r *run) warnOfRemovedSinks(newest *Record) {
	var pools []Pool
	keys := map[string]bool{}
	for _, s := range r.seats() {
		if s.sink != nil {
			keys[s.key] = true
			pools = append(pools, s.sink.Pool)
		}
	}
	looksAfter := func(old Pool) bool {
		return slices.ContainsFunc(pools, func(p Pool) bool {
			return p.Prefix == old.Prefix && p.Index == old.Index && p.Size >= old.Size
		})
	}
	for _, s := range newest.Sinks {
		if keys[s.Sink] || !slices.ContainsFunc(s.Pools, func(p Pool) bool { return !looksAfter(p) }) {
			continue
		}
		var ids []string
		for _, p := range s.Pools {
			ids = append(ids, fmt.Sprintf("%s-%d-0 to %s-%d-%d", p.Prefix, p.Index, p.Prefix, p.Index, p.Size-1))
		}
		r.stream.opts.Logger.Warn("an output of the checkpoint is no longer in the config, under its label and place, and its "+
			"transactional ids are left alone: where its process was killed, a transaction may be open, and hides what comes after it "+
			"from read_committed readers until transactions.timeout has passed. Nothing is lost. To end it now, put the output back "+
			"for one start, or use its transactional_id_prefix", "output", s.Sink, "transactional_ids", strings.Join(ids, "; "))
	}
}

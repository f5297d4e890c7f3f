package checkpoint

import (
	"fmt"
	"log/slog"
)

// logRestored says in one line which rule decides where the stream begins.
func (r *run) logRestored(newest *Record) {
	log := r.stream.opts.Logger
	if newest == nil {
		log.Info("no checkpoint to restore, the start-up mode decides", "store", r.store.Describe())
		return
	}
	splits := 0
	for _, p := range newest.Positions {
		splits += len(p.Splits)
	}
	log.Info("restoring from a checkpoint, which goes before the start-up mode", "store", r.store.Describe(),
		"record", newest.Number, "checkpoint", newest.LastCheckpoint, "sources", len(newest.Positions),
		"partitions", splits, "uncommitted_checkpoints", len(newest.Entries))
}

// report logs what matters to people. A committed checkpoint is no event: there is one every interval.
func (r *run) report(a Report) {
	r.count(a)
	log := r.stream.opts.Logger
	level, text := slog.LevelInfo, ""
	switch a.What {
	case ReportRecorded, ReportCommitted:
		level, text = slog.LevelDebug, "checkpoint "+a.What.String()
	case ReportStarted:
		text = "sources and sinks are running"
	case ReportStopped:
		r.stream.leaves(nil)
		text = "everything is committed, nothing is pending"
	case ReportHardStop:
		level, text = slog.LevelWarn, "stopped without a last checkpoint; the next start goes on from the one before"
	case ReportDeclined:
		level, text = slog.LevelWarn, "checkpoint declined"
	case ReportFailover:
		level, text = slog.LevelWarn, "restarting from the last checkpoint"
	case ReportReplay:
		level, text = slog.LevelWarn, "a transaction was lost, its records are read and written again"
	case ReportLost:
		level, text = slog.LevelError, "records are lost"
	case ReportDropped:
		level, text = slog.LevelError, "records are lost: their output is no longer in the config"
	}
	args := []any{"attempt", r.m.attempt}
	if a.Checkpoint > 0 {
		args = append(args, "checkpoint", a.Checkpoint)
	}
	if len(a.Lost) > 0 {
		args = append(args, "transactions", fmt.Sprint(a.Lost))
	}
	if a.Cause != nil {
		args = append(args, "cause", a.Cause)
	}
	log.Log(r.ctx, level, text, args...)
}

package checkpoint

import (
	"fmt"
	"log/slog"

	"github.com/tidegate/tidegate/internal/repeats"
)

// logRestored says before a recovery that something is left to be settled, which takes the brokers. What was restored
// without that is a part of the line that says that the stream runs.
func (r *run) logRestored() {
	log := r.stream.opts.Logger
	if r.restored == nil {
		log.Debug("no checkpoint to restore, the start-up mode decides", "store", r.store.Describe())
		return
	}
	log.Info("restoring from a checkpoint", "store", r.store.Describe(), "checkpoint", r.restored.LastCheckpoint,
		"record", r.restored.Number, "uncommitted_checkpoints", len(r.restored.Entries))
}

// line is how a report is logged.
type line struct {
	level slog.Level
	text  string
	// each is set where no report of the kind may be held back as a repetition (rule 12).
	each bool
}

// lines are the reports that are events to people. A checkpoint that went well is none: there is one every interval.
var lines = map[ReportKind]line{
	ReportSealed:    {level: slog.LevelDebug, text: "checkpoint sealed"},
	ReportUnchanged: {level: slog.LevelDebug, text: "nothing has come since the last checkpoint"},
	ReportRecorded:  {level: slog.LevelDebug, text: "checkpoint recorded"},
	ReportCommitted: {level: slog.LevelDebug, text: "checkpoint committed"},
	ReportGivenUp:   {level: slog.LevelDebug, text: "checkpoint given up"},
	ReportStopped:   {level: slog.LevelInfo, text: "everything is committed, nothing is pending", each: true},
	ReportHardStop:  {level: slog.LevelWarn, text: "stopped without a last checkpoint; the next start goes on from the one before", each: true},
	ReportDeclined:  {level: slog.LevelWarn, text: "checkpoint declined"},
	ReportFailover:  {level: slog.LevelWarn, text: "restarting from the last checkpoint"},
	ReportReplay:    {level: slog.LevelWarn, text: "a transaction was lost, its records are read and written again"},
	ReportLost:      {level: slog.LevelError, text: "records are lost", each: true},
	ReportDropped:   {level: slog.LevelError, text: "records are lost: their output is no longer in the config", each: true},
}

// report counts a report, and logs what matters to people.
func (r *run) report(a Report) {
	r.count(a)
	switch a.What {
	case ReportStarted:
		r.announce(r.m.attempt)
		return
	case ReportStopped:
		r.stream.leaves(nil)
	}
	as := lines[a.What]
	attrs := []any{"attempt", r.m.attempt}
	if a.Checkpoint > 0 {
		attrs = append(attrs, "checkpoint", a.Checkpoint)
	}
	if a.Reason != "" {
		attrs = append(attrs, "reason", string(a.Reason))
	}
	if len(a.Lost) > 0 {
		attrs = append(attrs, "transactions", fmt.Sprint(a.Lost))
	}
	if a.Cause != nil {
		attrs = append(attrs, "cause", a.Cause)
	}
	ctx := r.ctx
	if as.each {
		ctx = repeats.Always(ctx)
	}
	r.stream.opts.Logger.Log(ctx, as.level, as.text, attrs...)
}

package offsets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/cache"
	"github.com/tidegate/tidegate/internal/benthosx"
	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkasource"
	kafkaflinksource "github.com/tidegate/tidegate/plugins/kafka_flink_source"
)

// Options are the command's.
type Options struct {
	JSON bool
	// Out gets the table or the JSON, Log what is waited for.
	Out io.Writer
	Log *slog.Logger
}

// Run prints where the sources of a job would begin. Its error holds those that their start would end with.
func Run(ctx context.Context, job benthosx.Job, opts Options) error {
	if len(job.Sources) == 0 {
		return errors.New("the config has no kafka_flink_source under input, so there is nothing to tell")
	}
	var reports []report
	var failed []error
	for _, s := range job.Sources {
		r, err := lookAt(ctx, opts.Log, job, s)
		if err != nil {
			if !strings.HasPrefix(err.Error(), s.Key+": ") { // what a start says may begin with it
				err = fmt.Errorf("%s: %w", s.Key, err)
			}
			r.Error = err.Error()
			failed = append(failed, err)
		}
		reports = append(reports, r)
	}
	write := writeTable
	if opts.JSON {
		write = writeJSON
	}
	return errors.Join(append([]error{write(opts.Out, reports)}, failed...)...)
}

// lookAt makes the report of one source, in the order in which a start would find out.
func lookAt(ctx context.Context, log *slog.Logger, job benthosx.Job, s benthosx.Source) (r report, err error) {
	r = report{Source: s.Key, Partitions: []row{}}
	settings, err := kafkaflinksource.ParseSettings(s.Key, s.Config)
	if err != nil {
		return r, err
	}
	r.Group = settings.Reader.Group
	settings.Reader.Logger = log
	var peeked cache.Peeked
	if settings.Checkpoint != nil {
		if peeked, err = peek(job, settings.Store); err != nil {
			return r, err
		}
		settings.Reader.StoreID = func() string { return peeked.StoreID }
	}
	survey, err := kafkasource.NewSurvey(settings.Reader)
	if err != nil {
		return r, err
	}
	defer survey.Close()
	if err := survey.Connect(ctx); err != nil {
		return r, err
	}
	from, err := r.restore(ctx, job, settings, peeked, survey)
	if err != nil {
		return r, err
	}
	if err := survey.CheckGroup(ctx); err != nil {
		return r, err
	}
	all, err := survey.Look(ctx, from)
	if err != nil {
		return r, err
	}
	for _, o := range all {
		r.Partitions = append(r.Partitions, rowOf(o))
	}
	return r, nil
}

// restore returns what the newest record holds of the source, nil where the start-up mode decides.
func (r *report) restore(ctx context.Context, job benthosx.Job, settings kafkaflinksource.Settings, peeked cache.Peeked,
	survey *kafkasource.Survey,
) (*checkpoint.SourceState, error) {
	cp := settings.Checkpoint
	switch {
	case cp == nil:
		r.Note = "without checkpoints"
		return nil, nil
	case !peeked.Durable:
		r.Note = fmt.Sprintf("a start finds no checkpoint in %s, which forgets all at the end of a process", peeked.Place)
		return nil, nil
	case peeked.Data == nil:
		r.Note = "no checkpoint yet in " + peeked.Place
		if peeked.Number > 0 || cp.IgnoreMissingState {
			return nil, nil
		}
		found, err := survey.Traces(ctx)
		if err == nil && found != "" {
			err = checkpoint.LostStore(r.Source, peeked.Place, found)
		}
		return nil, err
	}
	rec, err := checkpoint.NewestRecord(peeked.Number, peeked.Data, peeked.Place)
	if err != nil {
		return nil, err
	}
	if !cp.AllowNonRestored {
		if err := rec.Renamed(keys(job)); err != nil {
			return nil, err
		}
	}
	r.Checkpoint = &restored{Store: peeked.Place, Record: rec.Number, Number: rec.LastCheckpoint, Transactions: transactions(rec)}
	state := rec.Source(r.Source)
	if n := r.Checkpoint.Transactions; n > 0 {
		r.Note = fmt.Sprintf("a start commits %d transactions of it first; where one is lost and none of its checkpoint is committed, it "+
			"begins at the positions before that", n)
	}
	if state == nil {
		r.Checkpoint, r.Note = nil, fmt.Sprintf("the checkpoints in %s do not hold this source, so it begins by its start-up mode", peeked.Place)
		return nil, nil
	}
	if found, err := survey.Overtaken(ctx, rec); err != nil {
		return state, err
	} else if found != "" && !cp.IgnoreMissingState {
		return state, checkpoint.OldStore(r.Source, peeked.Place, rec, found)
	}
	return state, survey.Verify(ctx, *state)
}

// peek looks into the state store, which a running job keeps locked.
func peek(job benthosx.Job, label string) (cache.Peeked, error) {
	i := slices.IndexFunc(job.Caches, func(c benthosx.Cache) bool { return c.Label == label })
	if i < 0 {
		return cache.Peeked{}, &cache.StoreError{Field: "checkpoint.store", Label: label, Err: cache.ErrNoSuchCache}
	}
	c := job.Caches[i]
	peeked, err := cache.Peek(c.Kind, label, c.Config, "")
	if errors.As(err, new(*cache.LockedError)) {
		return peeked, fmt.Errorf("%w. While the job runs its positions move, and only it knows them: its metrics and its consumer "+
			"group show them. Stop it to see where it would go on", err)
	}
	return peeked, err
}

func keys(job benthosx.Job) (all []string) {
	for _, s := range job.Sources {
		all = append(all, s.Key)
	}
	return all
}

func transactions(rec *checkpoint.Record) (n int) {
	for _, e := range rec.Entries {
		n += len(e.Committables)
	}
	return n
}

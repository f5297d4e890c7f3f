package kafkasource

import (
	"context"
	"slices"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/offsets"
	"github.com/tidegate/tidegate/internal/splits"
)

// Survey tells what a source would do at its start, by the same decisions, and does nothing of it: it reads no record,
// joins no group and commits nothing.
type Survey struct{ reader *Reader }

// Outlook is where one partition would begin and stop.
type Outlook struct {
	splits.Partition
	// Offset is the first offset to be read, by Rule. Stop is the first that is not, or checkpoint.NoStop.
	Offset, Stop int64
	Rule         offsets.Origin
	// Replaces is the offset that the log does not have and that Rule has replaced; nil where there is none.
	Replaces *int64
	// LogStart and LogEnd are the log's first offset and its high watermark; -1 where they are not known.
	LogStart, LogEnd int64
	// Unread says why a partition of the checkpoint is not read, empty for one that is.
	Unread string
}

// NewSurvey returns a survey of the source that has this config.
func NewSurvey(cfg Config) (*Survey, error) {
	r, err := New(cfg, nil)
	if err != nil {
		return nil, err
	}
	return &Survey{r}, nil
}

// Connect reaches the cluster, as Reader.Connect does.
func (s *Survey) Connect(ctx context.Context) error { return s.reader.Connect(ctx) }

// Verify compares a restored state with the cluster, as Reader.Verify does.
func (s *Survey) Verify(ctx context.Context, restored checkpoint.SourceState) error {
	return s.reader.Verify(ctx, restored)
}

// Traces looks for an earlier run, as Reader.Traces does.
func (s *Survey) Traces(ctx context.Context) (string, error) { return s.reader.Traces(ctx) }

// Overtaken looks for a newer checkpoint, as Reader.Overtaken does.
func (s *Survey) Overtaken(ctx context.Context, newest *checkpoint.Record) (string, error) {
	return s.reader.Overtaken(ctx, newest)
}

// CheckGroup refuses the consumer group, as Reader.CheckGroup does.
func (s *Survey) CheckGroup(ctx context.Context) error { return s.reader.CheckGroup(ctx) }

// Look returns what Resolve would make of restored, partition by partition in order, or its error.
func (s *Survey) Look(ctx context.Context, restored *checkpoint.SourceState) ([]Outlook, error) {
	p, err := s.reader.plan(ctx, restored, offsets.Needs{Earliest: true, Latest: true})
	if err != nil {
		return nil, err
	}
	replaced := make(map[splits.Partition]int64)
	for _, o := range slices.Concat(p.reset, p.outside) {
		replaced[o.Partition] = o.Offset
	}
	slices.SortFunc(p.splits, checkpoint.CompareSplits)
	out := make([]Outlook, 0, len(p.splits))
	for _, split := range p.splits {
		o := Outlook{
			Partition: at(split), Offset: split.Offset, Stop: split.Stop, Rule: p.origins[at(split)], LogStart: -1, LogEnd: -1,
			Unread: p.unread(split),
		}
		if o.Unread != "" {
			o.Rule = offsets.FromCheckpoint
		} else {
			o.LogStart, o.LogEnd = p.answers.Earliest[o.Partition].Offset, p.answers.Latest[o.Partition].Offset
		}
		if was, ok := replaced[o.Partition]; ok {
			o.Replaces = &was
		}
		out = append(out, o)
	}
	return out, nil
}

// unread says why a split of the checkpoint is kept and not read.
func (p *plan) unread(s checkpoint.Split) string {
	switch {
	case slices.Contains(p.unsubscribed, at(s)):
		return "no longer subscribed"
	case slices.Contains(partitionsOf(p.vanished), at(s)):
		return "not there any more"
	}
	return ""
}

// Close closes the connection.
func (s *Survey) Close() {
	s.reader.stop()
	if s.reader.admin != nil {
		s.reader.admin.Close()
	}
}

package offsets

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkasource"
)

// report is what there is to say of one source.
type report struct {
	Source string `json:"source"`
	Group  string `json:"group,omitempty"`
	// Checkpoint is what the positions are restored from; nil where they are not.
	Checkpoint *restored `json:"checkpoint,omitempty"`
	Note       string    `json:"note,omitempty"`
	Partitions []row     `json:"partitions"`
	Error      string    `json:"error,omitempty"`
}

// restored is the newest record of a store.
type restored struct {
	Store  string `json:"store"`
	Record uint64 `json:"record"`
	Number uint64 `json:"checkpoint"`
	// Transactions are those that the start would commit first.
	Transactions int `json:"transactions_to_commit"`
}

// row is one partition.
type row struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Rule      string `json:"rule"`
	Replaces  *int64 `json:"replaces,omitempty"`
	LogStart  int64  `json:"log_start"`
	LogEnd    int64  `json:"log_end"`
	// Stop is the first offset that is not read, nil for no stop.
	Stop   *int64 `json:"stop"`
	Unread string `json:"not_read,omitempty"`
}

func rowOf(o kafkasource.Outlook) row {
	r := row{
		Topic: o.Topic, Partition: o.Partition.Partition, Offset: o.Offset, Rule: string(o.Rule), Replaces: o.Replaces,
		LogStart: o.LogStart, LogEnd: o.LogEnd, Unread: o.Unread,
	}
	if o.Stop != checkpoint.NoStop {
		r.Stop = &o.Stop
	}
	return r
}

func writeJSON(w io.Writer, all []report) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Sources []report `json:"sources"`
	}{all})
}

func writeTable(w io.Writer, all []report) error {
	for i, r := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, r.heading())
		if r.Error != "" {
			continue
		}
		tab := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
		fmt.Fprintln(tab, "  TOPIC\tPARTITION\tSTARTS AT\tBECAUSE OF\tLOG START\tLOG END\tSTOPS BEFORE")
		for _, p := range r.Partitions {
			fmt.Fprintf(tab, "  %s\t%d\t%s\t%s\t%s\t%s\t%s\n", p.Topic, p.Partition, p.start(), p.because(), known(p.LogStart),
				known(p.LogEnd), p.stop())
		}
		if err := tab.Flush(); err != nil {
			return err
		}
		if len(r.Partitions) == 0 {
			fmt.Fprintln(w, "  no partition is there to be read")
		}
	}
	return nil
}

func (r report) heading() string {
	text := r.Source
	if r.Group != "" {
		text += fmt.Sprintf(", group %q", r.Group)
	}
	switch c := r.Checkpoint; {
	case c != nil:
		text += fmt.Sprintf(": restored from checkpoint %d, record %d of %s", c.Number, c.Record, c.Store)
	case r.Error != "":
		return text + ": does not start"
	}
	if r.Note != "" {
		text += "\n  " + r.Note
	}
	return text
}

func (p row) start() string {
	if p.Unread != "" {
		return "not read"
	}
	return strconv.FormatInt(p.Offset, 10)
}

func (p row) because() string {
	switch {
	case p.Unread != "":
		return fmt.Sprintf("%s; position %d is kept", p.Unread, p.Offset)
	case p.Replaces != nil:
		return fmt.Sprintf("%s (%d is not in the log)", p.Rule, *p.Replaces)
	}
	return p.Rule
}

func (p row) stop() string {
	switch {
	case p.Stop == nil:
		return "never"
	case p.Unread == "" && *p.Stop <= p.Offset:
		return fmt.Sprintf("%d (nothing to read)", *p.Stop)
	}
	return strconv.FormatInt(*p.Stop, 10)
}

func known(offset int64) string {
	if offset < 0 {
		return "-"
	}
	return strconv.FormatInt(offset, 10)
}

package metadata

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

const page = "../../docs/metadata.md"

var update = flag.Bool("update", false, "write what is written into the page's tables, for a look at the difference")

// inputs are the records that the page's tables begin with, by the names it gives them.
var inputs = map[string]kgo.Record{
	"A": {Key: []byte("k1"), Value: nil, Headers: headers("a", "1"), Timestamp: time.UnixMilli(1000)},
	"B": {Key: []byte("k2"), Value: []byte(`{"n":2}`), Headers: append(headers("a", "2"),
		kgo.RecordHeader{Key: "a"}, kgo.RecordHeader{Key: "b", Value: []byte{}}), Timestamp: time.UnixMilli(2000)},
	"C": {Key: nil, Value: []byte(`{"n":3}`), Timestamp: time.UnixMilli(3000)},
	"E": {Key: []byte{}, Value: []byte{}, Timestamp: time.UnixMilli(5000)},
}

func headers(pairs ...string) (out []kgo.RecordHeader) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, kgo.RecordHeader{Key: pairs[i], Value: []byte(pairs[i+1])})
	}
	return out
}

// row is a row of a table of the page that is run.
type row struct {
	line    int
	records []string
	// cells by their column's name: mapping, processors, source and sink go into the job, written is what comes out.
	cells map[string]string
}

var (
	marker = regexp.MustCompile(`^<!-- run: ([A-Z ]+) -->$`)
	code   = regexp.MustCompile("`([^`]*)`")
)

// readPage returns the page's lines and the rows to run.
func readPage(t *testing.T) (lines []string, rows []row) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	lines = strings.Split(string(text), "\n")
	var records, columns []string
	for i, line := range lines {
		switch m := marker.FindStringSubmatch(line); {
		case m != nil:
			records, columns = strings.Fields(m[1]), nil
		case records == nil:
		case !strings.HasPrefix(line, "|"):
			if columns != nil {
				records, columns = nil, nil
			}
		case columns == nil:
			columns = split(line)
		case !strings.HasPrefix(line, "|-"):
			r := row{line: i, records: records, cells: map[string]string{}}
			for c, cell := range split(line) {
				r.cells[columns[c]] = strings.ReplaceAll(cell, `\|`, "|")
			}
			rows = append(rows, r)
		}
	}
	return lines, rows
}

var bar = regexp.MustCompile(`(?:[^|\\]|\\.)+`)

// split returns the cells of a line.
func split(line string) (cells []string) {
	for _, cell := range bar.FindAllString(strings.Trim(line, "|"), -1) {
		cells = append(cells, strings.TrimSpace(cell))
	}
	return cells
}

// spans joins the pieces of code in a cell.
func spans(cell, between string) string {
	var out []string
	for _, m := range code.FindAllStringSubmatch(cell, -1) {
		out = append(out, m[1])
	}
	return strings.Join(out, between)
}

func (r row) job() job {
	j := job{source: spans(r.cells["source"], "\n    "), sink: spans(r.cells["sink"], ", ")}
	if output := spans(r.cells["output"], " "); output != "" {
		j.output = "{ " + output + " }"
	}
	var processors []string
	if mapping := spans(r.cells["mapping"], "\n"); mapping != "" {
		processors = append(processors, fmt.Sprintf("{ mapping: %q }", mapping))
	}
	for _, m := range code.FindAllStringSubmatch(r.cells["processors"], -1) {
		processors = append(processors, "{ "+m[1]+" }")
	}
	j.processors = "[ " + strings.Join(processors, ", ") + " ]"
	return j
}

// TestPageSaysWhatIsWritten runs every row of the tables in docs/metadata.md that are marked to be run.
func TestPageSaysWhatIsWritten(t *testing.T) {
	lines, rows := readPage(t)
	require.Greater(t, len(rows), 50, "the tables are found")
	got := make([]string, len(rows))
	t.Run("rows", func(t *testing.T) {
		for i, r := range rows {
			t.Run(fmt.Sprintf("line %d", r.line+1), func(t *testing.T) {
				t.Parallel()
				got[i] = r.run(t)
				if !*update {
					require.Equal(t, r.cells["written"], got[i], "written by %s", lines[r.line])
				}
			})
		}
	})
	if *update {
		for i, r := range rows {
			lines[r.line] = strings.Replace(lines[r.line], "| "+strings.ReplaceAll(r.cells["written"], "|", `\|`)+" |",
				"| "+strings.ReplaceAll(got[i], "|", `\|`)+" |", 1)
		}
		require.NoError(t, os.WriteFile(page, []byte(strings.Join(lines, "\n")), 0o644))
	}
}

func (r row) run(t *testing.T) string {
	records := make([]*kgo.Record, len(r.records))
	for i, name := range r.records {
		record, ok := inputs[name]
		require.True(t, ok, "record %q", name)
		records[i] = &record
	}
	written, refused := r.job().run(t, records...)
	var out []string
	for _, w := range written {
		out = append(out, "`"+show(w)+"`")
	}
	for _, why := range slices.Compact(refused) { // a batch is refused as a whole, for one reason
		what, _, _ := strings.Cut(strings.ReplaceAll(why, "`", ""), ";")
		out = append(out, "refused: `"+what+"`")
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, "<br>")
}

func TestPageShowsTheRecordsThatItsTablesBeginWith(t *testing.T) {
	lines, _ := readPage(t)
	for name, record := range inputs {
		require.Contains(t, lines, name+"   "+show(&record))
	}
}

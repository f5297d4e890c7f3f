package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var updateFields = flag.Bool("fields.update", false, "write docs/fields.md anew")

const fieldsPage = "../../docs/fields.md"

const fieldsHead = `# Every field

What Tidegate's components take, as the binary has it: this page is written by a test, and compared with the binary by it
(` + "`TestPageOfFieldsIsWhatTheBinaryHas`" + `). "required" has no default and has to be set; "unset" has none and need not be.
The components of Benthos itself are described by its own documentation.
`

// listed is a component as `connect list` prints it.
type listed struct {
	Name    string      `json:"name"`
	Summary string      `json:"summary"`
	Config  listedField `json:"config"`
}

type listedField struct {
	Name        string        `json:"name"`
	Kind        string        `json:"kind"`
	Description string        `json:"description"`
	Default     any           `json:"default"`
	Optional    bool          `json:"is_optional"`
	Deprecated  bool          `json:"is_deprecated"`
	Options     [][2]string   `json:"annotated_options"`
	Examples    []any         `json:"examples"`
	Children    []listedField `json:"children"`
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, printJSON(&out, v))
	return strings.TrimSpace(out.String())
}

func (f listedField) standard(t *testing.T) string {
	t.Helper()
	switch {
	case f.Default != nil:
		return "`" + asJSON(t, f.Default) + "`"
	case f.Optional:
		return "unset"
	case len(f.Children) > 0:
		return ""
	}
	return "required"
}

func (f listedField) meaning(t *testing.T) string {
	t.Helper()
	text := strings.ReplaceAll(f.Description, "docs/connection.md", "[connection.md](connection.md)")
	for i, o := range f.Options {
		if i == 0 {
			text += " One of:"
		}
		text += fmt.Sprintf("<br>`%s`: %s", o[0], o[1])
	}
	var examples []string
	for _, e := range f.Examples {
		examples = append(examples, "`"+asJSON(t, e)+"`")
	}
	if len(examples) > 0 {
		text += "<br>Such as " + strings.Join(examples, " or ")
	}
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text)
}

// write puts the rows of the fields below into the page. Those of properties have a table in connection.md.
func (f listedField) write(t *testing.T, page *strings.Builder, path string) {
	t.Helper()
	for _, child := range f.Children {
		if child.Deprecated {
			continue
		}
		at := path + child.Name
		fmt.Fprintf(page, "| `%s` | %s | %s |\n", at, child.standard(t), child.meaning(t))
		if child.Kind == "array" {
			at += "[]"
		}
		if child.Name != "properties" {
			child.write(t, page, at+".")
		}
	}
}

// TestPageOfFieldsIsWhatTheBinaryHas: -fields.update writes it.
func TestPageOfFieldsIsWhatTheBinaryHas(t *testing.T) {
	got := runConnect(t, "list", "--format", "json-full")
	require.True(t, got.ok, got.err)
	var all map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(got.out), &all))
	page := &strings.Builder{}
	page.WriteString(fieldsHead)
	for _, want := range []struct{ kind, name string }{
		{"inputs", "kafka_flink_source"}, {"outputs", "kafka_flink_sink"}, {"processors", "header_filter"}, {"caches", "pebble"},
		{"caches", "checkpoint_file"}, {"caches", "checkpoint_memory"},
	} {
		var components []listed
		require.NoError(t, json.Unmarshal(all[want.kind], &components))
		found := false
		for _, c := range components {
			if c.Name != want.name {
				continue
			}
			found = true
			fmt.Fprintf(page, "\n## %s\n\n%s\n", c.Name, strings.TrimSpace(c.Summary))
			if len(c.Config.Children) == 0 {
				page.WriteString("\nIt has no fields.\n")
				continue
			}
			page.WriteString("\n| field | default | meaning |\n|---|---|---|\n")
			c.Config.write(t, page, "")
		}
		require.True(t, found, want.name)
	}
	if *updateFields {
		require.NoError(t, os.WriteFile(fieldsPage, []byte(page.String()), 0o600))
		return
	}
	written, err := os.ReadFile(fieldsPage)
	require.NoError(t, err)
	require.Equal(t, page.String(), string(written), "write it anew: go test ./cmd/connect -run TestPageOfFields -fields.update")
}

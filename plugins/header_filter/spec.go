package headerfilter

import (
	_ "embed"

	"github.com/redpanda-data/benthos/v4/public/service"

	// The lint rules use its Bloblang functions.
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"

	"github.com/tidegate/tidegate/internal/benthosx"
)

// Field names and values.
const (
	fieldHeadersFrom = "headers_from"
	fieldOnMismatch  = "on_mismatch"

	fromMetadata = "metadata"
	mismatchDrop = "drop"
	mismatchMark = "mark"
)

//go:embed header_filter.md
var description string

func init() {
	service.MustRegisterProcessor("header_filter", spec(), newProcessor)
}

func spec() *service.ConfigSpec {
	return service.NewConfigSpec().
		Version("0.1.0").
		Categories("Utility").
		Summary("Keeps the messages whose record headers match an expression, and drops or marks the others.").
		Description(description).
		Fields(benthosx.HeaderExpressionFields()...).
		Fields(
			service.NewStringField(fieldHeadersFrom).Default("@kafka_headers").
				Description("The metadata that holds the headers, a list of `{key, value}` objects as `kafka_flink_source` sets it. A message without it is judged by its metadata, each as a header under its own name, as always with `metadata`.").
				Example("@my_headers").Example(fromMetadata).
				LintRule(`
root = if this.string() != "metadata" && !this.string().re_match("^@.+") {
  "headers_from: %v is neither the name of metadata, such as @kafka_headers, nor metadata".format(this.string().quote())
}`),
			service.NewStringAnnotatedEnumField(fieldOnMismatch, map[string]string{
				mismatchDrop: "The message is dropped, and counts as delivered.",
				mismatchMark: "The message goes on with the metadata `header_filter_match` set to false. On one that matches nothing is set.",
			}).Default(mismatchDrop).Description("What happens to a message that does not match."),
		).
		Example("Keep toys and books, but no tests", "Evaluated from left to right: a header depart that is toy or book, and no header env that is test.", `
pipeline:
  processors:
    - header_filter: { expression: "depart:toy|depart:book&!env:test" }
`).
		Example("Send what does not match elsewhere", "Precedence, parentheses and more kinds of terms come with the language extended.", `
pipeline:
  processors:
    - header_filter:
        expression: '(depart in (toy, book) | priority >= 5) & !env:test'
        language: extended
        on_mismatch: mark

output:
  switch:
    cases:
      - check: '@header_filter_match == false'
        output: { file: { path: ./others.jsonl, codec: lines } }
      - output: { file: { path: ./orders.jsonl, codec: lines } }
`)
}

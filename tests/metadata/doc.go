// Package metadata holds docs/metadata.md against what source, Benthos and sink do: it runs every row of the page's
// tables as a pipeline over an embedded broker and compares what is written, and copies awkward records over a real
// Kafka. The page comes in, nothing goes out; only tests live here.
package metadata

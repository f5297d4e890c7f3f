package main

import (
	"bytes"
	"io"
	"strings"

	"github.com/urfave/cli/v2"
)

// helpExamples puts components that this binary has into the examples of Benthos's help, which name some that it has not.
var helpExamples = strings.NewReplacer(
	"create kafka//file ", "create kafka_flink_source//kafka_flink_sink ",
	"create stdin/bloblang,awk/nats", "create stdin/mapping,header_filter/kafka_flink_sink",
	"create file,http_server/protobuf/http_client", "create file,http_server/mapping/http_client",
)

// mendHelp has every help text go through helpExamples: Benthos's texts themselves are out of reach.
func mendHelp() {
	plain := cli.HelpPrinter
	cli.HelpPrinter = func(w io.Writer, template string, data any) {
		var text bytes.Buffer
		plain(&text, template, data)
		_, _ = io.WriteString(w, helpExamples.Replace(text.String()))
	}
}

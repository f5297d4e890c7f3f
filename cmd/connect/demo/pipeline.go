package demo

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"text/template"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/devbroker"
)

const (
	topicIn    = "orders"
	topicOut   = "orders-clean"
	partitions = 4
	// interval is the time between checkpoints.
	interval = 200 * time.Millisecond
	// paceTick is how often the pipeline's rate limit gives out new permits: often, so that nothing waits for long.
	paceTick = 20 * time.Millisecond
	// workFor is how long the pipeline is to take without kills, whatever the number of records.
	workFor = 5 * time.Second
)

//go:embed pipeline.yaml
var pipelineYAML string

var pipelineTemplate = template.Must(template.New("pipeline").Parse(pipelineYAML))

// renderPipeline returns the pipeline's YAML for a broker and a folder for its state.
func renderPipeline(bootstrap, stateDir string, records int64) ([]byte, error) {
	var out bytes.Buffer
	err := pipelineTemplate.Execute(&out, map[string]any{
		"Bootstrap": bootstrap,
		"StateDir":  stateDir,
		"From":      topicIn,
		"To":        topicOut,
		"Interval":  interval,
		"PerTick":   max(1, records/int64(workFor/paceTick)),
		"Tick":      paceTick,
	})
	if err != nil {
		return nil, fmt.Errorf("writing the pipeline: %w", err)
	}
	return out.Bytes(), nil
}

// expectation is what the pipeline is to make of a load: cancelled orders left out, the others with their VAT, key,
// headers and timestamp as they were.
func expectation(load devbroker.Load) devbroker.Expectation {
	return devbroker.Expectation{
		Records: load.Records,
		Wanted:  func(n int64) bool { return !devbroker.Cancelled(n) },
		Intact: func(n int64, r *kgo.Record) error {
			if err := load.SameEnvelope(n, r); err != nil {
				return err
			}
			return checkValue(n, r.Value)
		},
	}
}

// order is the value of a record behind the pipeline.
type order struct {
	N        int64   `json:"n"`
	Customer string  `json:"customer"`
	Status   *string `json:"status"`
	Cents    int64   `json:"cents"`
	VATCents int64   `json:"vat_cents"`
}

func checkValue(n int64, value []byte) error {
	var got order
	if err := json.Unmarshal(value, &got); err != nil {
		return fmt.Errorf("value %q: %w", value, err)
	}
	cents := devbroker.Cents(n)
	if got.N != n || got.Customer == "" || got.Status != nil || got.Cents != cents || got.VATCents != cents*19/100 {
		return fmt.Errorf("value is %s", value)
	}
	return nil
}

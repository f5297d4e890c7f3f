package kafkaflinksink

import (
	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/kafkasink"
)

// build makes records in memory of their own.
func (b *recordBuilder) build(batch service.MessageBatch) ([]kafkasink.Record, error) {
	records := make([]kafkasink.Record, len(batch))
	if err := b.into(records, batch); err != nil {
		return nil, err
	}
	return records, nil
}

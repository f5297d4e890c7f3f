package kafkaflinksource

import (
	"github.com/tidegate/tidegate/internal/benthosx"
	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkasource"
)

// Settings are what a config says, for a command that looks at a source and does not run it.
type Settings struct {
	Reader kafkasource.Config
	// Checkpoint is nil without checkpoints; Store is the label of their cache.
	Checkpoint *checkpoint.Config
	Store      string
}

// ParseSettings parses the config of one source, as its start would. Its error names every field that is wrong.
func ParseSettings(key string, config map[string]any) (Settings, error) {
	conf, err := benthosx.ParseMap(spec(), config)
	if err != nil {
		return Settings{}, err
	}
	c, err := parseConfig(conf)
	if err != nil {
		return Settings{}, err
	}
	c.reader.Key = key
	return Settings{Reader: c.reader, Checkpoint: c.checkpoint, Store: c.store}, nil
}

package kafkaflinksource

import (
	"errors"
	"math"
	"strings"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/benthosx"
	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/internal/kafkasource"
	"github.com/tidegate/tidegate/internal/offsets"
	"github.com/tidegate/tidegate/internal/splits"
)

const (
	// minInterval is the least interval of anything that is repeated.
	minInterval = 10 * time.Millisecond
	// minDiscovery is the least interval of discovery, each of which is a question to a broker.
	minDiscovery = 100 * time.Millisecond
	// defaultAutoCommit is Kafka's auto.commit.interval.ms.
	defaultAutoCommit = 5 * time.Second
)

// config is the parsed config of one input.
type config struct {
	reader   kafkasource.Config
	metadata []string
	// headers are those that become metadata of their own.
	headers headerNames
	// checkpoint is nil without checkpoints; store and retained belong to it.
	checkpoint *checkpoint.Config
	store      string
	retained   int
}

// parseConfig reads a config without any side effect. Its error names every field that is wrong.
func parseConfig(conf *service.ParsedConfig) (config, error) {
	p := &benthosx.Parser{Conf: conf}
	connection, err := benthosx.ConnectionFromConfig(conf, kafkaclient.Source)
	p.Join(err)
	group, subscription, now := p.String(fieldGroupID), subscriptionFromConfig(p), time.Now()
	isolation := p.Enum(fieldIsolationLevel)
	c := config{
		reader: kafkasource.Config{
			Connection:   connection,
			Subscription: subscription,
			Share: splits.Share{
				Parallelism: int32(p.Int(1, fieldParallelism)), Index: int32(p.Int(0, fieldIndex)),
			},
			Group:         group,
			CommitOffsets: p.Bool(fieldCommitOffsets),
			CheckGroup:    p.Bool(fieldCheckGroup),
			Start:         startFromConfig(p, group, subscription, now),
			Stop:          stopFromConfig(p, group, subscription, now),
			Restore:       offsets.Restore{Policy: offsets.OnOutOfRange(p.Enum(fieldCheckpoint, fieldOnOutOfRange))},
			ReadCommitted: isolation == readCommitted,
		},
		metadata: p.List(fieldMetadata),
		headers:  headerNamesFromConfig(p),
	}
	if isolation != readCommitted && isolation != readUncommitted {
		p.Fail([]string{fieldIsolationLevel}, "%q is not %s or %s", isolation, readUncommitted, readCommitted)
	}
	for _, m := range c.metadata {
		if !knownMetadata(m) {
			p.Fail([]string{fieldMetadata}, "%q is not one of %s", m, strings.Join(metadataNames, ", "))
		}
	}
	c.reader.Filter = filterFromConfig(p)
	p.Join(c.reader.Share.Validate())
	if c.reader.CheckGroup && strings.TrimSpace(group) == "" {
		p.Fail([]string{fieldCheckGroup}, "it has no effect without group_id; set group_id, or remove it")
	}
	c.reader.DiscoveryInterval = discoveryFromConfig(p)
	propertiesFromConfig(p, &c)
	checkpointFromConfig(p, &c)
	autoCommitFromConfig(p, &c)
	return c, errors.Join(p.Errs...)
}

// discoveryFromConfig returns the interval, which is 0 or less where discovery is off, as in Flink.
func discoveryFromConfig(p *benthosx.Parser) time.Duration {
	d := p.Duration(math.MinInt64, fieldDiscovery)
	if d > 0 && d < minDiscovery {
		p.Fail([]string{fieldDiscovery}, "%v is less than %v, the least there is but for 0s, which turns discovery off", d, minDiscovery)
	}
	return d
}

// propertiesFromConfig is what a field and one of Kafka's own properties can both say.
func propertiesFromConfig(p *benthosx.Parser, c *config) {
	properties := c.reader.Connection.Properties
	if prefix := p.String(fieldClientIDPrefix); prefix != "" {
		if id := properties.Text("client.id"); id != "" && id != prefix {
			p.Fail([]string{fieldClientIDPrefix}, "%q, and properties.client.id is %q; remove one of them", prefix, id)
		}
		c.reader.Connection = c.reader.Connection.WithClientID(prefix)
	}
	c.reader.Rack = p.String(fieldRack)
	if rack := properties.Text("client.rack"); rack != "" {
		if c.reader.Rack != "" && rack != c.reader.Rack {
			p.Fail([]string{fieldRack}, "%q, and properties.client.rack is %q; remove one of them", c.reader.Rack, rack)
		}
		c.reader.Rack = rack
	}
	if level := properties.Text("isolation.level"); level != "" {
		if c.reader.ReadCommitted && level != readCommitted {
			p.Fail([]string{fieldIsolationLevel}, "%s, and properties.isolation.level is %s; remove one of them", readCommitted, level)
		}
		c.reader.ReadCommitted = level == readCommitted
	}
	if n, ok := properties.Int("max.poll.records"); ok {
		c.reader.MaxBatch = int(n)
	}
}

func checkpointFromConfig(p *benthosx.Parser, c *config) {
	at := func(name string) []string { return []string{fieldCheckpoint, name} }
	c.store = strings.TrimSpace(p.String(at(fieldStore)...))
	if !p.Conf.Contains(fieldCheckpoint, fieldInterval) {
		// Somebody who names a store expects what it is for.
		if c.store != "" {
			p.Fail(at(fieldStore), "%q has no effect without checkpoint.interval, which turns checkpoints on; set it, such as 5s, "+
				"or remove checkpoint.store", c.store)
		}
		return
	}
	if c.store == "" {
		p.Fail(at(fieldStore), "required: the label of the cache that keeps the checkpoints")
	}
	c.retained = p.Int(1, at(fieldRetained)...)
	onStop := p.Enum(at(fieldOnStop)...)
	if onStop != stopRetain && onStop != stopDelete {
		p.Fail(at(fieldOnStop), "%q is not %s or %s", onStop, stopRetain, stopDelete)
	}
	// What the mode promises depends on the sinks; whether it fits them the coordinator checks, which knows them all.
	mode := p.Enum(at(fieldMode)...)
	if mode != exactlyOnce && mode != atLeastOnce {
		p.Fail(at(fieldMode), "%q is not %s or %s", mode, exactlyOnce, atLeastOnce)
	}
	c.checkpoint = &checkpoint.Config{
		AtLeastOnce:       mode == atLeastOnce,
		Interval:          p.Duration(minInterval, at(fieldInterval)...),
		MinPause:          p.Duration(0, at(fieldMinPause)...),
		Timeout:           p.Duration(minInterval, at(fieldTimeout)...),
		MaxConcurrent:     p.Int(1, at(fieldMaxConcurrent)...),
		TolerableFailures: p.Int(0, at(fieldTolerableFailures)...),
		MaxRestarts:       p.Int(-1, at(fieldMaxRestarts)...),
		AllowNonRestored:  p.Bool(at(fieldAllowNonRestored)...),
		DeleteOnStop:      onStop == stopDelete,

		IgnoreMissingState: p.Bool(fieldStartup, fieldIgnoreState),
	}
	c.reader.CheckpointInterval = c.checkpoint.Interval
	if c.checkpoint.MinPause > 0 && c.checkpoint.MaxConcurrent > 1 {
		p.Fail(at(fieldMinPause), "it means one checkpoint at a time, and checkpoint.max_concurrent is %d", c.checkpoint.MaxConcurrent)
	}
}

// autoCommitFromConfig refuses what has no effect, as the lints do: who writes it down relies on it.
func autoCommitFromConfig(p *benthosx.Parser, c *config) {
	at := func(name string) []string { return []string{fieldAutoCommit, name} }
	enabled, every := true, defaultAutoCommit
	haveEnabled, haveInterval := p.Conf.Contains(at(fieldEnabled)...), p.Conf.Contains(at(fieldInterval)...)
	if haveEnabled {
		enabled = p.Bool(at(fieldEnabled)...)
	}
	if haveInterval {
		every = p.Duration(minInterval, at(fieldInterval)...)
	}
	switch {
	case !haveEnabled && !haveInterval:
	case p.Conf.Contains(fieldCheckpoint, fieldInterval):
		p.Fail([]string{fieldAutoCommit}, "it contradicts checkpoint.interval: with checkpoints, positions are committed after "+
			"each of them; remove one of the two")
	case enabled && strings.TrimSpace(c.reader.Group) == "":
		p.Fail([]string{fieldAutoCommit}, "there is no group_id to commit to; set it, or remove auto_commit")
	}
	if enabled {
		c.reader.AutoCommit = every
	}
}

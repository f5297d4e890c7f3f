package kafkaflinksource

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/benthosx"
	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkasource"
	"github.com/tidegate/tidegate/internal/offsets"
	"github.com/tidegate/tidegate/internal/splits"
)

// config is the parsed config of one input.
type config struct {
	reader     kafkasource.Config
	metadata   []string
	checkpoint checkpoint.Config
	store      string
	retained   int
}

// parser collects the errors of fields, so that one start-up names them all.
type parser struct {
	conf *service.ParsedConfig
	errs []error
}

func (p *parser) fail(path []string, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s: %s", strings.Join(path, "."), fmt.Sprintf(format, args...)))
}

func (p *parser) str(path ...string) string {
	s, err := p.conf.FieldString(path...)
	if err != nil {
		p.errs = append(p.errs, err)
	}
	return s
}

// enum is a string whose case does not matter, as Benthos's lint of such fields has it.
func (p *parser) enum(path ...string) string { return strings.ToLower(p.str(path...)) }

func (p *parser) duration(least time.Duration, path ...string) time.Duration {
	s := p.str(path...)
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		p.fail(path, "%q is not a duration, such as 500ms, 5s or 10m", s)
	case d < least:
		p.fail(path, "%v is less than %v, the least there is", d, least)
	}
	return d
}

func (p *parser) integer(least int, path ...string) int {
	n, err := p.conf.FieldInt(path...)
	switch {
	case err != nil:
		v, _ := p.conf.FieldAny(path...)
		p.fail(path, "%v is not a whole number", v)
	case n < least:
		p.fail(path, "%d is less than %d, the least there is", n, least)
	}
	return n
}

func (p *parser) boolean(path ...string) bool {
	b, err := p.conf.FieldBool(path...)
	if err != nil {
		v, _ := p.conf.FieldAny(path...)
		p.fail(path, "%v is neither true nor false", v)
	}
	return b
}

func (p *parser) list(path ...string) []string {
	l, err := p.conf.FieldStringList(path...)
	if err != nil {
		p.errs = append(p.errs, err)
	}
	return l
}

// parseConfig reads a config without any side effect. Its error names every field that is wrong.
func parseConfig(conf *service.ParsedConfig) (config, error) {
	p := &parser{conf: conf}
	connection, err := benthosx.ConnectionFromConfig(conf)
	if err != nil {
		p.errs = append(p.errs, err)
	}
	group := p.str(fieldGroupID)
	isolation := p.enum(fieldIsolationLevel)
	c := config{
		reader: kafkasource.Config{
			Connection:    connection.WithClientID(p.str(fieldClientIDPrefix)),
			Subscription:  splits.Subscription{Topics: p.list(fieldTopics)},
			Group:         group,
			CommitOffsets: p.boolean(fieldCommitOffsets),
			Start: offsets.Start{
				Mode: offsets.StartMode(p.enum(fieldStartup, fieldMode)), Group: group,
				Reset: offsets.Reset(p.enum(fieldStartup, fieldOffsetReset)),
			},
			Stop:          offsets.Stop{Mode: offsets.StopMode(p.enum(fieldBounded, fieldMode))},
			Restore:       offsets.Restore{Policy: offsets.OnOutOfRange(p.enum(fieldCheckpoint, fieldOnOutOfRange))},
			ReadCommitted: isolation == readCommitted,
		},
		metadata: p.list(fieldMetadata),
	}
	if isolation != readCommitted && isolation != readUncommitted {
		p.fail([]string{fieldIsolationLevel}, "%q is not %s or %s", isolation, readUncommitted, readCommitted)
	}
	for _, m := range c.metadata {
		if !knownMetadata(m) {
			p.fail([]string{fieldMetadata}, "%q is not one of %s", m, strings.Join(metadataNames, ", "))
		}
	}
	p.checkpoint(&c)
	return c, errors.Join(p.errs...)
}

func (p *parser) checkpoint(c *config) {
	at := func(name string) []string { return []string{fieldCheckpoint, name} }
	if !p.conf.Contains(fieldCheckpoint, fieldInterval) {
		p.fail(at(fieldInterval), "required: this version reads with checkpoints only; set it, such as 5s, and checkpoint.store")
		return
	}
	c.store = strings.TrimSpace(p.str(at(fieldStore)...))
	if c.store == "" {
		p.fail(at(fieldStore), "required: the label of the cache that keeps the checkpoints")
	}
	c.retained = p.integer(1, at(fieldRetained)...)
	onStop := p.enum(at(fieldOnStop)...)
	if onStop != stopRetain && onStop != stopDelete {
		p.fail(at(fieldOnStop), "%q is not %s or %s", onStop, stopRetain, stopDelete)
	}
	// What the mode promises depends on the sinks; whether it fits them is checked where the whole config is known.
	if mode := p.enum(at(fieldMode)...); mode != exactlyOnce && mode != atLeastOnce {
		p.fail(at(fieldMode), "%q is not %s or %s", mode, exactlyOnce, atLeastOnce)
	}
	c.checkpoint = checkpoint.Config{
		Interval:          p.duration(10*time.Millisecond, at(fieldInterval)...),
		MinPause:          p.duration(0, at(fieldMinPause)...),
		Timeout:           p.duration(10*time.Millisecond, at(fieldTimeout)...),
		MaxConcurrent:     p.integer(1, at(fieldMaxConcurrent)...),
		TolerableFailures: p.integer(0, at(fieldTolerableFailures)...),
		MaxRestarts:       p.integer(-1, at(fieldMaxRestarts)...),
		AllowNonRestored:  p.boolean(at(fieldAllowNonRestored)...),
		DeleteOnStop:      onStop == stopDelete,
	}
	if c.checkpoint.MinPause > 0 && c.checkpoint.MaxConcurrent > 1 {
		p.fail(at(fieldMinPause), "it means one checkpoint at a time, and checkpoint.max_concurrent is %d", c.checkpoint.MaxConcurrent)
	}
}

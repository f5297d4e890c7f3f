package cache

import (
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/benthosx"
)

const (
	fieldPath         = "path"
	fieldPrefix       = "prefix"
	fieldSync         = "sync"
	fieldDefaultTTL   = "default_ttl"
	fieldCacheSize    = "cache_size"
	fieldMemtableSize = "memtable_size"

	prefixPattern = `^[A-Za-z0-9_.:/-]*$`
)

//go:embed cache_pebble.md
var pebbleDescription string

func init() {
	service.MustRegisterCache("pebble", pebbleSpec(), func(conf *service.ParsedConfig, res *service.Resources) (service.Cache, error) {
		c, err := pebbleFromConfig(process, conf, res)
		if err != nil {
			return nil, err
		}
		register(res, c)
		return c, nil
	})
}

func pebbleSpec() *service.ConfigSpec {
	return service.NewConfigSpec().
		Version("0.1.0").
		Categories("Local").
		Summary("Keeps items in a Pebble database on the local disk, and the checkpoints of a stream beside them.").
		Description(pebbleDescription).
		Fields(
			pathField(),
			service.NewStringField(fieldPrefix).Default("").
				Description("Separates the items of caches that share a `path`: each sees only those under its own prefix. "+
					"Checkpoints are not under a prefix.").
				Example("seen").
				LintRule(fmt.Sprintf(`root = if !this.string().re_match(%q) {
  ["prefix %%v: only letters, digits and _ . : / - are allowed".format(this.string().quote())]
}`, prefixPattern)),
			service.NewBoolField(fieldSync).Default(true).
				Description("Whether a write returns only when the item would survive a power cut. Checkpoints always do."),
			service.NewDurationField(fieldDefaultTTL).Optional().
				Description("How long an item is kept where whoever writes it does not say, as `dedupe` does not. Without it, for ever.").
				Example("24h").
				LintRule(`root = if (this.string().parse_duration()).catch(0) <= 0 {
  ["default_ttl %v: not a positive duration, such as 90s or 24h".format(this.string().quote())]
}`),
			sizeField(fieldCacheSize, "32MiB", "How much of the tables is kept in memory for reading, for all caches on the `path`."),
			sizeField(fieldMemtableSize, "8MiB", "How much is gathered in memory before a table is written, for all caches on the "+
				"`path`. Up to twice as much is in use."),
		).
		Example("State of a stream, and a deduplication cache beside it",
			"Both share one database in `./data/state`. What `dedupe` has seen is forgotten after a day.", `
input:
  kafka_flink_source:
    bootstrap_servers: [ "localhost:9092" ]
    topics: [ orders ]
    checkpoint: { interval: 5s, store: state }

pipeline:
  processors:
    - dedupe:
        cache: seen
        key: ${! @kafka_key }

output:
  kafka_flink_sink:
    bootstrap_servers: [ "localhost:9092" ]
    topic: orders-clean

cache_resources:
  - label: state
    pebble: { path: ./data/state }
  - label: seen
    pebble: { path: ./data/state, prefix: seen, default_ttl: 24h }
`)
}

func pathField() *service.ConfigField {
	return service.NewStringField(fieldPath).
		Description("The directory, made if it is not there. One process at a time can use it, and it must be on a disk that " +
			"survives that process: a volume, in a container.").
		Example("./data/state").
		LintRule(`root = if this.string().trim() == "" { ["path is empty: it must name a directory, such as ./data/state"] }`)
}

func sizeField(name, def, description string) *service.ConfigField {
	return service.NewStringField(name).Default(def).Advanced().Description(description).
		LintRule(fmt.Sprintf(`root = if !this.string().re_match("(?i)^[0-9]+(\\.[0-9]+)?\\s*([kmg]i?b?|b)?$") {
  ["%[1]s %%v: not a size, such as %[2]s".format(this.string().quote())]
}`, name, def))
}

// pebbleCache is the `pebble` cache. It opens its database at first use: Benthos builds caches that it never closes,
// for linting and connection tests.
type pebbleCache struct {
	lease      *lease
	space      []byte
	sync       bool
	defaultTTL *time.Duration
}

func pebbleFromConfig(r *registry, conf *service.ParsedConfig, res *service.Resources) (*pebbleCache, error) {
	path, err := pathFromConfig(conf)
	if err != nil {
		return nil, err
	}
	prefix, err := conf.FieldString(fieldPrefix)
	if err != nil {
		return nil, err
	}
	if !regexp.MustCompile(prefixPattern).MatchString(prefix) {
		return nil, fmt.Errorf("prefix %q: only letters, digits and _ . : / - are allowed", prefix)
	}
	c := &pebbleCache{space: entrySpace(prefix)}
	if c.sync, err = conf.FieldBool(fieldSync); err != nil {
		return nil, err
	}
	if conf.Contains(fieldDefaultTTL) {
		ttl, err := conf.FieldDuration(fieldDefaultTTL)
		if err != nil {
			return nil, err
		}
		if ttl <= 0 {
			return nil, fmt.Errorf("default_ttl %v: not a positive duration, such as 90s or 24h", ttl)
		}
		c.defaultTTL = &ttl
	}
	size, err := sizesFromConfig(conf)
	if err != nil {
		return nil, err
	}
	log := benthosx.Logger(res)
	h := newHealth(path, log, res.Metrics())
	c.lease = newLease(r, request{
		kind: "pebble", label: res.Label(), path: path, log: log, health: h, open: openDatabase(size, log, h),
		settings: fmt.Sprintf("cache_size %s and memtable_size %s", humanize.IBytes(size.cache), humanize.IBytes(size.memtable)),
	})
	return c, nil
}

func pathFromConfig(conf *service.ParsedConfig) (string, error) {
	path, err := conf.FieldString(fieldPath)
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(path) == "" {
		return "", fmt.Errorf("path is empty: it must name a directory, such as ./data/state")
	}
	return path, nil
}

func sizesFromConfig(conf *service.ParsedConfig) (s sizes, err error) {
	for _, f := range []struct {
		name     string
		to       *uint64
		min, max uint64
	}{
		{fieldCacheSize, &s.cache, 1 << 20, 1 << 40},
		{fieldMemtableSize, &s.memtable, 1 << 20, 1 << 30},
	} {
		text, err := conf.FieldString(f.name)
		if err != nil {
			return s, err
		}
		if *f.to, err = humanize.ParseBytes(text); err != nil {
			return s, fmt.Errorf("%s %q: not a size, such as 32MiB: %w", f.name, text, err)
		}
		if *f.to < f.min || *f.to > f.max {
			return s, fmt.Errorf("%s %q: must be between %s and %s", f.name, text, humanize.IBytes(f.min), humanize.IBytes(f.max))
		}
	}
	return s, nil
}

// enter returns the open database; leave ends its use.
func (c *pebbleCache) enter(ctx context.Context) (*database, error) {
	o, err := c.lease.enter(ctx)
	if err != nil {
		return nil, err
	}
	return o.(*database), nil
}

func (c *pebbleCache) entry(d *database, key string, value []byte, ttl *time.Duration) entry {
	if ttl == nil {
		ttl = c.defaultTTL
	}
	return entry{key: entryKey(c.space, key), value: value, expires: expiryTime(d.now(), ttl)}
}

// Get returns a copy of an item.
func (c *pebbleCache) Get(ctx context.Context, key string) ([]byte, error) {
	d, err := c.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer c.lease.leave()
	return d.getEntry(entryKey(c.space, key))
}

// Set writes an item.
func (c *pebbleCache) Set(ctx context.Context, key string, value []byte, ttl *time.Duration) error {
	d, err := c.enter(ctx)
	if err != nil {
		return err
	}
	defer c.lease.leave()
	return d.setEntries(c.sync, c.entry(d, key, value, ttl))
}

// SetMulti writes all items or none.
func (c *pebbleCache) SetMulti(ctx context.Context, items ...service.CacheItem) error {
	d, err := c.enter(ctx)
	if err != nil {
		return err
	}
	defer c.lease.leave()
	entries := make([]entry, 0, len(items))
	for _, i := range items {
		entries = append(entries, c.entry(d, i.Key, i.Value, i.TTL))
	}
	return d.setEntries(c.sync, entries...)
}

// Add writes an item unless there is one, in one atomic step.
func (c *pebbleCache) Add(ctx context.Context, key string, value []byte, ttl *time.Duration) error {
	d, err := c.enter(ctx)
	if err != nil {
		return err
	}
	defer c.lease.leave()
	return d.addEntry(c.sync, c.entry(d, key, value, ttl))
}

// Delete removes an item, and is content where there is none.
func (c *pebbleCache) Delete(ctx context.Context, key string) error {
	d, err := c.enter(ctx)
	if err != nil {
		return err
	}
	defer c.lease.leave()
	return d.deleteEntry(c.sync, entryKey(c.space, key))
}

// Close returns the database once nobody uses it through this cache any more.
func (c *pebbleCache) Close(ctx context.Context) error { return c.lease.close(ctx) }

// OpenStore implements StoreProvider.
func (c *pebbleCache) OpenStore(ctx context.Context, streamID string, retained int) (Store, error) {
	return openOn(ctx, c.lease, streamID, retained)
}

func (c *pebbleCache) live() bool { return c.lease.live() }

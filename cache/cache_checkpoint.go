package cache

import (
	"context"
	_ "embed"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/benthosx"
)

//go:embed cache_checkpoint_file.md
var checkpointFileDescription string

//go:embed cache_checkpoint_memory.md
var checkpointMemoryDescription string

func init() {
	service.MustRegisterCache("checkpoint_file", checkpointFileSpec(),
		func(conf *service.ParsedConfig, res *service.Resources) (service.Cache, error) {
			c, err := checkpointFileFromConfig(process, conf, res)
			if err != nil {
				return nil, err
			}
			register(res, c)
			return c, nil
		})
	service.MustRegisterCache("checkpoint_memory", checkpointMemorySpec(),
		func(_ *service.ParsedConfig, res *service.Resources) (service.Cache, error) {
			c := newCheckpointMemory(res)
			register(res, c)
			return c, nil
		})
}

func checkpointFileSpec() *service.ConfigSpec {
	return service.NewConfigSpec().
		Version("0.1.0").
		Categories("Local").
		Summary("Keeps the checkpoints of a stream as files in a directory. It holds nothing else: it is no cache for processors.").
		Description(checkpointFileDescription).
		Fields(pathField()).
		Example("Checkpoints as files", "Each checkpoint is one file in `./data/checkpoints`; the newest three are kept.", `
input:
  kafka_flink_source:
    bootstrap_servers: [ "localhost:9092" ]
    topics: [ orders ]
    checkpoint: { interval: 30s, store: state, retained: 3 }

output:
  kafka_flink_sink:
    bootstrap_servers: [ "localhost:9092" ]
    topic: orders-copy

cache_resources:
  - label: state
    checkpoint_file: { path: ./data/checkpoints }
`)
}

func checkpointMemorySpec() *service.ConfigSpec {
	return service.NewConfigSpec().
		Version("0.1.0").
		Categories("Local").
		Summary("Keeps the checkpoints of a stream in memory, for trying things out: they are lost when the process ends.").
		Description(checkpointMemoryDescription).
		// Benthos does not look for unknown fields where there are none at all.
		LintRule(`root = if this.type() == "object" && this.length() > 0 {
  ["field %v not recognised: checkpoint_memory has no fields".format(this.keys().sort().index(0))]
}`).
		Example("Trying out a pipeline", "Failures while the process runs are survived, the end of the process is not.", `
input:
  kafka_flink_source:
    bootstrap_servers: [ "localhost:9092" ]
    topics: [ orders ]
    startup: { mode: earliest-offset }
    checkpoint: { interval: 1s, store: state }

output:
  kafka_flink_sink:
    bootstrap_servers: [ "localhost:9092" ]
    topic: orders-copy

cache_resources:
  - label: state
    checkpoint_memory: {}
`)
}

// onlyCheckpoints refuses what a processor asks of a cache that holds checkpoints alone. Writing its items beside the
// records would give them neither the speed nor the expiry that one expects of a cache.
type onlyCheckpoints struct{ kind, label string }

func (o onlyCheckpoints) refuse() error {
	return fmt.Errorf("cache %q is a %s, which holds checkpoints only: give processors and outputs a cache of their own, such "+
		"as pebble or memory", o.label, o.kind)
}

// Get always fails, as Set, Add and Delete do.
func (o onlyCheckpoints) Get(context.Context, string) ([]byte, error) { return nil, o.refuse() }

// Set always fails.
func (o onlyCheckpoints) Set(context.Context, string, []byte, *time.Duration) error {
	return o.refuse()
}

// Add always fails.
func (o onlyCheckpoints) Add(context.Context, string, []byte, *time.Duration) error {
	return o.refuse()
}

// Delete always fails.
func (o onlyCheckpoints) Delete(context.Context, string) error { return o.refuse() }

// checkpointFile is the `checkpoint_file` cache.
type checkpointFile struct {
	onlyCheckpoints
	lease *lease
}

func checkpointFileFromConfig(r *registry, conf *service.ParsedConfig, res *service.Resources) (*checkpointFile, error) {
	path, err := pathFromConfig(conf)
	if err != nil {
		return nil, err
	}
	const kind = "checkpoint_file"
	log := benthosx.Logger(res)
	return &checkpointFile{
		onlyCheckpoints: onlyCheckpoints{kind, res.Label()},
		lease: newLease(r, request{
			kind: kind, label: res.Label(), path: path, log: log, open: openRecordDir(log), health: newHealth(path, log, res.Metrics()),
		}),
	}, nil
}

// Close returns the directory.
func (c *checkpointFile) Close(ctx context.Context) error { return c.lease.close(ctx) }

// OpenStore implements StoreProvider.
func (c *checkpointFile) OpenStore(ctx context.Context, streamID string, retained int) (Store, error) {
	return openOn(ctx, c.lease, streamID, retained)
}

func (c *checkpointFile) live() bool { return c.lease.live() }

// memoryKey is where the memory behind a label is found among the generics.
type memoryKey struct{ label string }

// checkpointMemory is the `checkpoint_memory` cache.
type checkpointMemory struct {
	onlyCheckpoints
	place  *memoryPlace
	closed atomic.Bool
}

func newCheckpointMemory(res *service.Resources) *checkpointMemory {
	place, _ := res.GetOrSetGeneric(memoryKey{res.Label()}, newMemoryPlace())
	return &checkpointMemory{
		onlyCheckpoints: onlyCheckpoints{"checkpoint_memory", res.Label()},
		place:           place.(*memoryPlace),
	}
}

// Close leaves the records for the cache that a config reload builds in its place.
func (c *checkpointMemory) Close(context.Context) error {
	c.closed.Store(true)
	return nil
}

// OpenStore implements StoreProvider.
func (c *checkpointMemory) OpenStore(ctx context.Context, streamID string, retained int) (Store, error) {
	return takeSeat(ctx, &recordStore{
		claim: c.place, seat: c.place.seatOf(streamID), retained: retained, id: c.place.id,
		name: fmt.Sprintf("%s cache %q", c.kind, c.label),
	})
}

func (c *checkpointMemory) live() bool { return !c.closed.Load() }

package cache

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	_ "github.com/redpanda-data/benthos/v4/public/components/io"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// TestMain runs a child's part where the test binary was started as one; see process_test.go.
func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(runChild(role))
	}
	os.Exit(m.Run())
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// clock is a wall clock that stands still until it is told.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.UnixMilli(1_700_000_000_000)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// testRegistry is what a new process would have, on a file system of the test. It fails the test on a fatal error.
func testRegistry(t testing.TB, fsys vfs.FS) *registry {
	t.Helper()
	return &registry{
		fs:         fsys,
		canonical:  func(p string) (string, error) { return "/" + strings.Trim(p, "/"), nil },
		now:        newClock().now,
		fatal:      func(cause error) { t.Errorf("fatal: %v", cause) },
		sweepEvery: time.Hour,
		places:     map[string]*place{},
	}
}

// pebbleOn builds a `pebble` cache from YAML without opening it.
func pebbleOn(t *testing.T, r *registry, yaml string) *pebbleCache {
	t.Helper()
	conf, err := pebbleSpec().ParseYAML(yaml, nil)
	require.NoError(t, err)
	c, err := pebbleFromConfig(r, conf, service.MockResources())
	require.NoError(t, err)
	return c
}

func fileOn(t *testing.T, r *registry, path string) *checkpointFile {
	t.Helper()
	conf, err := checkpointFileSpec().ParseYAML("path: "+path, nil)
	require.NoError(t, err)
	c, err := checkpointFileFromConfig(r, conf, service.MockResources())
	require.NoError(t, err)
	return c
}

// storeCache is a cache that can be a state store and be closed.
type storeCache interface {
	StoreProvider
	Close(context.Context) error
}

// backends are the kinds of store; durable ones open what a file system holds at /state.
var backends = []struct {
	name    string
	durable bool
	open    func(*testing.T, *registry) storeCache
}{
	{"pebble", true, func(t *testing.T, r *registry) storeCache { return pebbleOn(t, r, "path: /state") }},
	{"checkpoint_file", true, func(t *testing.T, r *registry) storeCache { return fileOn(t, r, "/state") }},
	{"checkpoint_memory", false, func(*testing.T, *registry) storeCache { return newCheckpointMemory(service.MockResources()) }},
}

// durableBackends calls each with every backend that survives the process.
func durableBackends(t *testing.T, each func(t *testing.T, open func(*testing.T, *registry) storeCache)) {
	for _, b := range backends {
		if b.durable {
			t.Run(b.name, func(t *testing.T) { each(t, b.open) })
		}
	}
}

func mustClose(t *testing.T, c interface{ Close(context.Context) error }) {
	t.Helper()
	require.NoError(t, c.Close(t.Context()))
}

func mustOpenStore(t *testing.T, p StoreProvider, streamID string, retained int) Store {
	t.Helper()
	s, err := p.OpenStore(t.Context(), streamID, retained)
	require.NoError(t, err)
	return s
}

// latest returns the newest record as "number:data", or "none:highest".
func latest(t *testing.T, s checkpoint.Store) string {
	t.Helper()
	n, data, err := s.Latest(t.Context())
	if err != nil {
		require.ErrorIs(t, err, checkpoint.ErrNoRecord)
		return fmt.Sprintf("none:%d", n)
	}
	return fmt.Sprintf("%d:%s", n, data)
}

// powerCut returns what a disk holds after one, if it has written only what it was told to sync.
func powerCut(fsys *vfs.MemFS) *vfs.MemFS { return fsys.CrashClone(vfs.CrashCloneCfg{}) }

// powerCuts returns that, and states in which the disk has written more on its own: some, most, all.
func powerCuts(fsys *vfs.MemFS) []*vfs.MemFS {
	clones := []*vfs.MemFS{powerCut(fsys)}
	for seed, percent := range []int{30, 70, 100} {
		clones = append(clones, fsys.CrashClone(vfs.CrashCloneCfg{
			UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(uint64(seed), 7)),
		}))
	}
	return clones
}

// latestOn opens the store that a file system holds, as a new process would, and returns latest.
func latestOn(t *testing.T, fsys vfs.FS, open func(*testing.T, *registry) storeCache) string {
	t.Helper()
	got, err := tryLatestOn(t, fsys, open)
	require.NoError(t, err)
	return got
}

func tryLatestOn(t *testing.T, fsys vfs.FS, open func(*testing.T, *registry) storeCache) (string, error) {
	t.Helper()
	c := open(t, testRegistry(t, fsys))
	defer mustClose(t, c)
	s, err := c.OpenStore(t.Context(), "", 2)
	if err != nil {
		return "", err
	}
	return latest(t, s), nil
}

// lossyFS is a disk whose syncs do nothing while lossy is set, and whose lock is never held: it leaves what a process
// has that is killed between a write and its sync, for a next process to find.
type lossyFS struct {
	vfs.FS
	lossy *atomic.Bool
}

func newLossyFS(fsys vfs.FS) lossyFS { return lossyFS{FS: fsys, lossy: &atomic.Bool{}} }

func (f lossyFS) wrap(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return lossyFile{file, f}, nil
}

func (f lossyFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.wrap(f.FS.Create(name, c))
}

func (f lossyFS) ReuseForWrite(o, n string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.wrap(f.FS.ReuseForWrite(o, n, c))
}

func (f lossyFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return f.wrap(f.FS.OpenReadWrite(name, c, o...))
}

func (f lossyFS) OpenDir(name string) (vfs.File, error) { return f.wrap(f.FS.OpenDir(name)) }

func (f lossyFS) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	return f.wrap(f.FS.Open(name, o...))
}

func (f lossyFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

type lossyFile struct {
	vfs.File
	fs lossyFS
}

func (f lossyFile) Sync() error {
	if f.fs.lossy.Load() {
		return nil
	}
	return f.File.Sync()
}

func (f lossyFile) SyncTo(length int64) (bool, error) {
	if f.fs.lossy.Load() {
		return false, nil
	}
	return f.File.SyncTo(length)
}

func (f lossyFile) SyncData() error {
	if f.fs.lossy.Load() {
		return nil
	}
	return f.File.SyncData()
}

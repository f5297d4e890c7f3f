package cache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"
)

// resourcesFrom builds resources as a config file does.
func resourcesFrom(t *testing.T, yaml string) *service.Resources {
	t.Helper()
	b := service.NewResourceBuilder()
	b.SetLogger(quiet)
	require.NoError(t, b.AddYAML(yaml))
	res, stop, err := b.BuildSuspended()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stop(context.Background())) })
	return res
}

func TestStoreIsFoundByTheLabelOfItsCache(t *testing.T) {
	res := resourcesFrom(t, fmt.Sprintf(`
cache_resources:
  - label: state
    pebble: { path: %q }
  - label: files
    checkpoint_file: { path: %q }
  - label: scratch
    checkpoint_memory: {}
`, t.TempDir(), t.TempDir()))
	for label, describe := range map[string]string{
		"state": `pebble cache "state"`, "files": `checkpoint_file cache "files"`, "scratch": `checkpoint_memory cache "scratch"`,
	} {
		s, err := OpenStore(t.Context(), res, label, "stream", 2)
		require.NoError(t, err)
		require.Contains(t, s.Describe(), describe)
		require.NoError(t, s.Put(t.Context(), 1, []byte(label)))
		again, err := OpenStore(t.Context(), res, label, "stream", 2)
		require.NoError(t, err)
		require.Equal(t, "1:"+label, latest(t, again))
	}
}

func TestLabelsThatGiveNoStoreAreExplained(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	res := resourcesFrom(t, fmt.Sprintf(`
cache_resources:
  - label: mem
    memory: {}
  - label: files
    file: { directory: %q }
  - label: blocked
    pebble: { path: %q }
  - label: both
    multilevel: [ mem, blocked ]
`, t.TempDir(), file+"/state"))
	for _, tc := range []struct {
		label string
		is    error
		says  string
	}{
		{"nowhere", ErrNoSuchCache, `checkpoint.store: "nowhere": no cache has this label. Add one: cache_resources: [ { label: nowhere, pebble:`},
		{"mem", ErrNotAStore, `checkpoint.store: "mem": this cache cannot hold checkpoints. A record must be written atomically`},
		{"files", ErrNotAStore, "Benthos's own `file` and `memory`, do not"},
		{"both", ErrNotAStore, ""},
		{"blocked", nil, `checkpoint.store: "blocked": pebble cache "blocked": path "` + file + `/state": not a directory: ` + file +
			"/state, or something on the way to it, is a file"},
	} {
		t.Run(tc.label, func(t *testing.T) {
			_, err := OpenStore(t.Context(), res, tc.label, "", 1)
			var se *StoreError
			require.ErrorAs(t, err, &se)
			require.Equal(t, tc.label, se.Label)
			require.Equal(t, "checkpoint.store", se.Field)
			if tc.is != nil {
				require.ErrorIs(t, err, tc.is)
			}
			require.ErrorContains(t, err, tc.says)
		})
	}
}

// The key among the generics is never deleted, so a cache that is gone must not be found there.
func TestStoreOfAClosedCacheIsNotFound(t *testing.T) {
	for _, b := range []string{"pebble", "checkpoint_file", "checkpoint_memory"} {
		res := service.MockResources(service.MockResourcesOptAddCache("state"))
		var c storeCache
		switch b {
		case "pebble":
			c = pebbleOn(t, diskRegistry(t), "path: "+t.TempDir())
		case "checkpoint_file":
			c = fileOn(t, diskRegistry(t), t.TempDir())
		default:
			c = newCheckpointMemory(res)
		}
		res.SetGeneric(providerKey{"state"}, c)
		_, err := OpenStore(t.Context(), res, "state", "", 1)
		require.NoError(t, err)
		mustClose(t, c)
		_, err = OpenStore(t.Context(), res, "state", "", 1)
		require.ErrorIs(t, err, ErrNotAStore, b)
	}
}

func TestCheckpointCachesRefuseProcessors(t *testing.T) {
	res := resourcesFrom(t, fmt.Sprintf(`
cache_resources:
  - label: files
    checkpoint_file: { path: %q }
  - label: scratch
    checkpoint_memory: {}
`, t.TempDir()))
	for label, kind := range map[string]string{"files": "checkpoint_file", "scratch": "checkpoint_memory"} {
		err := res.AccessCache(t.Context(), label, func(c service.Cache) {
			ctx := t.Context()
			_, err := c.Get(ctx, "k")
			for _, err := range []error{err, c.Set(ctx, "k", nil, nil), c.Add(ctx, "k", nil, nil), c.Delete(ctx, "k")} {
				require.EqualError(t, err, fmt.Sprintf("cache %q is a %s, which holds checkpoints only: give processors and outputs "+
					"a cache of their own, such as pebble or memory", label, kind))
			}
		})
		require.NoError(t, err)
	}
}

func TestPebbleWorksInAPipeline(t *testing.T) {
	b := service.NewStreamBuilder()
	b.SetLogger(quiet)
	require.NoError(t, b.SetYAML(fmt.Sprintf(`
input:
  generate:
    count: 6
    interval: ""
    mapping: 'root.id = count("pebble_works_in_a_pipeline") %% 3'
pipeline:
  threads: 1
  processors:
    - dedupe: { cache: seen, key: '${! json("id") }' }
output:
  drop: {}
cache_resources:
  - label: seen
    pebble: { path: %q, prefix: seen }
`, t.TempDir())))
	var got []string
	require.NoError(t, b.AddConsumerFunc(func(_ context.Context, m *service.Message) error {
		body, err := m.AsBytes()
		got = append(got, string(body))
		return err
	}))
	s, err := b.Build()
	require.NoError(t, err)
	require.NoError(t, s.Run(t.Context()))
	require.Equal(t, []string{`{"id":1}`, `{"id":2}`, `{"id":0}`}, got)
}

// storeFinder is an input that opens, in its Connect, the store of the cache `state`; it stands for our source.
type storeFinder struct {
	res   *service.Resources
	found chan<- string
}

func (f *storeFinder) Connect(ctx context.Context) error {
	s, err := OpenStore(ctx, f.res, "state", f.res.StreamID(), 1)
	if err != nil {
		f.found <- err.Error()
		return service.ErrEndOfInput
	}
	f.found <- f.res.StreamID() + " in " + s.StoreID()
	return nil
}

func (f *storeFinder) Read(context.Context) (*service.Message, service.AckFunc, error) {
	return nil, nil, service.ErrEndOfInput
}

func (f *storeFinder) Close(context.Context) error { return nil }

func registerStoreFinder(env *service.Environment, found chan<- string) error {
	return env.RegisterInput("store_finder", service.NewConfigSpec(),
		func(_ *service.ParsedConfig, res *service.Resources) (service.Input, error) {
			if !res.HasCache("state") {
				return nil, errors.New("the constructor does not see the label")
			}
			return &storeFinder{res: res, found: found}, nil
		})
}

func TestInputFindsItsStoreFromConnect(t *testing.T) {
	env := service.NewEnvironment()
	found := make(chan string, 1)
	require.NoError(t, registerStoreFinder(env, found))
	b := env.NewStreamBuilder()
	b.SetLogger(quiet)
	require.NoError(t, b.SetYAML(fmt.Sprintf(`
input: { store_finder: {} }
output: { drop: {} }
cache_resources:
  - label: state
    pebble: { path: %q }
`, t.TempDir())))
	s, err := b.Build()
	require.NoError(t, err)
	require.NoError(t, s.Run(t.Context()))
	require.Regexp(t, `^ in [0-9a-f-]{36}$`, <-found)
}

// runStreams is the child's part: it runs two streams with one cache resource, and prints what they find.
func runStreams(dir string) int {
	env := service.NewEnvironment()
	found := make(chan string, 2)
	if err := registerStoreFinder(env, found); err != nil {
		fmt.Println("error:", err)
		return 1
	}
	go func() {
		for line := range found {
			fmt.Println(line)
		}
	}()
	code, err := service.RunCLIToCode(context.Background(), service.CLIOptSetEnvironment(env), service.CLIOptSetArgs("connect",
		"-r", dir+"/res.yaml", "streams", "--no-api", "-o", dir+"/root.yaml", dir+"/a.yaml", dir+"/b.yaml"))
	if err != nil {
		fmt.Println("error:", err)
	}
	return code
}

// In streams mode the cache is built outside the streams, each of which has resources of its own; they share generics.
func TestStreamsOfOneProcessFindTheSameStore(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"root.yaml": "http: { enabled: false }\nlogger: { level: OFF }\n",
		"res.yaml":  fmt.Sprintf("cache_resources: [ { label: state, pebble: { path: %q } } ]\n", dir+"/state"),
		"a.yaml":    "input: { store_finder: {} }\noutput: { drop: {} }\n",
		"b.yaml":    "input: { store_finder: {} }\noutput: { drop: {} }\n",
	}
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	// In a process of its own: a stopped Benthos command line ends the process it was run in, some time later.
	c := startChild(t, roleStreams, dir)
	second, err := c.out.ReadString('\n')
	require.NoError(t, err)
	got := []string{strings.TrimSpace(c.first), strings.TrimSpace(second)}
	slices.Sort(got)
	require.Regexp(t, `^a in [0-9a-f-]{36}$`, got[0])
	require.Equal(t, "b"+got[0][1:], got[1])
}

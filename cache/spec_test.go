package cache

import (
	"testing"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"
)

// Wrong configs are told by `lint`, and refused by the constructor where lint was not asked.
func TestWrongConfigsAreRefused(t *testing.T) {
	linter := service.GlobalEnvironment().NewComponentConfigLinter()
	for _, tc := range []struct{ name, yaml, lint, err string }{
		{name: "least", yaml: "pebble: { path: ./data }"},
		{name: "all", yaml: "pebble: { path: ./data, prefix: 'a/b:c-d_e.F', sync: false, default_ttl: 90s, cache_size: 1GiB, memtable_size: 64 mb }"},
		{name: "no path", yaml: "pebble: {}", lint: "field path is required", err: "path"},
		{name: "empty path", yaml: "pebble: { path: '' }", lint: "path is empty: it must name a directory", err: "path is empty"},
		{name: "blank path", yaml: "pebble: { path: '  ' }", lint: "path is empty", err: "path is empty"},
		{name: "unknown field", yaml: "pebble: { path: x, directory: y }", lint: "field directory not recognised"},
		{name: "prefix with a blank", yaml: "pebble: { path: x, prefix: 'a b' }", lint: `prefix "a b": only letters, digits`, err: `prefix "a b"`},
		{name: "prefix with a zero byte", yaml: `pebble: { path: x, prefix: "a\0b" }`, lint: `prefix "a\x00b"`, err: `prefix "a\x00b"`},
		{name: "prefix with a line end", yaml: `pebble: { path: x, prefix: "a\n" }`, lint: `prefix "a\n"`, err: `prefix "a\n"`},
		{name: "no duration", yaml: "pebble: { path: x, default_ttl: soon }", lint: `default_ttl "soon": not a positive duration`, err: "soon"},
		{name: "no positive duration", yaml: "pebble: { path: x, default_ttl: 0s }", lint: `default_ttl "0s": not a positive duration`, err: "default_ttl 0s: not a positive duration"},
		{name: "no size", yaml: "pebble: { path: x, cache_size: much }", lint: `cache_size "much": not a size, such as 32MiB`, err: `cache_size "much": not a size`},
		{name: "too small", yaml: "pebble: { path: x, memtable_size: 10kB }", err: `memtable_size "10kB": must be between 1.0 MiB and 1.0 GiB`},
		{name: "too large", yaml: "pebble: { path: x, memtable_size: 2GiB }", err: `memtable_size "2GiB": must be between 1.0 MiB and 1.0 GiB`},
		{name: "files", yaml: "checkpoint_file: { path: ./data }"},
		{name: "files without path", yaml: "checkpoint_file: {}", lint: "field path is required", err: "path"},
		{name: "files with empty path", yaml: "checkpoint_file: { path: '' }", lint: "path is empty", err: "path is empty"},
		{name: "memory", yaml: "checkpoint_memory: {}"},
		{name: "memory with path", yaml: "checkpoint_memory: { path: x }", lint: "field path not recognised"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lints, err := linter.LintCacheYAML([]byte(tc.yaml))
			require.NoError(t, err)
			if tc.lint == "" {
				require.Empty(t, lints)
			} else {
				require.NotEmpty(t, lints)
				require.Contains(t, lints[0].Error(), tc.lint)
			}
			err = build(t, tc.yaml)
			if tc.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.err)
			}
		})
	}
}

// build builds a cache as a chilled run does, without lint and without using it.
func build(t *testing.T, yaml string) error {
	b := service.NewResourceBuilder()
	b.SetLogger(quiet)
	b.DisableLinting()
	if err := b.AddCacheYAML("label: c\n" + yaml); err != nil {
		return err
	}
	res, stop, err := b.BuildSuspended()
	if err != nil {
		return err
	}
	defer func() { require.NoError(t, stop(t.Context())) }()
	return res.AccessCache(t.Context(), "c", func(service.Cache) {})
}

func TestSpecsAreDocumented(t *testing.T) {
	seen := map[string]bool{}
	service.GlobalEnvironment().WalkCaches(func(name string, conf *service.ConfigView) {
		if name != "pebble" && name != "checkpoint_file" && name != "checkpoint_memory" {
			return
		}
		seen[name] = true
		data, err := conf.TemplateData()
		require.NoError(t, err)
		require.NotEmpty(t, data.Summary)
		require.Greater(t, len(data.Description), 200)
		require.NotEmpty(t, data.Examples)
		for _, f := range data.Fields {
			require.NotEmpty(t, f.Description, f.FullName)
		}
	})
	require.Len(t, seen, 3)
}

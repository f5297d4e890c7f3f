package cache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/redpanda-data/benthos/v4/public/service/integration"
	"github.com/stretchr/testify/require"
)

func items(kv ...string) []service.CacheItem {
	var all []service.CacheItem
	for i := 0; i < len(kv); i += 2 {
		all = append(all, service.CacheItem{Key: kv[i], Value: []byte(kv[i+1])})
	}
	return all
}

func ttl(d time.Duration) *time.Duration { return &d }

// openPebble opens a cache on a disk of its own, with a clock to advance.
func openPebble(t *testing.T, yaml string) (*pebbleCache, *database, *clock) {
	t.Helper()
	r, clk := testRegistry(t, vfs.NewMem()), newClock()
	r.now = clk.now
	c := pebbleOn(t, r, "path: /state\n"+yaml)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	d, err := c.enter(t.Context())
	require.NoError(t, err)
	c.lease.leave()
	return c, d, clk
}

// TestBenthosCacheContract runs Benthos's own tests for caches.
func TestBenthosCacheContract(t *testing.T) {
	integration.CacheTests(
		integration.CacheTestOpenClose(),
		integration.CacheTestMissingKey(),
		integration.CacheTestDoubleAdd(),
		integration.CacheTestDelete(),
		integration.CacheTestGetAndSet(50),
	).Run(t, `
cache_resources:
  - label: testcache
    pebble:
      path: `+t.TempDir()+`
      prefix: $ID
`)
}

// TestCacheOperations runs one step per line on one cache: the call, then what it returns.
func TestCacheOperations(t *testing.T) {
	for _, tc := range []struct{ name, yaml, steps string }{
		{"set and get", "", `
			get a → no key
			set a=1 → ok
			get a → 1
			set a=2 → ok
			get a → 2`},
		{"empty is not missing", "", `
			set a= → ok
			get a → 
			add a=1 → exists
			delete a → ok
			get a → no key`},
		{"null is not missing", "", `
			set-null a → ok
			get a → 
			add a=1 → exists`},
		{"empty key", "", `
			get  → no key
			set =1 → ok
			get  → 1`},
		{"add", "", `
			add a=1 → ok
			add a=2 → exists
			get a → 1
			delete a → ok
			add a=3 → ok
			get a → 3`},
		{"delete of nothing", "", `
			delete a → ok`},
		{"expiry", "", `
			set 10s a=1 → ok
			wait 9999ms
			get a → 1
			add a=2 → exists
			wait 1ms
			get a → no key
			add a=2 → ok
			wait 24h
			get a → 2`},
		{"a later write counts, with or without expiry", "", `
			set 10s a=1 → ok
			set 20s a=2 → ok
			wait 15s
			get a → 2
			set a=3 → ok
			wait 1h
			get a → 3`},
		{"zero and negative times to live expire at once", "", `
			set 0s a=1 → ok
			set -1s b=1 → ok
			get a → no key
			get b → no key`},
		{"default_ttl is for writes that say nothing", "default_ttl: 10s", `
			add a=1 → ok
			set 20s b=1 → ok
			wait 10s
			get a → no key
			get b → 1`},
		{"sweeping leaves what is alive", "", `
			set 10s a=1 → ok
			set 30s b=1 → ok
			set c=1 → ok
			wait 10s
			sweep → 1
			sweep → 0
			get b → 1
			wait 20s
			sweep → 1
			get c → 1`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, d, clk := openPebble(t, tc.yaml)
			for line := range strings.Lines(strings.TrimSpace(tc.steps)) {
				call, want, _ := strings.Cut(strings.TrimLeft(strings.TrimSuffix(line, "\n"), "\t"), " → ")
				require.Equal(t, want, step(t, c, d, clk, call), call)
			}
		})
	}
}

func step(t *testing.T, c *pebbleCache, d *database, clk *clock, call string) string {
	t.Helper()
	verb, arg, _ := strings.Cut(call, " ")
	var life *time.Duration
	if a, rest, ok := strings.Cut(arg, " "); ok && verb == "set" {
		p, err := time.ParseDuration(a)
		require.NoError(t, err)
		life, arg = &p, rest
	}
	key, value, _ := strings.Cut(arg, "=")
	var err error
	switch ctx := t.Context(); verb {
	case "get":
		v, err := c.Get(ctx, arg)
		if err == nil {
			return string(v)
		}
		require.ErrorIs(t, err, service.ErrKeyNotFound)
		return "no key"
	case "set":
		err = c.Set(ctx, key, []byte(value), life)
	case "set-null":
		err = c.Set(ctx, key, nil, nil)
	case "add":
		if err = c.Add(ctx, key, []byte(value), life); errors.Is(err, service.ErrKeyAlreadyExists) {
			return "exists"
		}
	case "delete":
		err = c.Delete(ctx, key)
	case "wait":
		p, err := time.ParseDuration(arg)
		require.NoError(t, err)
		clk.advance(p)
		return ""
	case "sweep":
		n, err := d.sweep()
		require.NoError(t, err)
		return fmt.Sprint(n)
	default:
		t.Fatalf("unknown step %q", call)
	}
	require.NoError(t, err)
	return "ok"
}

// Callers keep and change what they get and give.
func TestValuesAreCopied(t *testing.T) {
	c, _, _ := openPebble(t, "")
	in := []byte("abc")
	require.NoError(t, c.Set(t.Context(), "k", in, nil))
	in[0] = 'X'
	out, err := c.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "abc", string(out))
	out[0] = 'Y'
	again, err := c.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "abc", string(again))
	require.NotNil(t, again)
}

func TestOneOfManyConcurrentAddsWins(t *testing.T) {
	for _, lifetime := range []*time.Duration{nil, ttl(time.Hour)} {
		c, _, _ := openPebble(t, "")
		for key := range 50 {
			var won atomic.Int32
			var wg sync.WaitGroup
			for w := range 8 {
				wg.Go(func() {
					err := c.Add(context.Background(), fmt.Sprint(key), fmt.Append(nil, w), lifetime)
					if err == nil {
						won.Add(1)
					} else if !errors.Is(err, service.ErrKeyAlreadyExists) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			require.EqualValues(t, 1, won.Load())
		}
	}
}

// Adds race against a sweep that removes the expired entry they replace.
func TestAddOfAnExpiredKeySurvivesASweepAtTheSameTime(t *testing.T) {
	c, d, clk := openPebble(t, "")
	for i := range 200 {
		key := fmt.Sprint(i)
		require.NoError(t, c.Set(t.Context(), key, []byte("old"), ttl(time.Second)))
		clk.advance(time.Second)
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := c.Add(context.Background(), key, []byte("new"), nil); err != nil {
				t.Error(err)
			}
		})
		_, err := d.sweep()
		wg.Wait()
		require.NoError(t, err)
		v, err := c.Get(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, "new", string(v))
	}
}

func TestSetMultiIsOneWrite(t *testing.T) {
	c, _, _ := openPebble(t, "")
	all := items("a", "1", "b", "2", "a", "3")
	require.NoError(t, c.SetMulti(t.Context(), all...))
	require.NoError(t, c.SetMulti(t.Context()))
	for k, want := range map[string]string{"a": "3", "b": "2"} {
		v, err := c.Get(t.Context(), k)
		require.NoError(t, err)
		require.Equal(t, want, string(v))
	}
}

// countKeys counts what the database holds under a space.
func countKeys(t *testing.T, d *database, space string) (n int) {
	t.Helper()
	require.NoError(t, d.iterate([]byte(space), spaceEnd([]byte(space)), func([]byte) (bool, error) { n++; return true, nil }))
	return n
}

// A key that is written for ever with an expiry leaves one key in the index, and nothing once it has expired.
func TestExpiryIndexHoldsOneKeyPerItem(t *testing.T) {
	c, d, clk := openPebble(t, "")
	ctx := t.Context()
	for i := range 100 {
		clk.advance(time.Millisecond)
		switch i % 5 {
		case 0, 1:
			require.NoError(t, c.Set(ctx, "k", nil, ttl(time.Hour)))
		case 2:
			require.NoError(t, c.SetMulti(ctx, service.CacheItem{Key: "k", TTL: ttl(time.Minute)}))
		case 3:
			require.NoError(t, c.Delete(ctx, "k"))
			require.Zero(t, countKeys(t, d, spaceExpiry))
			require.NoError(t, c.Add(ctx, "k", nil, ttl(2*time.Hour)))
		case 4:
			require.NoError(t, c.Set(ctx, "k", nil, nil))
			require.Zero(t, countKeys(t, d, spaceExpiry))
			continue
		}
		require.Equal(t, 1, countKeys(t, d, spaceExpiry))
	}
	require.NoError(t, c.Set(ctx, "k", nil, ttl(time.Hour)))
	clk.advance(time.Hour)
	n, err := d.sweep()
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Zero(t, countKeys(t, d, spaceExpiry))
	require.Zero(t, countKeys(t, d, spaceEntries))
}

// The index is looked for again after a restart: an overwritten item's key in it must still go.
func TestExpiryIndexIsKnownAfterReopening(t *testing.T) {
	r := testRegistry(t, vfs.NewMem())
	c := pebbleOn(t, r, "path: /state")
	require.NoError(t, c.Set(t.Context(), "k", nil, ttl(time.Hour)))
	mustClose(t, c)
	c = pebbleOn(t, r, "path: /state")
	defer mustClose(t, c)
	require.NoError(t, c.Set(t.Context(), "k", nil, nil))
	d, err := c.enter(t.Context())
	require.NoError(t, err)
	defer c.lease.leave()
	require.Zero(t, countKeys(t, d, spaceExpiry))
}

func TestExpiredItemsLeaveTheDiskByThemselves(t *testing.T) {
	r := testRegistry(t, vfs.NewMem())
	r.sweepEvery = time.Millisecond
	c := pebbleOn(t, r, "path: /state")
	defer mustClose(t, c)
	require.NoError(t, c.Set(t.Context(), "k", nil, ttl(-time.Second)))
	d, err := c.enter(t.Context())
	require.NoError(t, err)
	defer c.lease.leave()
	require.Eventually(t, func() bool { return countKeys(t, d, spaceEntries) == 0 }, 10*time.Second, time.Millisecond)
}

// No two pairs of prefix and key meet.
func TestPrefixesKeepItemsApart(t *testing.T) {
	r := testRegistry(t, vfs.NewMem())
	pairs := []struct{ prefix, key string }{
		{"", "ab"}, {"a", "b"}, {"ab", ""}, {"", ""}, {"a", ""}, {"", "a"}, {"a", "\x00b"}, {"", "\x00"}, {"a/b", "c"}, {"a", "/bc"},
	}
	caches := map[string]*pebbleCache{}
	for _, p := range pairs {
		if caches[p.prefix] == nil {
			caches[p.prefix] = pebbleOn(t, r, fmt.Sprintf("path: /state\nprefix: %q", p.prefix))
			defer mustClose(t, caches[p.prefix])
		}
	}
	for i, p := range pairs {
		require.NoError(t, caches[p.prefix].Add(t.Context(), p.key, fmt.Append(nil, i), nil), "%q", p)
	}
	for i, p := range pairs {
		v, err := caches[p.prefix].Get(t.Context(), p.key)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i), string(v), "%q", p)
	}
}

func TestRecordsAndItemsKeepApart(t *testing.T) {
	c, _, _ := openPebble(t, "")
	s := mustOpenStore(t, c, "", 1)
	require.NoError(t, s.Put(t.Context(), 1, []byte("one")))
	for _, k := range []string{keyFormat, keyStoreID, string(recordKey(recordSpace(""), 1)), spaceRecords, "\x01", "\x02"} {
		require.NoError(t, c.Set(t.Context(), k, []byte("item"), nil))
		require.NoError(t, c.Delete(t.Context(), k))
	}
	require.Equal(t, "1:one", latest(t, s))
}

func TestValueThatIsTooLargeIsRefused(t *testing.T) {
	c, d, _ := openPebble(t, "")
	// Pages that are never touched cost nothing.
	huge := entry{key: entryKey(c.space, "k"), value: make([]byte, maxValue)}
	require.ErrorContains(t, d.setEntries(true, huge), "at most 1073741824 can be stored")
	_, err := c.Get(t.Context(), "k")
	require.ErrorIs(t, err, service.ErrKeyNotFound)
}

func TestClosedCacheSaysSo(t *testing.T) {
	r := testRegistry(t, vfs.NewMem())
	c := pebbleOn(t, r, "path: /state")
	s := mustOpenStore(t, c, "", 1)
	mustClose(t, c)
	mustClose(t, c)
	_, err := c.Get(t.Context(), "k")
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, s.Put(t.Context(), 1, nil), "the stream has its last checkpoint after a reload has closed its caches")
	mustClose(t, s)
	require.ErrorIs(t, s.Put(t.Context(), 2, nil), ErrClosed)
	unused := pebbleOn(t, r, "path: /state")
	mustClose(t, unused)
	_, err = unused.Get(t.Context(), "k")
	require.ErrorIs(t, err, ErrClosed)
}

package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

var _ checkpoint.Store = Store(nil)

// TestStoreContract runs one call per line on one stream's store of each kind: the call, then what it returns.
func TestStoreContract(t *testing.T) {
	for _, tc := range []struct {
		name     string
		retained int
		calls    string
	}{
		{"an empty store", 2, `
			latest → none:0
			numbers → []
			get 1 → no record
			delete → ok
			latest → none:0`},
		{"the newest by number", 3, `
			put 1 a → ok
			put 2 b → ok
			latest → 2:b
			put 10 c → ok
			put 256 d → ok
			latest → 256:d
			numbers → [2 10 256]
			get 10 → c`},
		{"numbers only grow", 2, `
			put 5 a → ok
			put 5 b → not written: 5 is not higher than 5
			put 4 b → not written: 4 is not higher than 5
			put 0 b → not written: 0 is not higher than 5
			latest → 5:a
			put 6 b → ok
			latest → 6:b`},
		{"number 0 is never used", 2, `
			put 0 a → not written: 0 is not higher than 0
			put 1 a → ok`},
		{"numbers are not used again after a deletion", 2, `
			put 5 a → ok
			put 7 b → ok
			delete → ok
			latest → none:7
			numbers → []
			get 7 → no record
			put 7 c → not written: 7 is not higher than 7
			put 8 c → ok
			latest → 8:c
			delete → ok
			delete → ok
			latest → none:8`},
		{"only the retained are kept", 2, `
			put 1 a → ok
			put 2 b → ok
			put 3 c → ok
			numbers → [2 3]
			get 1 → no record
			get 2 → b`},
		{"one is enough", 1, `
			put 1 a → ok
			put 2 b → ok
			numbers → [2]
			latest → 2:b`},
		{"an empty record is a record", 2, `
			put 1  → ok
			latest → 1:
			get 1 → `},
		{"the largest number", 2, `
			put 18446744073709551615 a → ok
			latest → 18446744073709551615:a`},
	} {
		for _, b := range backends {
			t.Run(tc.name+"/"+b.name, func(t *testing.T) {
				c := b.open(t, testRegistry(t, vfs.NewMem()))
				defer mustClose(t, c)
				s := mustOpenStore(t, c, "", tc.retained)
				require.Equal(t, b.durable, s.Durable())
				for line := range strings.Lines(strings.TrimSpace(tc.calls)) {
					call, want, _ := strings.Cut(strings.TrimLeft(strings.TrimSuffix(line, "\n"), "\t"), " → ")
					require.Equal(t, want, storeCall(t, s, call), call)
				}
			})
		}
	}
}

func storeCall(t *testing.T, s Store, call string) string {
	t.Helper()
	f := append(strings.Split(call, " "), "", "")
	var number uint64
	if f[1] != "" {
		_, err := fmt.Sscan(f[1], &number)
		require.NoError(t, err)
	}
	ctx := t.Context()
	switch f[0] {
	case "latest":
		return latest(t, s)
	case "numbers":
		n, err := s.Numbers(ctx)
		require.NoError(t, err)
		return fmt.Sprint(n)
	case "get":
		data, err := s.Get(ctx, number)
		if errors.Is(err, checkpoint.ErrNoRecord) {
			return "no record"
		}
		require.NoError(t, err)
		return string(data)
	case "put":
		err := s.Put(ctx, number, []byte(f[2]))
		var refused *NumberError
		if errors.As(err, &refused) {
			require.ErrorIs(t, err, checkpoint.ErrNotWritten)
			return fmt.Sprintf("not written: %d is not higher than %d", refused.Number, refused.Highest)
		}
		require.NoError(t, err)
	case "delete":
		require.NoError(t, s.DeleteAll(ctx))
	default:
		t.Fatalf("unknown call %q", call)
	}
	return "ok"
}

func TestRecordsAreCopied(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			c := b.open(t, testRegistry(t, vfs.NewMem()))
			defer mustClose(t, c)
			s := mustOpenStore(t, c, "", 1)
			data := []byte("abc")
			require.NoError(t, s.Put(t.Context(), 1, data))
			require.Equal(t, "abc", string(data), "what is put stays as it is")
			data[0] = 'X'
			_, got, err := s.Latest(t.Context())
			require.NoError(t, err)
			got[1] = 'Y'
			require.Equal(t, "1:abc", latest(t, s))
		})
	}
}

// Stream ids that are prefixes of each other, or differ by what a file system or a key might not tell apart.
func TestStreamsKeepApart(t *testing.T) {
	ids := []string{"", "a", "A", "a/b", "a%2Fb", "a%2fb", "..", ".", "ä", "a\x00", "a ", "stream-a", strings.Repeat("x", 200)}
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			c := b.open(t, testRegistry(t, vfs.NewMem()))
			defer mustClose(t, c)
			stores := map[string]Store{}
			for i, id := range ids {
				stores[id] = mustOpenStore(t, c, id, 2)
				require.NoError(t, stores[id].Put(t.Context(), 1, fmt.Append(nil, i)))
			}
			for i, id := range ids {
				require.Equal(t, fmt.Sprintf("1:%d", i), latest(t, stores[id]), "%q", id)
			}
			require.NoError(t, stores["a"].DeleteAll(t.Context()))
			for i, id := range ids {
				if id != "a" {
					require.Equal(t, fmt.Sprintf("1:%d", i), latest(t, stores[id]), "%q", id)
				}
			}
		})
	}
}

// A newer incarnation of a stream opens its records while the old one may still be about to write.
func TestNewerIncarnationShutsTheOlderOut(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			c := b.open(t, testRegistry(t, vfs.NewMem()))
			defer mustClose(t, c)
			old := mustOpenStore(t, c, "", 2)
			other := mustOpenStore(t, c, "other", 2)
			require.NoError(t, old.Put(t.Context(), 1, []byte("one")))
			newer := mustOpenStore(t, c, "", 2)
			err := old.Put(t.Context(), 2, []byte("stale"))
			require.ErrorIs(t, err, ErrTakenOver)
			require.ErrorIs(t, err, checkpoint.ErrNotWritten)
			require.ErrorIs(t, old.DeleteAll(t.Context()), ErrTakenOver)
			_, _, err = old.Latest(t.Context())
			require.ErrorIs(t, err, ErrTakenOver)
			require.Equal(t, "1:one", latest(t, newer))
			require.NoError(t, newer.Put(t.Context(), 2, []byte("two")))
			require.NoError(t, other.Put(t.Context(), 1, nil), "another stream is not touched")
		})
	}
}

// The memory of a label outlives its cache, which a config reload builds anew.
func TestMemoryRecordsSurviveAReload(t *testing.T) {
	res := service.MockResources()
	old := newCheckpointMemory(res)
	s := mustOpenStore(t, old, "", 1)
	require.NoError(t, s.Put(t.Context(), 1, []byte("one")))
	mustClose(t, old)
	again := mustOpenStore(t, newCheckpointMemory(res), "", 1)
	require.Equal(t, "1:one", latest(t, again))
	require.Equal(t, s.StoreID(), again.StoreID())
}

func TestWaitingForATurnEndsWithTheContext(t *testing.T) {
	c := pebbleOn(t, testRegistry(t, vfs.NewMem()), "path: /state")
	defer mustClose(t, c)
	s := mustOpenStore(t, c, "", 1)
	seat := s.(*recordStore).seat
	require.NoError(t, seat.enter(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Put(ctx, 1, nil)
	require.ErrorIs(t, err, checkpoint.ErrNotWritten)
	require.ErrorIs(t, err, context.Canceled)
	_, err = c.OpenStore(ctx, "", 1)
	require.ErrorIs(t, err, context.Canceled)
	seat.leave()
	require.NoError(t, s.Put(t.Context(), 1, nil))
}

func TestRetainedBelowOneIsRefused(t *testing.T) {
	for _, b := range backends {
		c := b.open(t, testRegistry(t, vfs.NewMem()))
		_, err := c.OpenStore(t.Context(), "", 0)
		require.ErrorContains(t, err, "checkpoint.retained is 0")
		mustClose(t, c)
	}
}

func TestRecordThatIsTooLargeIsCertainlyNotWritten(t *testing.T) {
	c := pebbleOn(t, testRegistry(t, vfs.NewMem()), "path: /state")
	defer mustClose(t, c)
	s := mustOpenStore(t, c, "", 1)
	require.ErrorIs(t, s.Put(t.Context(), 1, make([]byte, maxValue+1)), checkpoint.ErrNotWritten)
	require.Equal(t, "none:0", latest(t, s))
}

// noLock is a disk whose lock another registry of this test keeps, as a process that has ended would not.
type noLock struct{ vfs.FS }

func (n noLock) Lock(string) (io.Closer, error) { return closeNothing{}, nil }

type closeNothing struct{}

func (closeNothing) Close() error { return nil }

func TestCheckpointFileNamesAndContentsArePlain(t *testing.T) {
	dir := t.TempDir()
	c := fileOn(t, diskRegistry(t), dir)
	defer mustClose(t, c)
	s := mustOpenStore(t, c, "Orders/eu", 2)
	for n := uint64(41); n <= 43; n++ {
		require.NoError(t, s.Put(t.Context(), n, fmt.Append(nil, "record ", n)))
	}
	files, err := filepath.Glob(dir + "/*/*")
	require.NoError(t, err)
	require.Equal(t, []string{
		dir + "/stream-%4Frders%2Feu/00000000000000000042.record",
		dir + "/stream-%4Frders%2Feu/00000000000000000043.record",
	}, files)
	text, err := os.ReadFile(files[1])
	require.NoError(t, err)
	require.Equal(t, "record 43", string(text))
	format, err := os.ReadFile(dir + "/FORMAT")
	require.NoError(t, err)
	require.Equal(t, "tidegate checkpoint_file\nformat: 1\nstore_id: "+s.StoreID()+"\n", string(format))
}

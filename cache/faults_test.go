package cache

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

var errDisk = errors.New("the disk says no")

// failing fails the operation of a given index that changes the disk, counted while armed.
type failing struct {
	armed atomic.Bool
	at    int64
	n     atomic.Int64
	hit   atomic.Value // string: what was failed
}

func (f *failing) String() string { return "failing" }

func (f *failing) MaybeError(op errorfs.Op) error {
	if !f.armed.Load() || op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
		return nil
	}
	if f.n.Add(1)-1 != f.at {
		return nil
	}
	f.hit.Store(fmt.Sprintf("%v %s", op.Kind, op.Path))
	return errDisk
}

// Every operation that changes the disk fails once. An error that claims nothing was left behind must be right, and
// no error must mean durable.
func TestCheckpointFilePutFailsHonestlyAtEachStep(t *testing.T) {
	open := func(t *testing.T, r *registry) storeCache { return fileOn(t, r, "/state") }
	var certain, unknown, fine int
	for at := int64(0); ; at++ {
		mem, inject := vfs.NewCrashableMem(), &failing{at: at}
		c := open(t, testRegistry(t, errorfs.Wrap(mem, inject)))
		s := mustOpenStore(t, c, "", 1)
		require.NoError(t, s.Put(t.Context(), 1, []byte("one")))
		inject.armed.Store(true)
		err := s.Put(t.Context(), 2, []byte("two"))
		inject.armed.Store(false)
		step := inject.hit.Load()
		for _, disk := range powerCuts(mem) {
			got := latestOn(t, disk, open)
			switch {
			case err == nil:
				require.Equal(t, "2:two", got, "reported as written: %v", step)
			case errors.Is(err, checkpoint.ErrNotWritten):
				require.Equal(t, "1:one", got, "reported as certainly not written: %v", step)
			default:
				require.Contains(t, []string{"1:one", "2:two"}, got, "%v", step)
			}
		}
		switch {
		case err == nil:
			fine++
		case errors.Is(err, checkpoint.ErrNotWritten):
			certain++
			require.NoError(t, s.Put(t.Context(), 2, []byte("again")), "the number is still free")
		default:
			unknown++
			var refused *NumberError
			require.ErrorAs(t, s.Put(t.Context(), 2, []byte("again")), &refused, "an unknown number is used up")
		}
		require.NoError(t, s.Put(t.Context(), 3, []byte("three")))
		require.Equal(t, "3:three", latestOn(t, powerCut(mem), open))
		mustClose(t, c)
		if step == nil {
			break
		}
	}
	t.Logf("steps that failed certainly: %d, with unknown outcome: %d, without harm (or no failure): %d", certain, unknown, fine)
	require.Equal(t, 3, certain, "create, write, sync")
	require.Equal(t, 4, unknown, "rename, sync of the folder, write and sync of the witness")
}

// The same for a deletion: it is durable, or has failed, and never takes the highest number with it.
func TestCheckpointFileDeleteAllFailsHonestlyAtEachStep(t *testing.T) {
	open := func(t *testing.T, r *registry) storeCache { return fileOn(t, r, "/state") }
	for at := int64(0); ; at++ {
		mem, inject := vfs.NewCrashableMem(), &failing{at: at}
		c := open(t, testRegistry(t, errorfs.Wrap(mem, inject)))
		s := mustOpenStore(t, c, "", 3)
		require.NoError(t, s.Put(t.Context(), 1, []byte("one")))
		require.NoError(t, s.Put(t.Context(), 2, []byte("two")))
		inject.armed.Store(true)
		err := s.DeleteAll(t.Context())
		inject.armed.Store(false)
		step := inject.hit.Load()
		for _, disk := range powerCuts(mem) {
			got := latestOn(t, disk, open)
			if err == nil {
				require.Equal(t, "none:2", got, "%v", step)
			}
			require.Contains(t, []string{"none:2", "2:two"}, got, "%v", step)
		}
		require.NoError(t, s.DeleteAll(t.Context()))
		require.Equal(t, "none:2", latestOn(t, powerCut(mem), open))
		mustClose(t, c)
		if step == nil {
			break
		}
	}
}

// Opening fails at each step: the next open must find a sound store, and the lock must not be lost.
func TestOpeningFailsCleanlyAtEachStep(t *testing.T) {
	durableBackends(t, func(t *testing.T, open func(*testing.T, *registry) storeCache) {
		failures := 0
		for at := int64(0); ; at++ {
			mem, inject := vfs.NewCrashableMem(), &failing{at: at}
			r := testRegistry(t, errorfs.Wrap(mem, inject))
			died := dying(r)
			c := open(t, r)
			inject.armed.Store(true)
			opened := make(chan error, 1)
			go func() {
				_, err := c.OpenStore(t.Context(), "", 1)
				opened <- err
			}()
			var err error
			dead := false
			select {
			case err = <-opened:
			case cause := <-died:
				require.ErrorIs(t, cause, errDisk)
				dead = true // what this process leaves open, the test leaves alone
			}
			inject.armed.Store(false)
			// A database takes a while to open: of the states in which the disk has written more on its own, one each time.
			cuts := powerCuts(mem)
			for i, disk := range []*vfs.MemFS{cuts[0], cuts[1+at%3]} {
				got, err := tryLatestOn(t, disk, open)
				if i > 0 && err != nil {
					// A database that was never finished may be in pieces. There is nothing in it, and the error says what to do.
					require.ErrorContains(t, err, "remove it", "%v", inject.hit.Load())
					continue
				}
				require.NoError(t, err, "%v", inject.hit.Load())
				require.Equal(t, "none:0", got, "%v", inject.hit.Load())
			}
			if dead || err != nil {
				failures++
			}
			if dead {
				continue
			}
			require.NoError(t, mustOpenStore(t, c, "", 1).Put(t.Context(), 1, []byte("one")), "%v: %v", inject.hit.Load(), err)
			mustClose(t, c)
			require.Equal(t, "1:one", latestOn(t, powerCut(mem), open))
			if inject.hit.Load() == nil {
				break
			}
		}
		t.Logf("failures survived: %d", failures)
		require.NotZero(t, failures)
	})
}

// dying lets the process of a registry die, and tells of what.
func dying(r *registry) <-chan error {
	died := make(chan error, 16)
	r.fatal = func(cause error) { died <- cause }
	return died
}

func waitForDeath(t *testing.T, died <-chan error) error {
	t.Helper()
	select {
	case cause := <-died:
		return cause
	case <-time.After(20 * time.Second):
		t.Fatal("the process goes on")
		return nil
	}
}

// onlyWAL fails what is done to the log with the error of a full disk.
type onlyWAL struct{ armed atomic.Bool }

func (w *onlyWAL) String() string { return "log" }

func (w *onlyWAL) MaybeError(op errorfs.Op) error {
	if w.armed.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.HasSuffix(op.Path, ".log") {
		return syscall.ENOSPC
	}
	return nil
}

// Pebble tells nobody that a commit failed, it asks to be ended. Whoever waits for the outcome must never learn of a
// success.
func TestRecordThatCannotBeLoggedEndsTheProcess(t *testing.T) {
	mem, full := vfs.NewCrashableMem(), &onlyWAL{}
	r := testRegistry(t, errorfs.Wrap(mem, full))
	died := dying(r)
	c := pebbleOn(t, r, "path: /state")
	s := mustOpenStore(t, c, "", 1)
	require.NoError(t, s.Put(t.Context(), 1, []byte("one")))
	full.armed.Store(true)
	returned := make(chan error, 1)
	ctx := t.Context()
	go func() { returned <- s.Put(ctx, 2, []byte("two")) }()
	cause := waitForDeath(t, died)
	require.ErrorIs(t, cause, syscall.ENOSPC)
	require.ErrorContains(t, cause, "state directory /state has failed")
	require.ErrorContains(t, cause, "Free space and start again")
	require.Empty(t, returned)
	open := func(t *testing.T, r *registry) storeCache { return pebbleOn(t, r, "path: /state") }
	for _, disk := range powerCuts(mem) {
		require.Equal(t, "1:one", latestOn(t, disk, open))
	}
}

// Nobody waits for such a write. Pebble would tell of it only at a later one, in ways that nothing can recover from.
func TestUnsyncedWritesThatFailEndTheProcess(t *testing.T) {
	full := &onlyWAL{}
	r := testRegistry(t, errorfs.Wrap(vfs.NewMem(), full))
	died := dying(r)
	c := pebbleOn(t, r, "path: /state\nsync: false")
	ctx := t.Context()
	require.NoError(t, c.Set(ctx, "k", nil, nil))
	full.armed.Store(true)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for value := make([]byte, 32<<10); ; {
			select {
			case <-stop:
				return
			default:
				_ = c.Set(ctx, "k", value, nil)
			}
		}
	}()
	require.ErrorIs(t, waitForDeath(t, died), syscall.ENOSPC)
}

// Tables cannot be written: Pebble would try again for ever, and every writer would wait.
func TestBackgroundWritesThatKeepFailingEndTheProcess(t *testing.T) {
	clk := newClock()
	died := make(chan error, 1)
	d := &death{path: "/state", log: quiet, now: clk.now, fatal: func(cause error) { died <- cause }}
	for range 100 {
		d.backgroundError(syscall.ENOSPC)
		clk.advance(6 * time.Second) // each after a pause: something succeeds in between
	}
	for range 9 {
		d.backgroundError(syscall.ENOSPC)
		clk.advance(time.Second)
	}
	require.Empty(t, died)
	clk.advance(time.Second)
	go d.backgroundError(syscall.ENOSPC) // never returns
	cause := waitForDeath(t, died)
	require.ErrorIs(t, cause, syscall.ENOSPC)
	require.ErrorContains(t, cause, "background writes have failed for 10s")
}

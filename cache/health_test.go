package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
)

// slowSync is a disk whose syncs take a while, once it is armed.
type slowSync struct {
	failing
	takes time.Duration
}

func (s *slowSync) MaybeError(op errorfs.Op) error {
	if s.armed.Load() && op.Kind == errorfs.OpFileSync {
		<-time.After(s.takes) // on the bubble's clock
	}
	return nil
}

// A disk that hangs is heard of while it does, and not only if it ends.
func TestSlowDiskIsLoggedWhileItIsSlow(t *testing.T) {
	for _, takes := range []time.Duration{time.Second, 6 * time.Second, 64 * time.Second, 3 * time.Minute} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := &slowSync{takes: takes}
				c := fileOn(t, testRegistry(t, errorfs.Wrap(vfs.NewMem(), slow)), "/state")
				var log bytes.Buffer
				c.lease.request.health.log = slog.New(slog.NewTextHandler(&log, nil))
				s := mustOpenStore(t, c, "", 1)
				slow.armed.Store(true)
				// The first of its syncs is the record's; the others of the same write come on top.
				began := time.Now()
				require.NoError(t, s.Put(t.Context(), 1, []byte("one")))
				took := time.Since(began)
				warns := 0
				if took > slowAfter {
					warns = 1 + int((took-slowAfter)/slowAgain)
				}
				text := log.String()
				require.Equal(t, warns, bytes.Count([]byte(text), []byte("takes long")), "%v: %s", took, text)
				if warns > 0 {
					require.Contains(t, text, `level=WARN msg="writing a checkpoint record takes long: the disk is slow, or hangs`)
					require.Contains(t, text, "path=/state so_far=5s")
					require.Contains(t, text, "has ended after all")
				}
				slow.armed.Store(false)
				mustClose(t, c)
			})
		})
	}
}

// roomy is a disk that says how much space it has.
type roomy struct {
	vfs.FS
	free uint64
}

func (r *roomy) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: r.free, TotalBytes: 1 << 40}, nil
}

func TestLittleSpaceIsLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &roomy{vfs.NewMem(), 1 << 40}
		c := fileOn(t, testRegistry(t, disk), "/state")
		var log bytes.Buffer
		c.lease.request.health.log = slog.New(slog.NewTextHandler(&log, nil))
		s := mustOpenStore(t, c, "", 1)
		n := uint64(0)
		puts := func(d time.Duration) int {
			before := bytes.Count(log.Bytes(), []byte("little space left"))
			for range int(d / time.Second) {
				n++
				require.NoError(t, s.Put(t.Context(), n, nil))
				<-time.After(time.Second) // on the bubble's clock
			}
			return bytes.Count(log.Bytes(), []byte("little space left")) - before
		}
		require.Zero(t, puts(time.Minute))
		disk.free = 3 << 20
		require.Equal(t, 1, puts(9*time.Minute))
		require.Contains(t, log.String(), "free=\"3072 KiB\"")
		require.Equal(t, 1, puts(9*time.Minute))
		mustClose(t, c)
	})
}

func TestEveryErrorOfTheDiskSaysWhatToDo(t *testing.T) {
	for _, tc := range []struct {
		err  error
		says string
	}{
		{syscall.ENOSPC, "Free space"},
		{syscall.EDQUOT, "df -i"},
		{syscall.EROFS, "Mount it writable"},
		{syscall.EACCES, "Change the owner"},
		{syscall.EPERM, "Change the owner"},
		{syscall.EIO, "Check it"},
		{syscall.EMFILE, "ulimit -n"},
		{syscall.ENFILE, "ulimit -n"},
		{syscall.ESTALE, "no longer connected"},
		{syscall.ENOTCONN, "no longer connected"},
		{syscall.ENOENT, "Bring it back"},
	} {
		wrapped := fmt.Errorf("doing: %w", &os.PathError{Op: "write", Path: "/state/x", Err: tc.err})
		got := withRemedy(fmt.Errorf("more: %w", withRemedy(wrapped)))
		require.ErrorContains(t, got, tc.says)
		require.ErrorIs(t, got, tc.err)
		require.Equal(t, 1, bytes.Count([]byte(got.Error()), []byte(tc.says)), "once: %v", got)
	}
	plain := errors.New("plain")
	require.Equal(t, plain, withRemedy(plain))
}

// always fails each operation that changes the disk.
type always struct {
	failing
	err error
}

func (a *always) MaybeError(op errorfs.Op) error {
	if a.armed.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpFileClose {
		return &os.PathError{Op: "write", Path: op.Path, Err: a.err}
	}
	return nil
}

// A start on a disk that takes no write fails as often as it is tried, says why, and spoils nothing: once the disk is
// well, the newest record is there.
func TestStartOnASickDiskFailsUntilItIsWell(t *testing.T) {
	for _, sick := range []error{syscall.ENOSPC, syscall.EROFS, syscall.EACCES, syscall.EIO, syscall.EMFILE} {
		t.Run(sick.Error(), func(t *testing.T) {
			durableBackends(t, func(t *testing.T, open func(*testing.T, *registry) storeCache) {
				for _, how := range []string{"killed", "stopped"} {
					left := leftBy(t, how, open)
					fault := &always{err: sick}
					disk := errorfs.Wrap(left.disk, fault)
					fault.armed.Store(true)
					for range 3 {
						_, err := newestOf(t, disk, open)
						require.ErrorIs(t, err, sick)
						require.ErrorContains(t, err, strings.TrimPrefix(withRemedy(sick).Error(), sick.Error()))
					}
					fault.armed.Store(false)
					n, err := newestOf(t, disk, open)
					require.NoError(t, err)
					require.Equal(t, left.newest, n)
				}
			})
		})
	}
}

// What is written into files of a directory that nobody finds again must not count as durable: Pebble would go on with
// the descriptors it has.
func TestDirectoryThatIsTakenAwayEndsTheProcess(t *testing.T) {
	for _, tc := range []struct {
		name string
		take func(t *testing.T, dir string)
		says string
	}{
		{"removed", func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(dir)) }, "the directory was removed"},
		{"moved", func(t *testing.T, dir string) { require.NoError(t, os.Rename(dir, dir+".away")) }, "Bring it back"},
		{"replaced by a copy", func(t *testing.T, dir string) {
			require.NoError(t, os.Rename(dir, dir+".away"))
			require.NoError(t, os.CopyFS(dir, os.DirFS(dir+".away")))
		}, "another directory than the one that was opened"},
		{"replaced by an empty one", func(t *testing.T, dir string) {
			require.NoError(t, os.Rename(dir, dir+".away"))
			require.NoError(t, os.Mkdir(dir, 0o755))
		}, "Bring "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, kind := range []string{"pebble", "checkpoint_file"} {
				t.Run(kind, func(t *testing.T) {
					dir := t.TempDir() + "/state"
					r := diskRegistry(t)
					died := dying(r)
					s, err := openForChild(r, kind, dir)
					require.NoError(t, err)
					require.NoError(t, s.Put(t.Context(), 1, []byte("one")))
					tc.take(t, dir)
					failed := make(chan error, 1)
					go func() { failed <- s.Put(context.Background(), 2, []byte("two")) }() // of pebble it never returns
					select {
					case err = <-failed:
					case err = <-died:
					}
					require.ErrorContains(t, err, tc.says)
					if kind == "pebble" {
						return
					}
					// Whatever is tried later makes no new store where the old one was.
					before := listing(t, dir)
					s.(*recordStore).seat.loaded = false // as after a write whose outcome is not known
					for n := uint64(3); n <= 4; n++ {
						require.ErrorContains(t, s.Put(t.Context(), n, []byte("more")), "Bring ")
					}
					require.Equal(t, before, listing(t, dir))
				})
			}
		})
	}
}

// listing is what there is in a directory and below, nothing where it does not exist.
func listing(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		all = append(all, path)
		return err
	})
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
	}
	return all
}

// hanging is a directory whose disk hangs.
type hanging struct{ opened }

func (hanging) Close() error { select {} }

// A process that ends because its disk hangs must not wait for that disk.
func TestProcessThatEndsDoesNotWaitForADiskThatHangs(t *testing.T) {
	r := testRegistry(t, vfs.NewMem())
	r.ending = func() bool { return true }
	require.ErrorContains(t, r.close(hanging{}), "the process ends without")
}

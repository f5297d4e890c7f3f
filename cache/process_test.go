package cache

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"
)

// The test binary is started again as a child process, with its part and a directory in the environment.
const (
	childRole = "TIDEGATE_CACHE_TEST_CHILD"
	childDir  = "TIDEGATE_CACHE_TEST_DIR"
)

const roleStreams = "streams"

func runChild(role string) int {
	if role == roleStreams {
		return runStreams(os.Getenv(childDir))
	}
	kind, part, _ := strings.Cut(role, "/")
	r := &registry{
		fs: process.fs, canonical: process.canonical, identify: process.identify, now: process.now,
		fatal: process.fatal, sweepEvery: process.sweepEvery, places: map[string]*place{},
	}
	full := &onlyWAL{}
	if part == "full disk" {
		r.fs = errorfs.Wrap(vfs.Default, full)
	}
	s, err := openForChild(r, kind, os.Getenv(childDir))
	if err != nil {
		fmt.Println("error:", err)
		return 3
	}
	full.armed.Store(true)
	if err := s.Put(context.Background(), 1, []byte("one")); err != nil {
		fmt.Println("error:", err)
		return 4
	}
	if part == "deletes" {
		if err := s.DeleteAll(context.Background()); err != nil {
			fmt.Println("error:", err)
			return 5
		}
	}
	fmt.Println("ready")
	_, _ = io.ReadAll(os.Stdin) // until it is killed, or told to end
	return 0
}

func openForChild(r *registry, kind, dir string) (Store, error) {
	spec := map[string]*service.ConfigSpec{"pebble": pebbleSpec(), "checkpoint_file": checkpointFileSpec()}[kind]
	conf, err := spec.ParseYAML("path: "+dir, nil)
	if err != nil {
		return nil, err
	}
	if kind == "pebble" {
		c, err := pebbleFromConfig(r, conf, service.MockResources())
		if err != nil {
			return nil, err
		}
		return c.OpenStore(context.Background(), "", 1)
	}
	c, err := checkpointFileFromConfig(r, conf, service.MockResources())
	if err != nil {
		return nil, err
	}
	return c.OpenStore(context.Background(), "", 1)
}

// child is a running child process.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	first string // its first line
	out   *bufio.Reader
}

func startChild(t *testing.T, role, dir string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childRole+"="+role, childDir+"="+dir)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	c := &child{cmd: cmd, stdin: stdin, out: bufio.NewReader(stdout)}
	t.Cleanup(func() { _ = c.stdin.Close(); _ = c.cmd.Process.Kill(); _ = c.cmd.Wait() })
	c.first, err = c.out.ReadString('\n')
	require.NoError(t, err, "the child said nothing")
	return c
}

func (c *child) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGKILL))
	require.Error(t, c.cmd.Wait())
}

func TestSecondProcessOnADirectoryIsToldWhoUsesIt(t *testing.T) {
	durableBackends(t, func(t *testing.T, _ func(*testing.T, *registry) storeCache) {
		kind := filepath.Base(t.Name())
		dir, err := canonicalPath(t.TempDir())
		require.NoError(t, err)
		holder := startChild(t, kind, dir)
		require.Equal(t, "ready\n", holder.first)

		_, err = openForChild(diskRegistry(t), kind, dir)
		var locked *LockedError
		require.ErrorAs(t, err, &locked)
		require.Equal(t, &LockedError{Path: dir, PID: holder.cmd.Process.Pid}, locked)
		require.ErrorContains(t, err, fmt.Sprintf("opening %s cache %q at %s: directory %s is in use by another process (pid %d), "+
			"most likely another connect with the same path in its config", kind, "", dir, dir, locked.PID))

		// Asking has not taken the lock from its holder.
		second := startChild(t, kind, dir)
		require.Contains(t, second.first, "is in use by another process")

		holder.kill(t)
		s, err := openForChild(diskRegistry(t), kind, dir)
		require.NoError(t, err, "a killed process leaves no lock behind")
		require.Equal(t, "1:one", latest(t, s))
	})
}

// The lock outlives the cache in the process that had a state store open, and reopening does not lose it.
func TestOtherProcessIsKeptOutUntilThisOneEnds(t *testing.T) {
	durableBackends(t, func(t *testing.T, _ func(*testing.T, *registry) storeCache) {
		kind, dir := filepath.Base(t.Name()), t.TempDir()
		r := diskRegistry(t)
		for range 2 {
			s, err := openForChild(r, kind, dir)
			require.NoError(t, err)
			require.NoError(t, s.(*recordStore).claim.(*lease).close(t.Context()))
			require.Contains(t, startChild(t, kind, dir).first, fmt.Sprintf("another process (pid %d)", os.Getpid()))
		}
	})
}

func TestFullDiskEndsTheProcessWithItsCauseAsTheLastLine(t *testing.T) {
	dir, err := canonicalPath(t.TempDir())
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childRole+"=pebble/full disk", childDir+"="+dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exited *exec.ExitError
	require.ErrorAs(t, err, &exited)
	require.Equal(t, 1, exited.ExitCode())
	require.Empty(t, string(out), "no success, no error: the outcome is not known")
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	require.Regexp(t, "^fatal: state directory "+dir+` has failed: writing \d+\.log: no space left on device: `+
		`the disk or its quota is full, of bytes .*Free space and start again: nothing that was recorded is lost$`, lines[len(lines)-1])
}

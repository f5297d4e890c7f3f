package crash

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// mounted moves the state of a job to file systems of its own, which are really full, read-only and unmounted.
func (w *ward) mounted(t *testing.T, su *sufferer, kind string) {
	if os.Getuid() != 0 {
		t.Log("no file system is mounted: that needs root")
		return
	}
	const full = "the disk or its quota is full"
	small := []ailment{
		{what: "full, a small file system", begin: fillBytes, end: unfill, pebble: full, files: full, again: full, few: true},
		{what: "full, no inode is left", begin: fillInodes, end: unfill, pebble: full, files: full},
	}
	if err := su.moveTo("-t", "tmpfs", "-o", "size=96m,nr_inodes=300", "tmpfs"); err != nil {
		t.Logf("no file system is mounted: %v", err)
		return
	}
	t.Cleanup(su.unmount)
	w.bearAll(t, su, kind, small)

	elsewhere := filepath.Join(su.names.Dir, "volume")
	require.NoError(t, os.Mkdir(elsewhere, 0o755))
	require.NoError(t, su.moveTo("--bind", elsewhere))
	w.bearAll(t, su, kind, []ailment{
		{
			what: "mounted read-only at the start", down: true,
			begin:  func(su *sufferer) error { return mount("-o", "remount,ro,bind", su.state()) },
			end:    func(su *sufferer) error { return mount("-o", "remount,rw,bind", su.state()) },
			pebble: "mounted read-only", files: "mounted read-only",
		},
		{
			what:  "unmounted",
			begin: func(su *sufferer) error { su.unmount(); return nil },
			end: func(su *sufferer) error {
				return errors.Join(os.RemoveAll(su.state()), os.Mkdir(su.state(), 0o755), mount("--bind", elsewhere, su.state()))
			},
			pebble: "while the job ran", files: "while the job ran", again: "holds no checkpoint",
		},
	})
}

func mount(args ...string) error {
	if out, err := exec.Command("mount", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("mount %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// moveTo stops the pipeline, moves its state to a file system that is mounted in its place, and starts it again.
func (su *sufferer) moveTo(what ...string) error {
	su.p.Kill()
	old := su.state() + ".old"
	if out, err := exec.Command("cp", "-a", su.state(), old).CombinedOutput(); err != nil {
		return fmt.Errorf("copying the state: %w: %s", err, out)
	}
	su.unmount()
	if err := errors.Join(os.RemoveAll(su.state()), os.Mkdir(su.state(), 0o755)); err != nil {
		return err
	}
	mounted := mount(append(what, su.state())...)
	if out, err := exec.Command("cp", "-a", old+"/.", su.state()).CombinedOutput(); err != nil {
		return fmt.Errorf("copying the state back: %w: %s", err, out)
	}
	return errors.Join(mounted, os.RemoveAll(old), su.run())
}

// unmount takes a file system away from under the pipeline, if there is one.
func (su *sufferer) unmount() { _ = exec.Command("umount", "-l", su.state()).Run() }

// fillBytes leaves not a byte on the disk of the state.
func fillBytes(su *sufferer) error {
	f, err := os.Create(filepath.Join(su.state(), "ballast"))
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			return err
		}
	}
	return nil
}

func fillInodes(su *sufferer) error {
	for i := 0; ; i++ {
		err := os.WriteFile(filepath.Join(su.state(), fmt.Sprintf("ballast-%d", i)), nil, 0o644)
		if errors.Is(err, syscall.ENOSPC) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func unfill(su *sufferer) error {
	names, err := filepath.Glob(filepath.Join(su.state(), "ballast*"))
	for _, name := range names {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

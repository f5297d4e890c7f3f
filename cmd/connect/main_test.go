package main

import (
	"bytes"
	"debug/elf"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// asConnect makes the test binary be connect, so that tests run what users run, with its exit code and its signals.
const asConnect = "TIDEGATE_TEST_AS_CONNECT"

func TestMain(m *testing.M) {
	if os.Getenv(asConnect) != "" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// connect is a run of the binary. It, and what it starts in turn, gets the environment of the test.
func connect(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	t.Setenv(asConnect, "1")
	return exec.CommandContext(t.Context(), self, args...)
}

func TestVersionNamesTheThreeThatMatter(t *testing.T) {
	out, err := connect(t, "--version").Output()
	require.NoError(t, err)
	require.Regexp(t, `^Version: Tidegate \S+, Benthos v4\.76\.0, franz-go v1\.\d+\.\d+\nDate: \S+\n$`, string(out))
}

func TestVersionOfAReplacedModuleIsThatOfItsReplacement(t *testing.T) {
	info := &debug.BuildInfo{Deps: []*debug.Module{
		{Path: "plain", Version: "v1.0.0"},
		{Path: "forked", Version: "v1.0.0", Replace: &debug.Module{Path: "fork", Version: "v1.0.1"}},
		{Path: "local", Version: "v1.0.0", Replace: &debug.Module{Path: "../local"}},
	}}
	for path, want := range map[string]string{"plain": "v1.0.0", "forked": "v1.0.1", "local": "../local", "absent": "unknown"} {
		require.Equal(t, want, moduleVersion(info, path))
	}
}

func TestUnknownCommandAndBadConfigExitWith1(t *testing.T) {
	for name, args := range map[string][]string{
		"command": {"no-such-command"},
		"file":    {"run", "no-such-file.yaml"},
	} {
		err := connect(t, args...).Run()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, name)
		require.Equal(t, 1, exit.ExitCode(), name)
	}
}

func TestMemoryIsTunedUnlessTheUserDid(t *testing.T) {
	const untouched = 77
	for _, tc := range []struct {
		name, variable string
		want           int
	}{
		{"by default", "", gcPercent},
		{"GOGC is set", "GOGC", untouched},
		{"GOMEMLIMIT is set", "GOMEMLIMIT", untouched},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, v := range []string{"GOGC", "GOMEMLIMIT"} {
				t.Setenv(v, "") // has it restored
				require.NoError(t, os.Unsetenv(v))
			}
			if tc.variable != "" {
				t.Setenv(tc.variable, "100MiB")
			}
			before := debug.SetGCPercent(untouched)
			limit := debug.SetMemoryLimit(math.MaxInt64)
			defer func() { debug.SetMemoryLimit(limit) }()
			tuneMemory()
			require.Equal(t, tc.want, debug.SetGCPercent(before))
		})
	}
}

// maxBinaryBytes is what a stripped binary may weigh.
const maxBinaryBytes = 60 << 20

func TestBinaryIsStaticAndSmall(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("looks into an ELF file")
	}
	path := filepath.Join(t.TempDir(), "connect")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(maxBinaryBytes))
	file, err := elf.Open(path)
	require.NoError(t, err)
	defer file.Close()
	for _, p := range file.Progs {
		require.NotEqual(t, elf.PT_INTERP, p.Type, "an interpreter is needed by dynamically linked binaries only")
	}
	version, err := exec.CommandContext(t.Context(), path, "--version").Output()
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(version, []byte("Version: Tidegate ")), string(version))
	t.Logf("%d MB", info.Size()>>20)
}

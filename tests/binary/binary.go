package binary

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// env names an executable to test in place of one that is built.
const env = "TIDEGATE_CONNECT"

// Connect returns the path of the executable: the one that TIDEGATE_CONNECT names, unless there are build flags, or one
// that is built for the test, with the race detector where the test has it.
func Connect(t testing.TB, flags ...string) string {
	t.Helper()
	if path := os.Getenv(env); path != "" && len(flags) == 0 {
		return path
	}
	path := filepath.Join(t.TempDir(), "connect")
	args := append([]string{"build"}, flags...)
	if raceEnabled {
		args = append(args, "-race")
	}
	args = append(args, "-o", path, "github.com/tidegate/tidegate/cmd/connect")
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("building the binary: %v\n%s", err, out)
	}
	return path
}

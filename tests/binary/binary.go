package binary

import (
	"fmt"
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
	path, err := Build(t.TempDir(), flags...)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Build is Connect for callers that are no test, such as a TestMain: what it builds is in the folder.
func Build(dir string, flags ...string) (string, error) {
	if path := os.Getenv(env); path != "" && len(flags) == 0 {
		return path, nil
	}
	path := filepath.Join(dir, "connect")
	args := append([]string{"build"}, flags...)
	if raceEnabled {
		args = append(args, "-race")
	}
	args = append(args, "-o", path, "github.com/tidegate/tidegate/cmd/connect")
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the binary: %w\n%s", err, out)
	}
	return path, nil
}

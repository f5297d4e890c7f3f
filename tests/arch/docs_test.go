package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	quotedTest = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)`")
	quotedPath = regexp.MustCompile("`((?:internal|plugins|cmd|cache|tests|config|docs|tools)/[A-Za-z0-9_./-]*)`")
	testFunc   = regexp.MustCompile(`(?m)^func (Test[A-Z][A-Za-z0-9]*)\(`)
)

// TestPagesNameOnlyWhatIsThere keeps the tables of tests and files true.
func TestPagesNameOnlyWhatIsThere(t *testing.T) {
	tests := map[string]bool{}
	require.NoError(t, filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			tests[m[1]] = true
		}
		return err
	}))
	pages, err := filepath.Glob(filepath.Join(top, "docs", "*.md"))
	require.NoError(t, err)
	for _, page := range append(pages, filepath.Join(top, "README.md")) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range quotedTest.FindAllStringSubmatch(string(text), -1) {
			if !tests[m[1]] {
				t.Errorf("%s names %s, and there is no such test", page, m[1])
			}
		}
		for _, m := range quotedPath.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(top, m[1])); err != nil {
				t.Errorf("%s names %s: %v", page, m[1], err)
			}
		}
	}
}

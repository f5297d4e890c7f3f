package arch

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const top = "../.."

// listed is what `go list -json` tells of a package.
type listed struct {
	ImportPath, Dir                          string
	Imports, TestImports, XTestImports, Deps []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Dir = top
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, errs.String())
	var all []listed
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		all = append(all, p)
	}
	require.NotEmpty(t, all)
	return all
}

func TestImportsPointDown(t *testing.T) {
	for _, p := range packages(t) {
		for _, wrong := range checkImports(pkg{
			path: p.ImportPath, imports: p.Imports, deps: p.Deps,
			testImports: slices.Concat(p.TestImports, p.XTestImports),
		}) {
			t.Error(wrong)
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range packages(t) {
		text, err := os.ReadFile(filepath.Join(p.Dir, "doc.go"))
		if !errors.Is(err, fs.ErrNotExist) {
			require.NoError(t, err)
		}
		for _, wrong := range checkDoc(strings.TrimPrefix(p.ImportPath, module+"/"), string(text)) {
			t.Error(wrong)
		}
	}
}

// textFiles are the endings of files that people write.
var textFiles = []string{".go", ".md", ".yaml", ".yml", ".json", ".xml", ".properties", ".txt", ".sh", ".mod", ".sql", ".java"}

func TestFilesAreShortAndBelongToTheProject(t *testing.T) {
	read := 0
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, path)
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "bin", "data"}, rel) {
			return filepath.SkipDir
		}
		written := slices.Contains(textFiles, filepath.Ext(path)) || filepath.Ext(path) == "" // Makefile, scripts
		if !entry.Type().IsRegular() || !written {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		read++
		for _, wrong := range checkText(filepath.ToSlash(rel), string(text)) {
			t.Error(wrong)
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, read, 50, "the files of the project were found")
}

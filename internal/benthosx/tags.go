package benthosx

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// A header expression that begins with ! and is not quoted is a tag to YAML, and its value empty: the filter would keep
// everything without a word. Once the config is parsed nobody can tell that from an empty expression, so the YAML is
// looked at before.

// tagError says where an expression has become a tag.
type tagError struct {
	line, column int
	path, tag    string
}

func (e *tagError) Error() string {
	return fmt.Sprintf("%s: YAML takes %s for a tag and not for text, and the expression would be empty; quote it: %q", e.path, e.tag, e.tag)
}

// tagErrors looks for such expressions below a node, at path.
func tagErrors(n *yaml.Node, path []string) (found []*tagError) {
	if n == nil {
		return nil
	}
	at := strings.Join(path, ".")
	isExpression := strings.HasSuffix(at, "header_filter") || strings.HasSuffix(at, "header_filter.expression")
	if n.Kind == yaml.ScalarNode && isExpression && strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!") {
		return []*tagError{{n.Line, n.Column, at, n.Tag}}
	}
	for i, child := range n.Content {
		next := path
		if n.Kind == yaml.MappingNode {
			if i%2 == 0 {
				continue
			}
			next = append(path[:len(path):len(path)], n.Content[i-1].Value)
		}
		found = append(found, tagErrors(child, next)...)
	}
	return found
}

// checkTags refuses a config with such expressions, as far as the parser has left YAML of it: of components it has.
func checkTags(v any, path ...string) error {
	var errs []error
	at := func(key string) []string { return append(path[:len(path):len(path)], key) }
	switch v := v.(type) {
	case *yaml.Node:
		for _, e := range tagErrors(v, path) {
			errs = append(errs, e)
		}
	case []any:
		for i := range v {
			errs = append(errs, checkTags(v[i], at(strconv.Itoa(i))...))
		}
	case map[string]any:
		for key := range v {
			errs = append(errs, checkTags(v[key], at(key)...))
		}
	}
	return errors.Join(errs...)
}

// lintTags looks through the files that `lint` is called with, and returns a line for each such expression in the form of
// Benthos's lints. Files that cannot be read are Benthos's to complain of.
func lintTags(args []string) (lines []string) {
	for _, file := range lintedFiles(args) {
		content, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		var root yaml.Node
		if yaml.Unmarshal(content, &root) != nil {
			continue
		}
		for _, e := range tagErrors(&root, nil) {
			lines = append(lines, fmt.Sprintf("%s(%d,%d) %v", file, e.line, e.column, e))
		}
	}
	return lines
}

// lintedFiles are the arguments of `lint`: files, patterns of such, and folders with all below them, path/... .
func lintedFiles(args []string) (files []string) {
	if len(args) == 0 || args[0] != "lint" {
		return nil
	}
	for _, arg := range args[1:] {
		folder, all := strings.CutSuffix(arg, "...")
		switch {
		case strings.HasPrefix(arg, "-"):
		case all:
			_ = filepath.WalkDir(filepath.Clean(folder), func(path string, d fs.DirEntry, err error) error {
				if ext := filepath.Ext(path); err == nil && !d.IsDir() && (ext == ".yaml" || ext == ".yml") {
					files = append(files, path)
				}
				return nil
			})
		default:
			matches, _ := filepath.Glob(arg)
			files = append(files, matches...)
		}
	}
	return files
}

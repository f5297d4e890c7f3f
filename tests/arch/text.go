package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
)

// maxLines is how long a Go file may be before it holds more than one idea.
const maxLines = 500

// forbiddenText is what belongs to a machine or to the work and not into the project. Patterns are put together from
// pieces so that this file keeps the rule too.
var forbiddenText = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{hosts("proxy.golang@org", "sum.golang@org", "registry.npmjs@org", "repo.maven.apache@org", "repo1.maven@org",
		"pypi@org", "files.pythonhosted@org", "deb.debian@org", "index.crates@io", "static.crates@io",
		"registry-1.docker@io"), "a package registry's host name"},
	{regexp.MustCompile(`/ro` + `ot/|/wo` + `rk/(main|shared)|/home/[a-z]`), "a path of one machine"},
	{regexp.MustCompile(`(?i)\bissue` + ` #?[0-9]+\b`), "the number of a ticket: say what it is about"},
	{regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`), "a mark of unfinished work"},
}

func hosts(names ...string) *regexp.Regexp {
	for i, name := range names {
		names[i] = regexp.QuoteMeta(strings.Replace(name, "@", ".", 1))
	}
	return regexp.MustCompile(`\b(` + strings.Join(names, "|") + `)\b`)
}

// checkText returns what is wrong with the text of a file.
func checkText(path, text string) []string {
	var wrong []string
	number := 0
	for line := range strings.Lines(text) {
		number++
		for _, f := range forbiddenText {
			if found := f.pattern.FindString(line); found != "" {
				wrong = append(wrong, fmt.Sprintf("%s:%d has %q, %s", path, number, found, f.why))
			}
		}
	}
	if strings.HasSuffix(path, ".go") && number > maxLines {
		wrong = append(wrong, fmt.Sprintf("%s has %d lines, more than %d: it holds more than one idea", path, number, maxLines))
	}
	return wrong
}

// checkDoc returns what is wrong with a package's doc.go, whose text is empty where there is none.
func checkDoc(dir, text string) []string {
	if text == "" {
		return []string{fmt.Sprintf("%s has no doc.go", dir)}
	}
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", text, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		return []string{fmt.Sprintf("%s/doc.go: %v", dir, err)}
	}
	if comment := packageComment(file); len(comment) < 80 {
		return []string{fmt.Sprintf("%s/doc.go does not say what happens in the package, what comes in, what goes out and who may import it", dir)}
	}
	return nil
}

func packageComment(file *ast.File) string {
	if file.Doc == nil {
		return ""
	}
	return file.Doc.Text()
}

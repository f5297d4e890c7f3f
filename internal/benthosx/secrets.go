package benthosx

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/urfave/cli/v2"
	"gopkg.in/yaml.v3"

	"github.com/tidegate/tidegate/internal/kafkaclient"
)

// An environment variable is pasted into the config as YAML text. A password that is a number to YAML, a reference or
// anything else that is not text makes Benthos print it with its complaint, so files are looked at before (rule 13): errors
// here name the place and never the value.

// envReference is how a config names an environment variable, with a default and a function of Benthos's.
var envReference = regexp.MustCompile(`\$\{([0-9A-Za-z_.]+)(?::([^}]*))?(?:\|[0-9A-Za-z]+)?\}`)

// envMark stands for a reference while the file is parsed: what a variable holds could change what the rest of the file means.
var envMark = regexp.MustCompile(`tidegateEnv(\d+)x`)

// checkSecrets refuses files of a command in which a password is no text. It comes before Benthos reads any of them.
func checkSecrets(c *cli.Context) error {
	patterns := append(c.StringSlice("resources"), c.Args().Slice()...)
	if path := c.String("config"); path != "" {
		patterns = append(patterns, path)
	}
	var errs []error
	for _, file := range configFiles(patterns) {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // Benthos's to complain of
		}
		errs = append(errs, secretErrors(file, string(content))...)
	}
	return errors.Join(errs...)
}

// configFiles are the files that arguments name: patterns, and folders with all below them.
func configFiles(patterns []string) (files []string) {
	for _, pattern := range patterns {
		folder, _ := strings.CutSuffix(pattern, "...")
		matches, err := service.Globs(service.OSFS(), folder)
		if err != nil {
			continue
		}
		for _, match := range matches {
			_ = filepath.WalkDir(filepath.Clean(match), func(path string, _ fs.DirEntry, err error) error {
				ext := filepath.Ext(path)
				if err == nil && isFile(path) && (path == filepath.Clean(match) && ext != ".md" || ext == ".yaml" || ext == ".yml") {
					files = append(files, path)
				}
				return nil
			})
		}
	}
	return files
}

// isFile leaves out pipes, as a shell's <(…) is: what is read here Benthos would not get.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// secretErrors looks through one file.
func secretErrors(file, content string) []error {
	var references []string
	marked := envReference.ReplaceAllStringFunc(content, func(ref string) string {
		references = append(references, ref)
		return fmt.Sprintf("tidegateEnv%dx", len(references)-1)
	})
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(marked), &root); err != nil {
		// The name of the anchor may be a password.
		if strings.Contains(err.Error(), "unknown anchor") {
			return []error{fmt.Errorf("%s(1,1) a value begins with *, which is a reference to YAML, and there is no such anchor; put it in quotes", file)}
		}
		return nil
	}
	s := secrets{file: file, references: references}
	s.walk(&root, nil, false)
	return s.errs
}

type secrets struct {
	file       string
	references []string
	errs       []error
}

func (s *secrets) walk(n *yaml.Node, path []string, flow bool) {
	flow = flow || n.Style&yaml.FlowStyle != 0
	for i, child := range n.Content {
		next := path
		switch n.Kind {
		case yaml.MappingNode:
			if i%2 == 0 {
				continue
			}
			next = append(path[:len(path):len(path)], n.Content[i-1].Value)
		case yaml.SequenceNode:
			next = append(path[:len(path):len(path)], strconv.Itoa(i))
		}
		fault := ""
		switch {
		case n.Kind != yaml.MappingNode:
		case isConnection(next, fieldSASL) && child.Kind == yaml.MappingNode:
			fault = "it has to be a list with one entry, `sasl: [ { mechanism: …, username: …, password: … } ]`"
		case isConnection(next, fieldBootstrapServers) && s.hasAt(child):
			fault = "an entry has an @ in it, which no host:port has; credentials belong in sasl"
		case isSecret(next):
			fault = s.fault(child, flow)
		}
		if fault != "" {
			s.errs = append(s.errs, fmt.Errorf("%s(%d,1) %s: %s", s.file, child.Line, strings.Join(next, "."), fault))
			continue
		}
		s.walk(child, next, flow)
	}
}

// isConnection tells whether a path is that of a field of Tidegate's own; Benthos's kafka has a sasl that is a map.
func isConnection(path []string, field string) bool {
	return len(path) > 1 && path[len(path)-1] == field && strings.HasPrefix(path[len(path)-2], "kafka_flink_")
}

// hasAt tells whether there is an @ in a value or in one of a list.
func (s *secrets) hasAt(n *yaml.Node) bool {
	return strings.Contains(envMark.ReplaceAllStringFunc(n.Value, s.expand), "@") || slices.ContainsFunc(n.Content, s.hasAt)
}

// isSecret tells whether a password stands at a path.
func isSecret(path []string) bool {
	key, above := path[len(path)-1], path[:len(path)-1]
	if key == "password" {
		return slices.Contains(above, fieldSASL) || slices.Contains(above, "client_certs")
	}
	return slices.Contains(above, fieldProperties) && slices.ContainsFunc(kafkaclient.PropertyTable(),
		func(p kafkaclient.Property) bool { return p.Secret && p.Name == key })
}

// fault tells why YAML does not take a password for text, in words without the password; empty where it does.
func (s *secrets) fault(n *yaml.Node, flow bool) string {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	text := envMark.ReplaceAllStringFunc(n.Value, s.expand)
	switch {
	case n.Kind != yaml.ScalarNode:
		return "it has to be a text; if it begins with [ or {, put it in quotes"
	case strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!"):
		return "YAML takes it for a tag, since it begins with !; put it in quotes"
	case text == n.Value: // no variable in it
		return kindFault(n)
	case n.Style&yaml.DoubleQuotedStyle != 0:
		if !isText(reparse(`"`+text+`"`, flow)) {
			return "the value of the environment variable ends the text early or is no valid escape: write a backslash before each \" and \\ in it"
		}
	case n.Style&yaml.SingleQuotedStyle != 0:
		if !isText(reparse("'"+text+"'", flow)) {
			return "the value of the environment variable ends the text early: write each ' in it twice"
		}
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0:
		again := reparse(text, flow)
		if fault := kindFault(again); fault != "" {
			return fault
		}
		if !isText(again) || again.Value != text {
			return "YAML does not read the value of the environment variable as it is; put it in quotes"
		}
	}
	return ""
}

// expand returns what a mark stands for.
func (s *secrets) expand(mark string) string {
	i, _ := strconv.Atoi(envMark.FindStringSubmatch(mark)[1])
	if i >= len(s.references) {
		return mark
	}
	parts := envReference.FindStringSubmatch(s.references[i])
	if v := os.Getenv(parts[1]); v != "" {
		return strings.ReplaceAll(v, "\n", `\n`) // as Benthos does
	}
	return parts[2]
}

// reparse reads a value as it would stand in the file; nil where that is no YAML.
func reparse(text string, flow bool) *yaml.Node {
	if text = "k: " + text; flow {
		text = "{ " + text + " }"
	}
	var root yaml.Node
	if yaml.Unmarshal([]byte(text), &root) != nil || len(root.Content) != 1 || len(root.Content[0].Content) != 2 {
		return nil
	}
	return root.Content[0].Content[1]
}

func isText(n *yaml.Node) bool {
	return n != nil && n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && n.Anchor == ""
}

func kindFault(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	kinds := map[string]string{"!!int": "a number", "!!float": "a number", "!!bool": "true or false", "!!timestamp": "a date"}
	if kind := kinds[n.ShortTag()]; kind != "" {
		return "YAML reads it as " + kind + "; put it in quotes"
	}
	if n.ShortTag() == "!!null" {
		return "YAML reads it as null, which is no text; put it in quotes, and if it comes from an environment variable, is that set?"
	}
	return ""
}

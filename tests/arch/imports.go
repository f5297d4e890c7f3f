package arch

import (
	"fmt"
	"slices"
	"strings"
)

const module = "github.com/tidegate/tidegate"

// Kinds of third-party code whose imports are restricted.
const (
	benthos = "github.com/redpanda-data/benthos"
	franz   = "github.com/twmb/franz-go"
	// connectProject is under the Redpanda Community License, at least in part: nothing of it may be linked.
	connectProject = "github.com/redpanda-data/connect"
)

// kind says what a room may have to do with Benthos and with Kafka.
type kind struct {
	name    string
	benthos bool
	franz   bool
}

var (
	edge    = kind{name: "an edge", benthos: true, franz: true}
	adapter = kind{name: "an adapter", franz: true}
	core    = kind{name: "a core"}
	witness = kind{name: "a test of the binary", franz: true}
)

// room is a folder with one idea, together with the folders in it. Imports point down: from a higher level to a lower.
type room struct {
	path  string
	kind  kind
	level int
	// apart is set where the folders directly below the path are rooms of their own.
	apart bool
}

// rooms are all rooms, the more special ones first. A package outside them is a violation, so a new room gets its line
// here, with its place among the others.
var rooms = []room{
	{path: "cmd/connect", kind: edge, level: 90},
	{path: "plugins", kind: edge, level: 70, apart: true},
	{path: "cache", kind: edge, level: 60},
	{path: "internal/benthosx", kind: edge, level: 50},
	{path: "internal/kafkasource", kind: adapter, level: 40},
	{path: "internal/kafkasink", kind: adapter, level: 40},
	{path: "internal/txn", kind: adapter, level: 30},
	{path: "internal/devbroker", kind: adapter, level: 30},
	{path: "internal/kafkaclient", kind: adapter, level: 20},
	{path: "internal/ddl", kind: core, level: 14},
	{path: "internal/offsets", kind: core, level: 12},
	{path: "internal/splits", kind: core, level: 11},
	{path: "internal/format", kind: core, level: 10},
	{path: "internal/headerexpr", kind: core, level: 10},
	{path: "internal/checkpoint", kind: core, level: 5},
	{path: "internal/killpoint", kind: core, level: 1},
	{path: "internal/repeats", kind: core, level: 1},
	{path: "internal/child", kind: core, level: 1},
	{path: "internal/envfile", kind: core, level: 1},
	{path: "tests/metadata", kind: edge, level: 100},
	{path: "tests", kind: witness, level: 100, apart: true},
	{path: "bench", kind: edge, level: 110, apart: true},
}

// support is what tests of every room but the cores may import, wherever it stands.
var support = []string{"tests/realkafka", "tests/kafkaproxy", "tests/binary", "tests/leak", "tests/topics", "tests/streams",
	"internal/devbroker"}

// pkg is a package as the rules see it.
type pkg struct {
	path string
	// imports are those of the package, testImports those its tests add, deps everything that is linked with it.
	imports, testImports, deps []string
}

// roomOf finds the room of a package and the room's own path.
func roomOf(path string) (room, string, bool) {
	rel := strings.TrimPrefix(path, module+"/")
	for _, r := range rooms {
		if rel != r.path && !strings.HasPrefix(rel, r.path+"/") {
			continue
		}
		if !r.apart {
			return r, r.path, true
		}
		below, _, _ := strings.Cut(strings.TrimPrefix(rel, r.path+"/"), "/")
		return r, r.path + "/" + below, true
	}
	return room{}, "", false
}

// checkImports returns what is wrong with the imports of a package.
func checkImports(p pkg) []string {
	from, fromPath, ok := roomOf(p.path)
	if !ok {
		return []string{fmt.Sprintf("%s is in no room: give its room a line in tests/arch/imports.go", p.path)}
	}
	var wrong []string
	say := func(format string, args ...any) {
		wrong = append(wrong, p.path+" "+fmt.Sprintf(format, args...))
	}
	for _, to := range p.imports {
		checkInside(from, fromPath, to, false, say)
	}
	for _, to := range p.testImports {
		checkInside(from, fromPath, to, true, say)
		if forbidden := from.kind.forbids(to); forbidden != "" {
			say("imports %s in a test, and %s may not import %s", to, from.kind.name, forbidden)
		}
	}
	for _, to := range p.deps {
		if forbidden := from.kind.forbids(to); forbidden != "" {
			how := "is linked with"
			if slices.Contains(p.imports, to) {
				how = "imports"
			}
			say("%s %s, and %s may not import %s", how, to, from.kind.name, forbidden)
			break // one tells enough: the others mostly come with it
		}
	}
	return wrong
}

// checkInside checks an import from one room of ours to another.
func checkInside(from room, fromPath, to string, test bool, say func(string, ...any)) {
	if to != module && !strings.HasPrefix(to, module+"/") {
		return
	}
	target, targetPath, ok := roomOf(to)
	switch {
	case ok && targetPath == fromPath:
		return
	case test && from.kind != core && slices.Contains(support, targetPath):
		return
	case !ok:
		say("imports %s, which is in no room", to)
	case target.path == from.path && from.path == "plugins":
		say("imports %s, and plugins never import each other", to)
	case target.path == from.path && slices.Contains(support, targetPath):
		return
	case target.level >= from.level:
		say("imports %s, and imports point down only: %s is not below %s", to, targetPath, fromPath)
	}
}

// forbids names the library that a package of this kind may not import, if the import is one of it.
func (k kind) forbids(to string) string {
	switch {
	case within(to, connectProject):
		return "code under the Redpanda Community License"
	case within(to, benthos) && !k.benthos:
		return "Benthos"
	case within(to, franz) && !k.franz:
		return "franz-go"
	}
	return ""
}

func within(path, parent string) bool { return path == parent || strings.HasPrefix(path, parent+"/") }

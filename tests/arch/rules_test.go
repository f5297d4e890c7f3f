package arch

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// in puts the module's path before the paths that begin with a dot.
func in(paths ...string) []string {
	for i, path := range paths {
		if rest, ok := strings.CutPrefix(path, "./"); ok {
			paths[i] = module + "/" + rest
		}
	}
	return paths
}

func TestImportRulesFindEachViolation(t *testing.T) {
	const (
		service = benthos + "/v4/public/service"
		kgo     = franz + "/pkg/kgo"
	)
	for _, tc := range []struct {
		name, from           string
		imports, tests, deps []string
		want                 string // empty: allowed
	}{
		{name: "plugin to adapter", from: "./plugins/kafka_flink_source", imports: []string{"./internal/kafkasource", service}},
		{name: "plugin to plugin", from: "./plugins/kafka_flink_source", imports: []string{"./plugins/kafka_flink_sink"},
			want: "plugins never import each other"},
		{name: "plugin to a folder of its own", from: "./plugins/header_filter", imports: []string{"./plugins/header_filter/x"}},
		{name: "binary to its folders", from: "./cmd/connect", imports: []string{"./cmd/connect/demo", "./cache"}},
		{name: "cache to coordinator", from: "./cache", imports: []string{"./internal/checkpoint"}},
		{name: "cache to plugin", from: "./cache", imports: []string{"./plugins/kafka_flink_sink"}, want: "imports point down only"},
		{name: "core to core below", from: "./internal/offsets", imports: []string{"./internal/splits"}},
		{name: "core to core above", from: "./internal/splits", imports: []string{"./internal/offsets"},
			want: "internal/offsets is not below internal/splits"},
		{name: "coordinator to anything", from: "./internal/checkpoint", imports: []string{"./internal/splits"}, want: "imports point down only"},
		{name: "format to a sibling", from: "./internal/format/csv", imports: []string{"./internal/format"}},
		{name: "core to adapter", from: "./internal/offsets", imports: []string{"./internal/kafkaclient"}, want: "imports point down only"},
		{name: "core to a Kafka client", from: "./internal/offsets", imports: []string{kgo}, deps: []string{kgo}, want: "may not import franz-go"},
		{name: "core to Benthos", from: "./internal/checkpoint", imports: []string{service}, deps: []string{service}, want: "may not import Benthos"},
		{name: "core to Benthos through another module", from: "./internal/format/json", imports: []string{"example.com/x"},
			deps: []string{"example.com/x", service}, want: "is linked with " + service},
		{name: "core's test to a Kafka client", from: "./internal/splits", tests: []string{kgo}, want: "in a test, and a core may not import franz-go"},
		{name: "core's test to a real broker", from: "./internal/splits", tests: []string{"./tests/realkafka"}, want: "imports point down only"},
		{name: "adapter to a Kafka client", from: "./internal/txn", imports: []string{kgo, "./internal/kafkaclient"}, deps: []string{kgo}},
		{name: "adapter to Benthos", from: "./internal/kafkasink", imports: []string{service}, deps: []string{service},
			want: "an adapter may not import Benthos"},
		{name: "adapter to its twin", from: "./internal/kafkasink", imports: []string{"./internal/kafkasource"}, want: "imports point down only"},
		{name: "adapter to edge", from: "./internal/txn", imports: []string{"./internal/benthosx"}, want: "imports point down only"},
		{name: "adapter's test to a real broker", from: "./internal/txn", tests: []string{"./tests/realkafka", "./internal/devbroker"}},
		{name: "adapter itself to a real broker", from: "./internal/txn", imports: []string{"./tests/realkafka"}, want: "imports point down only"},
		{name: "test of the binary to the real broker", from: "./tests/crash", imports: []string{"./tests/realkafka", kgo}, deps: []string{kgo}},
		{name: "test of the binary to its twin", from: "./tests/crash", imports: []string{"./tests/parity"}, want: "imports point down only"},
		{name: "code of another license", from: "./cmd/connect", imports: []string{connectProject + "/v4/public/x"},
			deps: []string{connectProject + "/v4/public/x"}, want: "Redpanda Community License"},
		{name: "a name that only begins alike", from: "./internal/splits", imports: []string{franz + "x/y"}, deps: []string{franz + "x/y"}},
		{name: "a room that nobody has named", from: "./internal/newroom", want: "is in no room"},
		{name: "an import of such a room", from: "./cmd/connect", imports: []string{"./internal/newroom"}, want: "which is in no room"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wrong := checkImports(pkg{
				path: in(tc.from)[0], imports: in(tc.imports...), testImports: in(tc.tests...), deps: in(tc.deps...),
			})
			if tc.want == "" {
				require.Empty(t, wrong)
				return
			}
			require.Len(t, wrong, 1)
			require.Contains(t, wrong[0], tc.want)
		})
	}
}

func TestTextRulesFindEachViolation(t *testing.T) {
	for _, tc := range []struct {
		name, path, text string
		want             string // empty: allowed
	}{
		{name: "nothing", path: "a.go", text: "package a\n"},
		{name: "a long file", path: "a.go", text: strings.Repeat("\n", maxLines)},
		{name: "too long a file", path: "a.go", text: strings.Repeat("\n", maxLines+1), want: "a.go has 501 lines"},
		{name: "a long page", path: "a.md", text: strings.Repeat("\n", maxLines+1)},
		{name: "a registry", path: "a.md", text: "one\nfrom proxy.golang" + ".org now", want: "a.md:2"},
		{name: "a path", path: "a.go", text: "// see /ro" + "ot/x", want: "a path of one machine"},
		{name: "a ticket", path: "a.go", text: "// iss" + "ue 12 wants it", want: "ticket"},
		{name: "a mark", path: "a.go", text: "// TO" + "DO", want: "unfinished"},
		{name: "a namespace", path: "pom.xml", text: "http://maven.apache.org/POM/4.0.0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wrong := checkText(tc.path, tc.text)
			if tc.want == "" {
				require.Empty(t, wrong)
				return
			}
			require.Len(t, wrong, 1)
			require.Contains(t, wrong[0], tc.want)
		})
	}
}

func TestDocRulesFindEachViolation(t *testing.T) {
	long := "// Package a " + strings.Repeat("does things. ", 10) + "\n"
	require.Empty(t, checkDoc("a", long+"package a\n"))
	for name, text := range map[string]string{
		"missing":  "",
		"empty":    "package a\n",
		"short":    "// Package a is a.\npackage a\n",
		"detached": long + "\npackage a\n",
		"broken":   "pack",
	} {
		require.Len(t, checkDoc("a", text), 1, name)
	}
}

package benthosx

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

func TestExpressionsThatAreTagsToYAMLAreFound(t *testing.T) {
	const config = `
input:
  kafka_flink_source:
    header_filter: !env:test
pipeline:
  processors:
    - header_filter:
        expression: !a:1
        language: vvr
    - header_filter:
        expression: !!str a:1
    - header_filter:
        expression: "!a:1"
    - mapping: !not_ours x
`
	var root yaml.Node
	require.NoError(t, yaml.Unmarshal([]byte(config), &root))
	found := tagErrors(&root, nil)
	require.Len(t, found, 2)
	require.EqualError(t, found[0], `input.kafka_flink_source.header_filter: YAML takes !env:test for a tag and not for text, and the expression would be empty; quote it: "!env:test"`)
	require.ErrorContains(t, found[1], "pipeline.processors.header_filter.expression: YAML takes !a:1")

	dir := t.TempDir()
	file := filepath.Join(dir, "job.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	for _, args := range [][]string{{"lint", file}, {"lint", "--deprecated", dir + "/..."}, {"lint", filepath.Join(dir, "*.yaml")}} {
		require.Equal(t, []string{file + "(4,20) " + found[0].Error(), file + "(8,21) " + found[1].Error()}, lintTags(args))
	}
	require.Empty(t, lintTags([]string{"run", file}))
	require.Empty(t, lintTags(nil))
}

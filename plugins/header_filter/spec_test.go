package headerfilter

import (
	"testing"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"
)

func lint(t *testing.T, yaml string) (out []string) {
	t.Helper()
	lints, err := service.GlobalEnvironment().NewComponentConfigLinter().LintProcessorYAML([]byte("header_filter: " + yaml))
	if err != nil {
		return []string{err.Error()}
	}
	for _, l := range lints {
		out = append(out, l.What)
	}
	return out
}

func parse(t *testing.T, yaml string) (config, error) {
	t.Helper()
	conf, err := spec().ParseYAML(yaml, nil)
	if err != nil {
		return config{}, err
	}
	return parseConfig(conf)
}

func TestBadConfig(t *testing.T) {
	for name, tc := range map[string]struct{ yaml, lint, err string }{
		"no expression":        {"{}", "field expression is required", "expression"},
		"a number":             {"{ expression: 7 }", "", `expression: column 1: the term "7" has no colon`},
		"an anchor to YAML":    {"\n  expression: &env:test\n", "begins with a colon", "the term has no key before its colon"},
		"a block to YAML":      {"\n  expression: |env:test\n", "did not find expected comment or line break", ""},
		"a parenthesis in vvr": {`{ expression: "(a:1|b:2)" }`, "", "expression: column 1: language vvr has no parentheses"},
		"an unknown language":  {`{ expression: "a:1", language: sql }`, "value sql is not a valid option", `expression: "sql" is not a language of header filters`},
		"an unknown mismatch":  {`{ expression: "a:1", on_mismatch: keep }`, "value keep is not a valid option", `on_mismatch: "keep" is not drop or mark`},
		"headers from a field": {`{ expression: "a:1", headers_from: headers }`, `headers_from: "headers" is neither the name of metadata, such as @kafka_headers, nor metadata`, `headers_from: "headers" is neither`},
		"headers from nothing": {`{ expression: "a:1", headers_from: "@" }`, `headers_from: "@" is neither`, `headers_from: "@" is neither`},
	} {
		t.Run(name, func(t *testing.T) {
			lints := lint(t, tc.yaml)
			if tc.lint == "" {
				require.Empty(t, lints)
			} else {
				require.Len(t, lints, 1)
				require.Contains(t, lints[0], tc.lint)
			}
			if tc.err != "" {
				_, err := parse(t, tc.yaml)
				require.ErrorContains(t, err, tc.err)
			}
		})
	}
}

func TestSpecExamplesAreRight(t *testing.T) {
	for _, yaml := range []string{
		`{ expression: "depart:toy|depart:book&!env:test" }`,
		`{ expression: '(depart in (toy, book) | priority >= 5) & !env:test', language: Extended, on_mismatch: MARK, headers_from: metadata }`,
		`{ expression: "" }`,
	} {
		require.Empty(t, lint(t, yaml), yaml)
		_, err := parse(t, yaml)
		require.NoError(t, err, yaml)
	}
}

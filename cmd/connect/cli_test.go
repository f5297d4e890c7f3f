package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ran is what a run of the binary has said on its two ways, and whether it has succeeded.
type ran struct {
	out, err string
	ok       bool
}

func runConnect(t *testing.T, args ...string) ran {
	t.Helper()
	cmd := connect(t, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	return ran{out.String(), errs.String(), err == nil}
}

const loggingIn = `http: { enabled: false }
input:
  kafka_flink_source:
    bootstrap_servers: [ "localhost:1" ]
    topics: [ orders ]
    startup: { mode: earliest-offset }
    sasl: [ { mechanism: SCRAM-SHA-512, username: "${USER_UNDER_TEST}", password: "${SECRET_UNDER_TEST}" } ]
output:
  kafka_flink_sink:
    bootstrap_servers: [ "localhost:1" ]
    topic: orders-copy
    sasl: [ { mechanism: SCRAM-SHA-512, username: "${USER_UNDER_TEST}", password: "${SECRET_UNDER_TEST}" } ]
`

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestEnvFilesNeverShowWhatIsInThem: rule 13. Whichever command gets the file, and however it is written, the password is
// whole or refused, and never shown.
func TestEnvFilesNeverShowWhatIsInThem(t *testing.T) {
	job := writeFile(t, "job.yaml", loggingIn)
	for text, want := range map[string]string{ // how echo shows the user
		"export USER_UNDER_TEST=hunt#er 2":  `username: "hunt#er 2"`,
		"USER_UNDER_TEST='a=b'":             `username: "a=b"`,
		`USER_UNDER_TEST="a b # c" # d`:     `username: "a b # c"`,
		"USER_UNDER_TEST=c2VjcmV0==\r\n":    `username: "c2VjcmV0=="`,
		"hunter2":                           "(1,1): there is no = in the line",
		"SECRET_UNDER_TEST: hunter2":        "(1,1): there is no = in the line",
		"SECRET_UNDER_TEST=hunter2 # rest":  "(1,1) SECRET_UNDER_TEST: a # at the beginning of a value or behind a blank",
		"A=1\nSECRET_UNDER_TEST='hunter2\n": "(2,1) SECRET_UNDER_TEST: the quote at the beginning of the value is not closed",
	} {
		env := writeFile(t, "f.env", text)
		if strings.HasPrefix(want, "username") {
			echo := runConnect(t, "echo", "--env-file", env, job)
			require.True(t, echo.ok, echo.err)
			require.Equal(t, 2, strings.Count(echo.out, want), "%s: %s", text, echo.out)
			continue
		}
		for _, args := range [][]string{{"run", "--env-file", env, job}, {"lint", "-e", env, job}, {"-e", env, "run", job},
			{"echo", "--env-file=" + env, job}, {"offsets", "-e", env, job}, {"streams", "-e", env, job}, {"run", job, "-e", env}} {
			got := runConnect(t, args...)
			require.False(t, got.ok, args)
			require.Equal(t, env+want, strings.TrimSpace(got.err)[:len(env+want)], args)
			require.NotContains(t, got.out+got.err, "hunter2", args)
		}
	}
}

// TestLintErrorsAreTheLastOnStandardErrorWhateverFindsThem: the log of a job is somewhere else.
func TestLintErrorsAreTheLastOnStandardErrorWhateverFindsThem(t *testing.T) {
	text := strings.Replace(loggingIn, "mechanism: SCRAM-SHA-512", "mechanism: SCRAM-512", 1)
	job := writeFile(t, "job.yaml", strings.Replace(text, "topics:", "topcis: [ x ]\n    topics:", 1))
	t.Setenv("USER_UNDER_TEST", "orders")
	want := []string{
		`(5,1) field topcis not recognised`,
		`(8,1) sasl.0.mechanism: "SCRAM-512" is no mechanism; there are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512`,
		`(8,1) the environment variable SECRET_UNDER_TEST is not set`,
	}
	for _, args := range [][]string{{"lint", job}, {"run", job}, {"streams", job}, {"offsets", job}, {"-c", job}} {
		got := runConnect(t, args...)
		require.False(t, got.ok, args)
		lines := strings.Split(strings.TrimSpace(got.err), "\n")
		require.GreaterOrEqual(t, len(lines), len(want), args)
		for i, line := range lines[len(lines)-len(want):] {
			require.Equal(t, job+want[i], line, "%v: %s", args, got.err)
		}
		require.Equal(t, 1, strings.Count(got.err, "SECRET_UNDER_TEST"), args)
		if args[0] == "run" {
			require.Contains(t, got.out, "were not set: [SECRET_UNDER_TEST]", "each once")
		}
	}
	require.NotContains(t, runConnect(t, "lint", "--skip-env-var-check", job).err, "SECRET_UNDER_TEST")
	t.Setenv("SECRET_UNDER_TEST", "") // a lint need not have secrets at hand
	require.True(t, runConnect(t, "lint", writeFile(t, "job.yaml", loggingIn)).ok)
}

// TestHelpNamesOnlyComponentsThatAreThere: each `connect create …` of a help text works.
func TestHelpNamesOnlyComponentsThatAreThere(t *testing.T) {
	examples := map[string]bool{}
	for _, command := range [][]string{{"--help"}, {"help"}, {"create", "--help"}, {"help", "create"}, {"run", "--help"}, {"streams", "--help"},
		{"list", "--help"}, {"lint", "--help"}, {"test", "--help"}, {"echo", "--help"}} {
		for _, m := range regexp.MustCompile(`connect create (\S+/\S+)`).FindAllStringSubmatch(runConnect(t, command...).out, -1) {
			examples[m[1]] = true
		}
	}
	require.Contains(t, examples, "kafka_flink_source//kafka_flink_sink")
	for example := range examples {
		got := runConnect(t, "create", example)
		require.True(t, got.ok, "%s: %s", example, got.err)
	}
}

// TestCreateSaysWhatIsRequired at the field that is.
func TestCreateSaysWhatIsRequired(t *testing.T) {
	got := runConnect(t, "create", "kafka_flink_source//kafka_flink_sink")
	require.True(t, got.ok, got.err)
	var required []string
	for _, m := range regexp.MustCompile(`(?m)^ *(\S+):.*\(required\)$`).FindAllStringSubmatch(got.out, -1) {
		required = append(required, m[1])
	}
	require.Equal(t, []string{"bootstrap_servers", "bootstrap_servers", "topic"}, required)
}

package benthosx

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEnvFilesAreTakenOutOfTheArgumentsOfCommandsThatHaveThem(t *testing.T) {
	for args, want := range map[string]struct{ rest, files string }{
		"":                                     {"", ""},
		"run job.yaml":                         {"run job.yaml", ""},
		"run --env-file f job.yaml":            {"run job.yaml", "f"},
		"run -e f -e=g --env-file=h j":         {"run j", "f g h"},
		"run -env-file f,g j":                  {"run j", "f g"},
		"run job.yaml -e f":                    {"run job.yaml", "f"},
		"-e f":                                 {"", "f"},
		"-e f run j":                           {"run j", "f"},
		"-c run --log.level info -e f":         {"-c run --log.level info", "f"},
		"--chilled -s a=b -e f -r x streams y": {"--chilled -s a=b -r x streams y", "f"},
		"lint -r x -e f j":                     {"lint -r x j", "f"},
		"offsets -e f j":                       {"offsets j", "f"},
		"header-filter test a:1 -e f -c j":     {"header-filter test a:1 -c j", "f"},
		"run -- -e f":                          {"run -- -e f", ""},
		"run -e":                               {"run -e", ""},                  // Benthos's to complain of
		"studio sync-schema -e x":              {"studio sync-schema -e x", ""}, // an endpoint
		"-e f another --env-file g":            {"another --env-file g", "f"},   // a command of another build
		"list --format json -e f":              {"list --format json -e f", ""}, // it has none
		"run --enviro f -x -envy=g job.yaml -": {"run --enviro f -x -envy=g job.yaml -", ""},
	} {
		rest, files := takeEnvFiles(strings.Fields(args))
		require.Equal(t, strings.Fields(want.rest), append([]string{}, rest...), args)
		require.Equal(t, strings.Fields(want.files), append([]string{}, files...), args)
	}
}

func TestEnvFilesSetWhatTheySayOrNothing(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		return filepath.Join(dir, name)
	}
	t.Setenv("ENV_FILE_TEST", "before")
	one, two := file("1.env", "export ENV_FILE_TEST='hun#ter 1'\n"), file("2.env", "ENV_FILE_TEST=hun#ter 2\r\n")
	bad := file("bad.env", "ENV_FILE_TEST=other\nhunter3\n")

	for _, args := range [][]string{{"run", "-e", bad}, {"run", "-e", one, "-e", filepath.Join(dir, "none")}} {
		_, err := applyEnvFiles(args)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hunter", "rule 13")
		require.Equal(t, "before", os.Getenv("ENV_FILE_TEST"))
	}
	rest, err := applyEnvFiles([]string{"run", "-e", one, "-e", two, "job.yaml"})
	require.NoError(t, err)
	require.Equal(t, []string{"run", "job.yaml"}, rest)
	require.Equal(t, "hun#ter 2", os.Getenv("ENV_FILE_TEST"), "the last one counts")
	_, err = applyEnvFiles([]string{"run", "-e", filepath.Join(dir, "[1]*.env")})
	require.NoError(t, err)
	require.Equal(t, "hun#ter 1", os.Getenv("ENV_FILE_TEST"), "a pattern, as Benthos has it")
}

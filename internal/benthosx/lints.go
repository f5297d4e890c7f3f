package benthosx

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/urfave/cli/v2"
)

// What is wrong with a config has to be the last thing on standard error. Benthos's `run` says it in its log, which is on
// standard output as a rule, and gives variables that are not set no line of the file.

// looked is what a command of this process was called with, as far as lints go.
var looked struct {
	sync.Mutex
	// files are the arguments of a lint of what the command reads.
	files []string
	// linting is set in `lint`, where lintLines says what is not set, and once where a config is read but one time.
	linting, once bool
	// ours is set where variables are looked up here, and not by what another build has put in this place; missed are those
	// that are not set.
	ours   bool
	missed map[string]bool
}

// noteLints notes what a command reads.
func noteLints(c *cli.Context) {
	looked.Lock()
	defer looked.Unlock()
	looked.files = nil
	for _, arg := range c.Args().Slice() {
		if info, err := os.Stat(arg); err == nil && info.IsDir() {
			arg = strings.TrimSuffix(arg, "/") + "/..." // as streams mode reads it
		}
		looked.files = append(looked.files, arg)
	}
	if path := c.String("config"); path != "" {
		looked.files = append(looked.files, path)
	}
	looked.files = append(looked.files, c.StringSlice("resources")...)
	looked.linting = c.Command.Name == "lint" && !c.Bool("skip-env-var-check")
	// A stream that is sent to the HTTP API, and a file that has changed, have to be refused as often as they come.
	looked.once = c.Command.Name != "streams" && !c.Bool("watcher")
}

// lookUp is how Benthos gets at a variable. One that is not set it names as often as it is used, so it is told so once.
func lookUp(_ context.Context, name string) (string, bool) {
	value, set := os.LookupEnv(name)
	if set {
		return value, true
	}
	looked.Lock()
	defer looked.Unlock()
	again := looked.missed[name]
	if looked.missed == nil {
		looked.missed = map[string]bool{}
	}
	looked.ours, looked.missed[name] = true, true
	return "", looked.linting || looked.once && again
}

// unsetLines are lints of the variables that files use and that are not set: one for each, at the first place.
func unsetLines(files []string) (lines []string) {
	for _, file := range configFiles(files) {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		var named []string
		for _, at := range envReference.FindAllSubmatchIndex(text, -1) {
			name := string(text[at[2]:at[3]])
			if _, set := os.LookupEnv(name); set || at[4] >= 0 || slices.Contains(named, name) {
				continue
			}
			named = append(named, name)
			line := 1 + strings.Count(string(text[:at[0]]), "\n")
			lines = append(lines, fmt.Sprintf("%s(%d,1) the environment variable %s is not set", file, line, name))
		}
	}
	return lines
}

// lintLines are the lints that a `lint` with these arguments has besides Benthos's.
func lintLines(args []string) []string {
	lines := lintTags(args)
	looked.Lock()
	defer looked.Unlock()
	if looked.linting && looked.ours {
		lines = append(lines, unsetLines(looked.files)...)
	}
	return lines
}

// sayLints says on standard error what Benthos has found in the config of a command that has ended with end, where that is
// only that it has found something. It returns the arguments of the lint that did so, else those of the command.
func sayLints(end error, args []string, opts []service.CLIOptFunc) []string {
	looked.Lock()
	files := looked.files
	looked.Unlock()
	if len(files) == 0 || !strings.Contains(end.Error(), "linter errors") {
		return args
	}
	args = append([]string{"lint"}, files...)
	opts = append(slices.Clone(opts), service.CLIOptSetArgs(append([]string{"connect"}, args...)...))
	_, _ = service.RunCLIToCode(context.Background(), opts...) // the code is that of the command
	return args
}

package benthosx

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/envfile"
)

// Benthos reads the files of --env-file before any hook of ours is called, cuts values at a blank and at #, and prints a line
// that it cannot read, which is a password as a rule (rule 13). So they are read here, and taken out of what it gets.

// envFileFlags are the names of the flag, envFileCommands those of the commands that have it: Benthos's own but for those that
// have another -e, and ours. A command of somebody else's build has flags of its own.
var (
	envFileFlags    = []string{"env-file", "e"}
	envFileCommands = []string{"run", "streams", "lint", "echo", "test", "create", "template", "blobl", "offsets", "header-filter"}
)

// rootValueFlags are flags before the command that have a value behind them.
var rootValueFlags = []string{"config", "c", "log.level", "set", "s", "resources", "r", "templates", "t"}

// applyEnvFiles sets the environment variables of the files that the arguments of a command line name, the last one counts,
// and returns the arguments without them. Its error shows no value.
func applyEnvFiles(args []string) ([]string, error) {
	rest, files := takeEnvFiles(args)
	paths, err := service.Globs(service.OSFS(), files...)
	if err != nil {
		return nil, fmt.Errorf("--env-file: %w", err)
	}
	var all []envfile.Variable
	var errs []error
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			errs = append(errs, fmt.Errorf("--env-file: %w", err))
			continue
		}
		variables, err := envfile.Parse(path, string(text))
		if err != nil {
			errs = append(errs, err)
		}
		all = append(all, variables...)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	for _, v := range all {
		if err := os.Setenv(v.Name, v.Value); err != nil {
			return nil, fmt.Errorf("--env-file: setting a variable: %w", err)
		}
	}
	return rest, nil
}

// takeEnvFiles parts the arguments behind the program's name into those of --env-file and the rest. It takes them behind a
// config too, where Benthos would take them for further files.
func takeEnvFiles(args []string) (rest, files []string) {
	command := ""
	for i := 0; i < len(args); i++ {
		name, value, inside := flagOf(args[i])
		switch {
		case args[i] == "--" || command == "" && name == "" && !slices.Contains(envFileCommands, args[i]):
			return append(rest, args[i:]...), files
		case name == "" && command == "":
			command = args[i]
		case slices.Contains(envFileFlags, name) && (inside || i+1 < len(args)):
			if !inside {
				i++
				value = args[i]
			}
			files = append(files, strings.Split(value, ",")...) // as the parser of the command line does
			continue
		case command == "" && !inside && slices.Contains(rootValueFlags, name) && i+1 < len(args):
			rest = append(rest, args[i])
			i++
		}
		rest = append(rest, args[i])
	}
	return rest, files
}

// flagOf returns the name of a flag, empty where the argument is none, and the value where it stands inside.
func flagOf(arg string) (name, value string, inside bool) {
	if len(arg) < 2 || arg[0] != '-' {
		return "", "", false
	}
	return strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
}

package main

import (
	"context"
	"flag"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/urfave/cli/v2"

	"github.com/tidegate/tidegate/internal/benthosx"
)

// jobFlags are the flags by which `run` reads a config, for commands that look at one. They are passed on to `run` as they
// come; the files of env-file are read before any command begins.
var jobFlags = []struct{ name, alias, usage string }{
	{"resources", "r", "pull in extra resources from a file, as for run"},
	{"env-file", "e", "import environment variables from a dotenv file, as for run"},
	{"set", "s", "set a field of the config, as for run"},
	{"templates", "t", "import templates, as for run"},
}

const chilledUsage = "go on with a config that has linter errors, as for run"

func jobCLIFlags() []cli.Flag {
	var flags []cli.Flag
	for _, f := range jobFlags {
		flags = append(flags, &cli.StringSliceFlag{Name: f.name, Aliases: []string{f.alias}, Usage: f.usage})
	}
	return append(flags, &cli.BoolFlag{Name: "chilled", Usage: chilledUsage})
}

// jobArgs are those of the flags that a command was given.
func jobArgs(c *cli.Context) (args []string) {
	for _, f := range jobFlags {
		for _, v := range c.StringSlice(f.name) {
			args = append(args, "--"+f.name, v)
		}
	}
	if c.Bool("chilled") {
		args = append(args, "--chilled")
	}
	return args
}

// noteJobFlags has a parser of a command's own note them.
func noteJobFlags(flags *flag.FlagSet, args *[]string) {
	for _, f := range jobFlags {
		note := func(v string) error { *args = append(*args, "--"+f.name, v); return nil }
		flags.Func(f.name, "", note)
		flags.Func(f.alias, "", note)
	}
	flags.BoolFunc("chilled", "", func(string) error { *args = append(*args, "--chilled"); return nil })
}

// readJob reads the config that args end with.
func readJob(ctx context.Context, args []string) (benthosx.Job, error) {
	return benthosx.ReadJob(ctx, args, service.CLIOptSetProductName(productName))
}

package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tidegate/tidegate/cmd/connect/offsets"
)

// offsetsCommand is `connect offsets`: a start without its effects.
func offsetsCommand() *cli.Command {
	return &cli.Command{
		Name:      "offsets",
		Usage:     "Show where the Kafka sources of a config would begin and stop, and why, without reading",
		ArgsUsage: "job.yaml",
		Description: `
Prints, for every partition of each kafka_flink_source, the offset that a start
would begin at, the rule that gives it (a checkpoint, a committed offset, a
timestamp, ...), the range of the log, and where reading would stop. It fails
as the start would, with the same words. No record is read, no group is joined,
and neither the state store nor the group is changed; a running job is not
disturbed. Outputs are not looked at.

  {{.BinaryName}} offsets ./job.yaml`[1:],
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print JSON instead of a table"},
			&cli.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "how long to wait for a cluster that does not answer"},
		}, jobCLIFlags()...),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return errors.New("name the config: connect offsets job.yaml")
			}
			ctx, cancel := context.WithTimeout(c.Context, c.Duration("timeout"))
			defer cancel()
			job, err := readJob(ctx, append(jobArgs(c), c.Args().First()))
			if err != nil {
				return err
			}
			return offsets.Run(ctx, job, offsets.Options{
				JSON: c.Bool("json"), Out: c.App.Writer,
				Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
			})
		},
	}
}

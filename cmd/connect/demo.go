package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tidegate/tidegate/cmd/connect/demo"
)

// demoCommand is `connect demo`: exactly-once delivery under SIGKILL, to be seen without a Kafka.
func demoCommand() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "Copy records exactly once on an embedded broker while the pipeline is killed again and again",
		Description: `
Starts an embedded Kafka broker, loads records, and runs a pipeline with an
exactly-once sink in a child process, which is killed with SIGKILL at random
moments and started again. At the end a read_committed consumer's account is
printed; the exit code is 0 only if nothing is lost, doubled, altered or out of
order. It needs nothing installed and leaves nothing behind.`[1:],
		Flags: []cli.Flag{
			&cli.Int64Flag{Name: "records", Value: 200_000, Usage: "how many records to load"},
			&cli.IntFlag{Name: "kills", Value: 3, Usage: "how often to kill the pipeline"},
			&cli.Uint64Flag{Name: "seed", Usage: "decides when to kill; random unless given", DefaultText: "random"},
			&cli.BoolFlag{Name: "keep", Usage: "keep the folder with the pipeline's YAML, log and state, and tell where it is"},
		},
		Action: func(c *cli.Context) error {
			ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
			defer stop()
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("finding this binary, to run the pipeline with: %w", err)
			}
			seed := c.Uint64("seed")
			if !c.IsSet("seed") {
				seed = rand.Uint64N(1_000_000)
			}
			out, terminal := c.App.Writer, false
			if f, ok := out.(*os.File); ok {
				info, err := f.Stat()
				terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
			}
			return demo.Run(ctx, demo.Options{
				Records:  c.Int64("records"),
				Kills:    c.Int("kills"),
				Seed:     seed,
				Keep:     c.Bool("keep"),
				Command:  []string{self, "run"},
				Stall:    20 * time.Second,
				Out:      out,
				Terminal: terminal,
			})
		},
	}
}

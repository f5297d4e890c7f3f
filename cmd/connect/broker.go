package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/tidegate/tidegate/internal/devbroker"
)

// brokerCommand is `connect broker`: a Kafka to try pipelines against where there is none.
func brokerCommand() *cli.Command {
	return &cli.Command{
		Name:  "broker",
		Usage: "Run an embedded Kafka broker on 127.0.0.1 for trying things out",
		Description: `
Starts a Kafka broker inside this process, with everything in memory: when it
stops, on an interrupt or a termination signal, all is lost. It knows topics,
consumer groups and transactions, which is enough for any pipeline of
{{.ProductName}}. It is not for production.

  {{.BinaryName}} broker --topic orders:4 --topic orders-clean:4`[1:],
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "port", Value: 9092, Usage: "port to listen on; 0 takes a free one"},
			&cli.StringSliceFlag{Name: "topic", Usage: "topic to create, as name or name:partitions; may be given repeatedly"},
		},
		Action: func(c *cli.Context) error {
			ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
			defer stop()
			return runBroker(ctx, c.App.Writer, c.Int("port"), c.StringSlice("topic"))
		},
	}
}

// runBroker runs the broker until the context ends.
func runBroker(ctx context.Context, out io.Writer, port int, topics []string) error {
	parsed, err := parseTopics(topics)
	if err != nil {
		return err
	}
	if port < 0 || port > 65535 {
		return fmt.Errorf("--port %d: a port is a number from 0 to 65535", port)
	}
	broker, err := devbroker.Start(devbroker.Options{Ports: []int{port}, Topics: parsed, AutoCreate: true})
	if err != nil {
		return err
	}
	defer broker.Close()
	fmt.Fprintf(out, "Embedded Kafka broker, everything in memory, until Ctrl-C.\n  bootstrap server  %s\n", broker.Addrs()[0])
	for _, t := range parsed {
		fmt.Fprintf(out, "  topic             %s:%d\n", t.Name, t.Partitions)
	}
	fmt.Fprintln(out, "  other topics      have to be named by --topic; Tidegate creates none")
	<-ctx.Done()
	fmt.Fprintln(out, "Stopped.")
	return nil
}

// parseTopics reads name or name:partitions.
func parseTopics(args []string) ([]devbroker.Topic, error) {
	var topics []devbroker.Topic
	for _, arg := range args {
		name, count, given := strings.Cut(arg, ":")
		t := devbroker.Topic{Name: name, Partitions: 1}
		if given {
			n, err := strconv.ParseInt(count, 10, 32)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("--topic %s: %q is no partition count; write name or name:partitions, such as orders:4", arg, count)
			}
			t.Partitions = int32(n)
		}
		if name == "" {
			return nil, fmt.Errorf("--topic %s: the name is missing; write name or name:partitions, such as orders:4", arg)
		}
		topics = append(topics, t)
	}
	return topics, nil
}

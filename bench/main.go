package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/tidegate/tidegate/tests/realkafka"
)

// settings are the flags.
type settings struct {
	connect  string
	floor    string
	records  int64
	systems  string // in order, separated by commas
	rounds   int
	profiles string // a folder, empty for none
	keep     string // a folder, empty for a temporary one
}

// brokerJVM gives the broker what it needs to be no bottleneck; it runs for minutes, so it is compiled in full.
var brokerJVM = []string{"-Xms1g", "-Xmx1g", "-XX:+UseParallelGC"}

func main() {
	var s settings
	flag.StringVar(&s.connect, "connect", "bin/connect", "the binary that is measured")
	flag.StringVar(&s.floor, "floor", "bin/bench-floor", "the binary of the floor")
	flag.Int64Var(&s.records, "records", 4_000_000, "how many records are copied in each run")
	flag.StringVar(&s.systems, "systems", "floor,at-least-once,exactly-once,floor", "what is measured, in order")
	flag.IntVar(&s.rounds, "rounds", 1, "how often all of it is measured")
	flag.StringVar(&s.profiles, "profiles", "", "a folder for CPU and allocation profiles of bin/connect")
	flag.StringVar(&s.keep, "dir", "", "a folder for the broker and the logs, which stays; otherwise a temporary one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run measures everything, and returns an error where something could not be measured or an aim was missed.
func run(ctx context.Context, s settings) error {
	dir := s.keep
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "tidegate-bench-"); err != nil {
			return fmt.Errorf("making a folder: %w", err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
	}
	kafka, err := realkafka.StartProcess(ctx, realkafka.Options{JVM: brokerJVM}, dir)
	if err != nil {
		return err
	}
	defer kafka.Close()
	b := &bench{settings: s, dir: dir, bootstrap: kafka.Bootstrap(), broker: kafka.PID(0)}
	if err := b.open(); err != nil {
		return err
	}
	defer b.close()
	fmt.Printf("Apache Kafka %s, %d partitions, %d records of %d + %d bytes, not compressed, ...", realkafka.Version,
		partitions, s.records, keyBytes, valueBytes)
	if err := b.load(ctx); err != nil {
		return err
	}
	fmt.Println(" written; runs that warm the broker up come first and do not count")
	results, err := b.measureAll(ctx)
	if err != nil {
		return err
	}
	table, missed := report(results)
	fmt.Print("\n", table)
	if missed {
		return errors.New("an aim was MISSED")
	}
	return nil
}

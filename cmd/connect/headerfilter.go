package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/urfave/cli/v2"

	"github.com/tidegate/tidegate/internal/headerexpr"
	"github.com/tidegate/tidegate/internal/kafkaclient"
)

// headerFilterCommand is `connect header-filter`: what an expression means, and what it would keep.
func headerFilterCommand() *cli.Command {
	language := &cli.StringFlag{Name: "language", Value: string(headerexpr.VVR), Usage: "language of the expression: vvr or extended"}
	asJSON := &cli.BoolFlag{Name: "json", Usage: "print JSON"}
	return &cli.Command{
		Name:  "header-filter",
		Usage: "Show what a header filter means, and what it keeps",
		Subcommands: []*cli.Command{
			{
				Name:      "explain",
				Usage:     "Show how an expression is evaluated, and for given headers what each term is and which one decides",
				ArgsUsage: "EXPRESSION",
				Description: `
  {{.BinaryName}} header-filter explain 'depart:toy|depart:book&!env:test' --header depart=toy --header env=test

A header without = has a null value, one with nothing behind it an empty one.`[1:],
				Flags: []cli.Flag{
					language, asJSON,
					&cli.StringSliceFlag{Name: "header", Usage: "header of a record, as key=value; may be given repeatedly"},
				},
				SkipFlagParsing: true,
				Action:          func(c *cli.Context) error { return runFilter(c, explainFilter) },
			},
			{
				Name:      "test",
				Usage:     "Show which of the first records of a topic an expression keeps",
				ArgsUsage: "EXPRESSION",
				Description: `
  {{.BinaryName}} header-filter test 'env:prod' --config job.yaml --limit 20
  {{.BinaryName}} header-filter test 'env:prod' --topic orders --bootstrap-servers localhost:9092

Reads from the first records the topic still has, commits nothing, and stops at
the limit or at the end the topic had when it began. With a config it reaches
the cluster as the job's kafka_flink_source does, by its tls, sasl and
properties; a running job is not disturbed.`[1:],
				Flags: append([]cli.Flag{
					language, asJSON,
					&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "config of a job whose source has the connection, and the topic if there is one"},
					&cli.StringFlag{Name: "source", Usage: "label or path of the source, where the config has several"},
					&cli.StringFlag{Name: "topic", Usage: "topic to read"},
					&cli.IntFlag{Name: "limit", Value: 20, Usage: "how many records to look at"},
					&cli.StringSliceFlag{Name: "bootstrap-servers", Usage: "addresses of the cluster, host:port (default: those of the config, else localhost:9092)"},
				}, jobCLIFlags()...),
				SkipFlagParsing: true,
				Action:          func(c *cli.Context) error { return runFilter(c, testFilter) },
			},
		},
	}
}

// filterArgs is what a sub-command is called with.
type filterArgs struct {
	out     io.Writer
	expr    *headerexpr.Expr
	json    bool
	headers []headerexpr.Header
	topic   string
	limit   int
	servers []string
	// config is a job's, source names one of its sources, and job are the arguments with which `run` would read it.
	config, source string
	job            []string
}

// runFilter parses the arguments, in whatever order they come: the command line's own parser takes flags only before the
// expression.
func runFilter(c *cli.Context, run func(context.Context, filterArgs) error) error {
	a := filterArgs{out: c.App.Writer}
	flags := flag.NewFlagSet(c.Command.Name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	language := flags.String("language", string(headerexpr.VVR), "")
	flags.BoolVar(&a.json, "json", false, "")
	flags.StringVar(&a.topic, "topic", "", "")
	flags.IntVar(&a.limit, "limit", 20, "")
	flags.StringVar(&a.config, "config", "", "")
	flags.StringVar(&a.config, "c", "", "")
	flags.StringVar(&a.source, "source", "", "")
	noteJobFlags(flags, &a.job)
	flags.Func("bootstrap-servers", "", func(v string) error { a.servers = append(a.servers, v); return nil })
	flags.Func("header", "", func(v string) error { a.headers = append(a.headers, parseHeader(v)); return nil })
	var expressions []string
	for args := c.Args().Slice(); len(args) > 0; {
		switch err := flags.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			return cli.ShowSubcommandHelp(c)
		case err != nil:
			return fmt.Errorf("%w; see connect header-filter %s --help", err, c.Command.Name)
		}
		if args = flags.Args(); len(args) > 0 {
			expressions, args = append(expressions, args[0]), args[1:]
		}
	}
	if len(expressions) != 1 {
		return fmt.Errorf("connect header-filter %s needs one expression, in quotes, and was given %d", c.Command.Name, len(expressions))
	}
	var err error
	if a.expr, err = headerexpr.Parse(expressions[0], headerexpr.Language(strings.ToLower(*language))); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, a)
}

func parseHeader(v string) headerexpr.Header {
	key, value, found := strings.Cut(v, "=")
	if !found {
		return headerexpr.Header{Key: key}
	}
	return headerexpr.Header{Key: key, Value: []byte(value)}
}

// explainFilter prints how the expression is evaluated, and for headers the account of the decision.
func explainFilter(_ context.Context, a filterArgs) error {
	warning := headerexpr.Warning(a.expr)
	explanation := headerexpr.Explain(a.expr, a.headers)
	if a.json {
		type term struct {
			Term    string   `json:"term"`
			Found   []string `json:"found"`
			Holds   bool     `json:"holds"`
			Looked  bool     `json:"looked_at"`
			Decides bool     `json:"decides"`
		}
		out := struct {
			Expression string `json:"expression"`
			Language   string `json:"language"`
			Evaluated  string `json:"evaluated"`
			Warning    string `json:"warning,omitempty"`
			Keeps      *bool  `json:"keeps,omitempty"`
			Terms      []term `json:"terms,omitempty"`
		}{Expression: a.expr.Text(), Language: string(a.expr.Language()), Evaluated: a.expr.String(), Warning: warning}
		if len(a.headers) > 0 {
			out.Keeps = &explanation.Matches
			for _, t := range explanation.Terms {
				out.Terms = append(out.Terms, term(t))
			}
		}
		return printJSON(a.out, out)
	}
	fmt.Fprintf(a.out, "%s\n\n%s", a.expr.Text(), a.expr.Tree())
	if warning != "" {
		fmt.Fprintf(a.out, "\nwarning: %s\n", warning)
	}
	if len(a.headers) == 0 {
		return nil
	}
	fmt.Fprintln(a.out)
	table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "term\theaders of its key\tis\t")
	for _, t := range explanation.Terms {
		found, is, note := strings.Join(t.Found, ", "), fmt.Sprint(t.Holds), ""
		switch {
		case !t.Looked:
			is, note = "-", "not looked at"
		case t.Decides:
			note = "decides"
		}
		if found == "" {
			found = "none"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", t.Term, found, is, note)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "\n%s\n", verdict(explanation.Matches))
	return nil
}

func verdict(kept bool) string {
	if kept {
		return "kept"
	}
	return "dropped"
}

func printJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// holeWait is how long nothing has to come until what is left of a topic holds no record.
const holeWait = 15 * time.Second

// testFilter reads the first records of a topic and prints which are kept.
func testFilter(ctx context.Context, a filterArgs) error {
	if a.limit < 1 {
		return fmt.Errorf("--limit %d: at least 1", a.limit)
	}
	if a.config == "" && (a.source != "" || len(a.job) > 0) {
		return errors.New("--source, and what run reads a config by, go together with --config job.yaml")
	}
	connection, err := a.connection(ctx)
	switch {
	case err != nil:
		return err
	case a.topic == "" && a.config != "":
		return fmt.Errorf("%s reads several topics, or a pattern of them: name one by --topic", a.config)
	case a.topic == "":
		return errors.New("connect header-filter test needs --topic")
	}
	log := slog.New(slog.DiscardHandler)
	opts, err := connection.Options(log)
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(append(opts, kgo.ConsumeTopics(a.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.KeepControlRecords())...)
	if err != nil {
		return fmt.Errorf("building the Kafka client: %w", err)
	}
	defer cl.Close()
	if _, err := kafkaclient.Ping(ctx, cl, log); err != nil {
		return err
	}
	left, err := unread(ctx, cl, a.topic)
	if err != nil {
		return err
	}
	t := trial{filterArgs: a, left: left}
	if err := t.read(ctx, cl); err != nil || a.json {
		return err
	}
	fmt.Fprintf(a.out, "%d of %d records kept\n", t.kept, t.seen)
	return nil
}

// unread are the ends of a topic's partitions that have anything before them.
func unread(ctx context.Context, cl *kgo.Client, topic string) (map[int32]int64, error) {
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("topic %q: %w", topic, err)
	}
	starts, err := kadm.NewClient(cl).ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("topic %q: %w", topic, err)
	}
	left := map[int32]int64{}
	ends.Each(func(end kadm.ListedOffset) {
		if start, ok := starts.Lookup(end.Topic, end.Partition); ok && start.Offset < end.Offset {
			left[end.Partition] = end.Offset
		}
	})
	return left, nil
}

// trial is one reading of a topic.
type trial struct {
	filterArgs
	// left are the ends of partitions that are not read to them yet.
	left       map[int32]int64
	seen, kept int
}

// read reads to the limit, or to the ends.
func (t *trial) read(ctx context.Context, cl *kgo.Client) error {
	for t.seen < t.limit && len(t.left) > 0 {
		pollCtx, cancel := context.WithTimeout(ctx, holeWait)
		fetches := cl.PollFetches(pollCtx)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if fetches.NumRecords() == 0 && errors.Is(fetches.Err(), context.DeadlineExceeded) {
			return nil // what is left holds no record: compaction has left a hole
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("reading topic %q: %w", t.topic, err)
		}
		for _, r := range fetches.Records() {
			if err := t.see(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// see takes a record, which may be a transaction's marker.
func (t *trial) see(r *kgo.Record) error {
	end, open := t.left[r.Partition]
	if !open || t.seen >= t.limit {
		return nil
	}
	if r.Offset >= end-1 {
		delete(t.left, r.Partition)
	}
	if r.Offset >= end || r.Attrs.IsControl() {
		return nil
	}
	t.seen++
	match := headerexpr.Match(t.expr, r.Headers)
	if match {
		t.kept++
	}
	return t.printRecord(r, match)
}

func (a filterArgs) printRecord(r *kgo.Record, kept bool) error {
	if a.json {
		type header struct {
			Key   string  `json:"key"`
			Value *string `json:"value"`
		}
		out := struct {
			Topic     string   `json:"topic"`
			Partition int32    `json:"partition"`
			Offset    int64    `json:"offset"`
			Kept      bool     `json:"kept"`
			Headers   []header `json:"headers"`
		}{r.Topic, r.Partition, r.Offset, kept, []header{}}
		for _, h := range r.Headers {
			entry := header{Key: h.Key}
			if h.Value != nil {
				value := string(h.Value)
				entry.Value = &value
			}
			out.Headers = append(out.Headers, entry)
		}
		return printJSON(a.out, out)
	}
	headers := make([]string, len(r.Headers))
	for i, h := range r.Headers {
		headers[i] = headerexpr.Header(h).String()
	}
	_, err := fmt.Fprintf(a.out, "%-7s  %s-%d@%d  %s\n", verdict(kept), r.Topic, r.Partition, r.Offset, strings.Join(headers, " "))
	return err
}

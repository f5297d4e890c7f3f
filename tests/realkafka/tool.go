package realkafka

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/tidegate/tidegate/internal/child"
)

// Tool runs one of Kafka's own command line tools by its class, such as "org.apache.kafka.tools.TopicCommand", and
// returns what it wrote to standard output. Its error holds what it wrote to standard error. The arguments are passed
// as they are; BootstrapString is the value for --bootstrap-server.
func (c *Cluster) Tool(ctx context.Context, class string, args ...string) (string, error) {
	java, err := findJava()
	if err != nil {
		return "", err
	}
	out, err := java.run(ctx, c.logConfig, class, args...)
	if err != nil {
		return out, fmt.Errorf("running %s %s: %w", class, strings.Join(args, " "), err)
	}
	return out, nil
}

// run runs a class to its end.
func (j java) run(ctx context.Context, logConfig, class string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, j.binary, j.args("WARN", logConfig, defaultJVM, class, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := child.Run(cmd); err != nil {
		return out.String(), fmt.Errorf("%w\n%s%s", err, out.String(), errs.String())
	}
	return out.String(), nil
}

// args are the arguments of the Java machine that runs a class of Kafka's at a log level.
func (j java) args(level, logConfig string, jvm []string, class string, args ...string) []string {
	all := append([]string{}, jvm...)
	all = append(all, "-Dtidegate.level="+level, "-Dlog4j2.configurationFile="+logConfig, "-cp", j.classPath, class)
	return append(all, args...)
}

//go:build unix

// Command foreign is a build of somebody else's, who has imported the plugins. FOREIGN_MAIN chooses how much of
// Tidegate's own main it has taken over.
package main

import (
	"context"
	"os"
	"syscall"

	_ "github.com/redpanda-data/benthos/v4/public/components/io"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
	"github.com/redpanda-data/benthos/v4/public/service"

	_ "github.com/tidegate/tidegate/cache"
	"github.com/tidegate/tidegate/cmd/connect/host"
	_ "github.com/tidegate/tidegate/plugins/kafka_flink_sink"
	_ "github.com/tidegate/tidegate/plugins/kafka_flink_source"
)

func main() {
	switch os.Getenv("FOREIGN_MAIN") {
	case "host": // as cmd/connect/main.go tells
		os.Exit(host.Main())
	case "host, stopped early": // a SIGTERM that comes before the stream is there
		os.Exit(host.Main(service.CLIOptOnConfigParse(func(conf *service.ParsedConfig) error {
			if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
				return err
			}
			return host.CheckTopology(conf)
		})))
	case "checks": // Benthos's own, but for the look at the config
		service.RunCLI(context.Background(), service.CLIOptOnConfigParse(host.CheckTopology))
	default: // Benthos's own
		service.RunCLI(context.Background())
	}
}

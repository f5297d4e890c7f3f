package main

import (
	"os"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/cmd/connect/host"
)

// To make a build of your own, with your plugins beside Tidegate's:
//
//  1. Make a module with a package main whose main is
//
//     func main() { os.Exit(host.Main()) }
//
//  2. In a file beside it like imports.go, import the packages you want. Each registers its components with Benthos when it is imported;
//     what is not imported is not linked in.
//
//  3. Keep host.Main around Benthos's command line: it looks at the whole config before a stream is built. A source or sink that cannot go on (its transactional ids are
//     taken over, its state cannot be written) ends the process by it with exit code 1 and the cause.
//
//  4. Build with CGO_ENABLED=0 for a static binary.
//
// Everything else is Benthos's: options change names, defaults and commands; see service.CLIOptFunc.
func main() { os.Exit(run()) }

const productName = "Tidegate"

// run is main without the exit, so that tests can be the binary.
func run(opts ...service.CLIOptFunc) int {
	tuneMemory()
	mendHelp()
	version, built := buildStamp()
	return host.Main(append([]service.CLIOptFunc{
		service.CLIOptSetBinaryName("connect"),
		service.CLIOptSetProductName(productName),
		service.CLIOptSetDocumentationURL("https://github.com/tidegate/tidegate"),
		service.CLIOptSetVersion(version, built),
		service.CLIOptAddCommand(brokerCommand()),
		service.CLIOptAddCommand(demoCommand()),
		service.CLIOptAddCommand(headerFilterCommand()),
		service.CLIOptAddCommand(offsetsCommand()),
	}, opts...)...)
}

package host

import (
	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/benthosx"
)

// Main runs the Benthos command line and returns the process's exit code: Benthos's own, or 1 where a source or sink
// could not go on, with the cause as the last line on standard error.
func Main(opts ...service.CLIOptFunc) int { return benthosx.Main(opts...) }

// CheckTopology refuses a config whose checkpoints could not hold what they promise, such as one with a buffer. Main
// does it; a build that sets service.CLIOptOnConfigParse for itself calls it there, else sources with checkpoints do not
// start.
func CheckTopology(conf *service.ParsedConfig) error { return benthosx.CheckTopology(conf) }

// AcceptTopology takes whatever is around a checkpointed source, for a build that makes its streams in code, with
// service.StreamBuilder, and knows that nothing in them acknowledges records before they are written.
func AcceptTopology() { benthosx.AcceptTopology() }

package benthosx

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/redpanda-data/benthos/v4/public/service"
)

// fatal holds the cause that ends the process. The first one counts: what follows it is a consequence as a rule.
var fatal struct {
	sync.Mutex
	cause error
}

// Fatal ends the process with the cause: an input cannot do so by returning an error, which Benthos retries for ever.
// It records the cause and asks the process to stop as an operator would, so that everything else closes in order;
// Main then exits 1 with the cause as its last line. Calls after the first change nothing.
func Fatal(cause error) {
	fatal.Lock()
	first := fatal.cause == nil
	if first {
		fatal.cause = cause
	}
	fatal.Unlock()
	if first {
		signalSelf()
	}
}

// FatalCause returns what Fatal was called with first, or nil.
func FatalCause() error {
	fatal.Lock()
	defer fatal.Unlock()
	return fatal.cause
}

// Main runs the Benthos command line and returns the process's exit code: Benthos's own, or 1 where Fatal was called,
// with the cause as the last line on standard error.
func Main(opts ...service.CLIOptFunc) int {
	code, err := service.RunCLIToCode(context.Background(), opts...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	if cause := FatalCause(); cause != nil {
		fmt.Fprintf(os.Stderr, "fatal: %v\n", cause)
		return 1
	}
	return code
}

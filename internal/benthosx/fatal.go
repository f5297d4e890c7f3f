package benthosx

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
)

// fatal holds the cause that ends the process. The first one counts: what follows it is a consequence as a rule.
var fatal struct {
	sync.Mutex
	cause error
	// ended is closed when Main returns, life is what Benthos runs under; nil where Main does not run.
	ended chan struct{}
	life  *lifetime
	// end ends a build without Main.
	end      func(cause error)
	replaced bool
}

func init() { fatal.end = endForeign }

// resignal is how often a signal is repeated: Benthos hears of none that came before it listens.
const resignal = 200 * time.Millisecond

// Fatal ends the process with the cause: an input cannot do so by returning an error, which Benthos retries for ever.
// It records the cause and asks Benthos to stop as an operator would, so that everything else closes in order;
// Main then exits 1 with the cause as its last line. Calls after the first change nothing.
func Fatal(cause error) {
	fatal.Lock()
	first, ended, life, end := fatal.cause == nil, fatal.ended, fatal.life, fatal.end
	if first {
		fatal.cause = cause
	}
	fatal.Unlock()
	switch {
	case !first:
	case ended == nil:
		end(cause)
	default:
		go life.end(ended)
	}
}

// foreignGrace is how long the rest of a build without Main has to close before the process ends.
const foreignGrace = 2 * time.Second

// endForeign ends a build whose main is not Main. It is asked to stop like any other, but ended by us: stopped by the
// signal alone it would exit 0, as if all was well.
func endForeign(cause error) {
	fmt.Fprintf(os.Stderr, "fatal: %v\n", cause)
	time.AfterFunc(foreignGrace, func() { os.Exit(1) })
	// Race: Benthos may not listen for it yet, and the process would end by the signal, and not with 1.
	notifyStop(make(chan os.Signal, 1))
	signalSelf()
}

// ReplaceExit replaces what ends a build without Main, for tests; it returns what undoes it, with the cause.
func ReplaceExit(end func(cause error)) (restore func()) {
	fatal.Lock()
	defer fatal.Unlock()
	fatal.end, fatal.replaced = end, true
	return func() {
		fatal.Lock()
		defer fatal.Unlock()
		fatal.end, fatal.replaced, fatal.cause = endForeign, false, nil
	}
}

// Closed is called at the end of a component's Close. After Fatal in a build without Main it does not return: the
// engine would end the process with 0 before Fatal has ended it with 1.
func Closed() {
	fatal.Lock()
	wait := fatal.cause != nil && fatal.ended == nil && !fatal.replaced
	fatal.Unlock()
	if wait {
		select {}
	}
}

func signalUntil(ended <-chan struct{}) {
	tick := time.NewTicker(resignal)
	defer tick.Stop()
	for {
		signalSelf()
		select {
		case <-ended:
			return
		case <-tick.C:
		}
	}
}

// FatalCause returns what Fatal was called with first, or nil.
func FatalCause() error {
	fatal.Lock()
	defer fatal.Unlock()
	return fatal.cause
}

// Main runs the Benthos command line and returns the process's exit code: Benthos's own, or 1 where Fatal was called or
// a stream was stopped without its last checkpoint, with the cause as the last line on standard error.
func Main(opts ...service.CLIOptFunc) int {
	ended, life := make(chan struct{}), newLifetime()
	fatal.Lock()
	fatal.ended, fatal.life = ended, life
	fatal.Unlock()
	defer close(ended)
	started := make(chan struct{})
	sight.Lock()
	sight.started = started
	sight.Unlock()

	args, err := applyEnvFiles(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	opts = append([]service.CLIOptFunc{
		service.CLIOptSetArgs(append(os.Args[:1:1], args...)...), service.CLIOptSetEnvVarLookup(lookUp),
		holdEarlyStop(ended, started), service.CLIOptOnConfigParse(CheckTopology), service.CLIOptCustomRunFlags(nil, noteFile),
	}, opts...)
	code, err := service.RunCLIToCode(life, opts...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		args = sayLints(err, args, opts)
		code = max(code, 1)
	}
	for _, line := range lintLines(args) {
		fmt.Fprintln(os.Stderr, line)
		code = max(code, 1)
	}
	if cause := FatalCause(); cause != nil {
		fmt.Fprintf(os.Stderr, "fatal: %v\n", cause)
		return 1
	}
	// Benthos ends with 0 also where it had to force the stop.
	if left := unfinished(); left != nil && code == 0 {
		fmt.Fprintln(os.Stderr, left)
		return 1
	}
	return code
}

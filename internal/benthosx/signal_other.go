//go:build !unix

package benthosx

import (
	"fmt"
	"os"
	"os/signal"
)

// signalSelf interrupts the process; where a process cannot signal itself, it ends at once.
func signalSelf() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Signal(os.Interrupt)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "fatal: %v\n", FatalCause())
		os.Exit(1)
	}
}

// notifyStop takes the signal's default effect away.
func notifyStop(c chan<- os.Signal) { signal.Notify(c, os.Interrupt) }

// resetStop gives it back.
func resetStop() { signal.Reset(os.Interrupt) }

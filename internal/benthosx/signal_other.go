//go:build !unix

package benthosx

import "os"

// signalSelf interrupts the process; where a process cannot signal itself, it ends at once.
func signalSelf() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Signal(os.Interrupt)
	}
	if err != nil {
		os.Exit(1)
	}
}

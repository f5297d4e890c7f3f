//go:build unix

package benthosx

import (
	"os"
	"os/signal"
	"syscall"
)

// signalSelf sends the process the signal Benthos stops gracefully on.
func signalSelf() { _ = syscall.Kill(os.Getpid(), syscall.SIGTERM) }

// notifyStop takes that signal's default effect away.
func notifyStop(c chan<- os.Signal) { signal.Notify(c, syscall.SIGTERM) }

// resetStop gives it back.
func resetStop() { signal.Reset(syscall.SIGTERM) }

//go:build unix

package benthosx

import (
	"os"
	"syscall"
)

// signalSelf sends the process the signal Benthos stops gracefully on.
func signalSelf() { _ = syscall.Kill(os.Getpid(), syscall.SIGTERM) }

package realkafka

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// process is a child that dies when this process does.
type process struct {
	cmd *exec.Cmd
	// done is closed when the child has ended; err is then how.
	done chan struct{}
	err  error
}

// startProcess starts a child that writes its output to the end of a log file.
//
// On Linux the kernel kills the child when the thread that started it ends (PR_SET_PDEATHSIG counts threads, not
// processes), so that thread must live as long as the child does: one goroutine keeps it, starts the child and waits
// for it. It ends when the child does, and whoever holds the process waits for that at done.
func startProcess(cmd *exec.Cmd, logFile string) (*process, error) {
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log file: %w", err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = tied()
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer func() { _ = out.Close() }()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	return p, nil
}

// runTied runs a command to its end; the child dies with this process.
func runTied(cmd *exec.Cmd) error {
	cmd.SysProcAttr = tied()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.Run()
}

// signal sends a signal. It does nothing to a child that has ended: os.Process knows when it has, so that another
// process which got the same id is never hit.
func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// kill ends the child by SIGKILL, which a paused child obeys too, and waits until it is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

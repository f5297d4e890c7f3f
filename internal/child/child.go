package child

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Process is a running or ended child.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // set before done is closed
}

// Start starts a child whose output is appended to a log file.
//
// On Linux the kernel kills the child when the thread that started it ends (PR_SET_PDEATHSIG counts threads, not
// processes), so that thread must live as long as the child does: one goroutine keeps it, starts the child and waits
// for it. It ends when the child does, and whoever holds the Process waits for that at Done.
func Start(cmd *exec.Cmd, logFile string) (*Process, error) {
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log file of %s: %w", cmd.Path, err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	tie(cmd)
	p := &Process{cmd: cmd, done: make(chan struct{})}
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

// Run runs a command to its end, tied to this process like a child of Start.
func Run(cmd *exec.Cmd) error {
	tie(cmd)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.Run()
}

// PID is the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended tells whether the child has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Err waits for the child's end and tells how it ended: nil for exit code 0, else an *exec.ExitError.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// Signal sends a signal. It does nothing to a child that has ended: os.Process knows when it has, so another process
// that got the same id is never hit.
func (p *Process) Signal(sig os.Signal) { _ = p.cmd.Process.Signal(sig) }

// Kill ends the child by SIGKILL, which a stopped child obeys too, and waits until it is gone.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Tail returns the last lines of a log file, framed, to be appended to an error.
func Tail(logFile string, lines int) string {
	text, err := os.ReadFile(logFile)
	if err != nil {
		return fmt.Sprintf(" (reading its log: %v)", err)
	}
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	tail := bytes.Join(all[max(0, len(all)-lines):], []byte("\n"))
	return fmt.Sprintf("\n--- end of %s\n%s\n---", logFile, tail)
}

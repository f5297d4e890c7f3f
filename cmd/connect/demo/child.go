package demo

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

// child is one run of the pipeline in a process of its own.
type child struct {
	process *os.Process
	// done gives the result of the run, once.
	done <-chan error
}

// startChild starts the command with its output appended to a file. The process dies with this one where the system can
// promise that, else it goes on when this one is killed.
func startChild(command []string, logPath string) (*child, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("starting the pipeline: %w", err)
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	dieWithParent(cmd)

	started := make(chan error, 1)
	done := make(chan error, 1)
	go func() {
		// Linux kills the child when the thread that started it ends, not only when the process does: keep this one
		// until the child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer log.Close()
		err := cmd.Start()
		started <- err
		if err == nil {
			done <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting the pipeline: %w", err)
	}
	return &child{process: cmd.Process, done: done}, nil
}

// kill sends SIGKILL; the process gets no chance to do anything about it.
func (c *child) kill() error {
	if err := c.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing the pipeline: %w", err)
	}
	return nil
}

// lastLines returns the end of a log file, for an error message.
func lastLines(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	data = bytes.TrimRight(data, "\n")
	start := len(data)
	for ; lines > 0 && start > 0; lines-- {
		start = max(0, bytes.LastIndexByte(data[:start], '\n'))
	}
	return string(bytes.TrimLeft(data[start:], "\n"))
}

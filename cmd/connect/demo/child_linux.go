package demo

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the child when this process is gone, however it went.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

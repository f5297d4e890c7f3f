package child

import (
	"os/exec"
	"syscall"
)

// tie makes the kernel kill the child when we die, and gives it a process group of its own, so that Ctrl-C reaches us
// first and not the child under us.
func tie(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

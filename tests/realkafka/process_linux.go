package realkafka

import "syscall"

// tied makes the kernel kill the child when we die, and gives it a process group of its own, so that Ctrl-C reaches
// the test first and not the broker under it.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

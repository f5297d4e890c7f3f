//go:build !linux

package child

import "os/exec"

// tie leaves the child in our process group: without Linux's parent death signal, Ctrl-C has to reach it by itself.
func tie(*exec.Cmd) {}

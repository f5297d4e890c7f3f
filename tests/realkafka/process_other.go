//go:build !linux

package realkafka

import "syscall"

// tied leaves the child in our process group: without Linux's parent death signal, Ctrl-C has to reach it by itself.
func tied() *syscall.SysProcAttr { return nil }

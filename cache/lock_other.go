//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package cache

// lockHolder: this system does not tell who holds a lock.
func lockHolder(string) int { return 0 }

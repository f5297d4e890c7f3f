package realkafka

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
)

// Ports come from below the range that kernels take the ports of outgoing connections from (32768 on Linux, 49152
// elsewhere): a broker that is down for a while must find its port free when it comes back.
const (
	firstPort = 20000
	lastPort  = 32700
)

// portLease keeps a port from other test processes of this user until it is released.
type portLease struct {
	port int
	lock *fileLock
}

func (l *portLease) release() { l.lock.unlock() }

// leasePort finds a port that nobody listens on and no other process of this package has leased.
func leasePort() (*portLease, error) {
	dir, err := cacheDir("ports")
	if err != nil {
		return nil, err
	}
	for range 200 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		lock, err := lockFile(filepath.Join(dir, fmt.Sprint(port)), false)
		if err != nil {
			return nil, err
		}
		if lock == nil {
			continue
		}
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			lock.unlock()
			continue
		}
		_ = listener.Close()
		return &portLease{port, lock}, nil
	}
	return nil, errors.New("finding a free port on 127.0.0.1: 200 random ones are all taken")
}

// cacheDir returns a folder of this project under the user's cache folder, creating it.
func cacheDir(name string) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache folder: %w", err)
	}
	dir := filepath.Join(base, "tidegate", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("creating the cache folder: %w", err)
	}
	return dir, nil
}

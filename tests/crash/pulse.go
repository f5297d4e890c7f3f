package crash

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// pulse is what a process holds at one moment. Reading it needs Linux.
type pulse struct {
	// at is when, since whatever is watched began.
	at time.Duration
	// rss is its resident memory, peak the most it has had; both and state, the size of a folder of its, are in bytes.
	rss, peak, state int64
	// connections are those to brokers.
	goroutines, files, connections int
}

// patientOf tells where the pulse of a process is taken.
type patientOf struct {
	// debug is the address of Benthos's debug endpoints, empty for none; goroutines are counted there.
	debug string
	// brokers are the ports of the brokers.
	brokers map[int]bool
	// state is its folder; empty for none.
	state string
}

// take takes the pulse of a process.
func (w patientOf) take(pid int) (p pulse, err error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	if p.rss, p.peak, err = memoryOf(dir); err != nil {
		return p, err
	}
	sockets, files, err := filesOf(dir)
	if err != nil {
		return p, err
	}
	p.files = files
	if p.connections, err = connectionsOf(dir, sockets, w.brokers); err != nil {
		return p, err
	}
	if p.state, err = sizeOf(w.state); err != nil {
		return p, err
	}
	if w.debug != "" {
		p.goroutines, err = goroutinesOf(w.debug)
	}
	return p, err
}

// memoryOf reads a process's resident memory, now and at most.
func memoryOf(dir string) (now, most int64, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return 0, 0, fmt.Errorf("reading a process's memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if name != "VmRSS" && name != "VmHWM" || len(fields) == 0 {
			continue
		}
		kb, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("reading a process's memory: %w", err)
		}
		if name == "VmRSS" {
			now = kb << 10
		} else {
			most = kb << 10
		}
	}
	if now == 0 { // it has ended, and nobody has asked for how yet
		return 0, 0, fmt.Errorf("reading a process's memory: %w", os.ErrProcessDone)
	}
	return now, most, nil
}

// filesOf counts a process's open files, and returns the inodes of the sockets among them.
func filesOf(dir string) (sockets map[string]bool, n int, err error) {
	entries, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return nil, 0, fmt.Errorf("reading a process's open files: %w", err)
	}
	sockets = map[string]bool{}
	for _, e := range entries {
		to, err := os.Readlink(filepath.Join(dir, "fd", e.Name()))
		if err != nil {
			continue // closed since
		}
		if inode, ok := strings.CutPrefix(to, "socket:["); ok {
			sockets[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return sockets, len(entries), nil
}

// connectionsOf counts those of the sockets that are connected to one of the ports.
func connectionsOf(dir string, sockets map[string]bool, ports map[int]bool) (n int, err error) {
	const established = "01"
	text, err := os.ReadFile(filepath.Join(dir, "net", "tcp"))
	if err != nil {
		return 0, fmt.Errorf("reading a process's connections: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line) // number, local and remote address, state, …, and the inode as the tenth
		if len(f) < 10 || f[3] != established || !sockets[f[9]] {
			continue
		}
		_, port, _ := strings.Cut(f[2], ":")
		b, err := hex.DecodeString(port)
		if err != nil || len(b) != 2 {
			return 0, fmt.Errorf("reading a process's connections: %q has no port", f[2])
		}
		if ports[int(b[0])<<8|int(b[1])] {
			n++
		}
	}
	return n, nil
}

// sizeOf adds up the files below a folder.
func sizeOf(dir string) (total int64, err error) {
	if dir == "" {
		return 0, nil
	}
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			var info fs.FileInfo
			if info, err = e.Info(); err == nil {
				total += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted since
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("measuring a folder: %w", err)
	}
	return total, nil
}

// goroutinesOf asks a process how many goroutines it has.
func goroutinesOf(address string) (int, error) {
	text, err := goroutineProfile(address)
	if err != nil {
		return 0, err
	}
	line, _, _ := bufio.NewReader(bytes.NewReader(text)).ReadLine()
	fields := strings.Fields(string(line)) // goroutine profile: total 57
	n, err := strconv.Atoi(fields[len(fields)-1])
	if err != nil {
		return 0, fmt.Errorf("asking for goroutines: %q: %w", line, err)
	}
	return n, nil
}

// goroutineProfile asks a process what its goroutines do, those alike together.
func goroutineProfile(address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/debug/pprof/goroutine?debug=1", nil)
	if err != nil {
		return nil, fmt.Errorf("asking for goroutines: %w", err)
	}
	// A connection that is kept would be among the files that are counted.
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking for goroutines: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || len(text) == 0 {
		return nil, fmt.Errorf("asking for goroutines: %s, %w", response.Status, errors.Join(err, errors.New("no profile")))
	}
	return text, nil
}

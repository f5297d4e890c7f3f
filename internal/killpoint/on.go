//go:build killpoints

package killpoint

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Enabled tells whether this build has kill points.
const Enabled = true

var (
	mu     sync.Mutex
	name   string
	after  = 1
	parsed = sync.OnceFunc(func() {
		var n string
		name, n, _ = strings.Cut(os.Getenv("TIDEGATE_KILL_AT"), "#")
		if v, err := strconv.Atoi(n); err == nil {
			after = v
		}
	})
	list = os.Getenv("TIDEGATE_KILL_LIST")
)

// Hit kills the process with SIGKILL when the parts, joined by slashes, are the moment asked for. A part that is not a
// string is named by its type, or by its String method where the type is no struct.
func Hit(parts ...any) {
	parsed()
	if name == "" && list == "" {
		return
	}
	mu.Lock()
	defer mu.Unlock()
	at := join(parts)
	if list != "" {
		note(at)
	}
	if at != name {
		return
	}
	if after--; after > 0 {
		return
	}
	fmt.Fprintf(os.Stderr, "killpoint: SIGKILL at %s\n", at)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // The signal is on its way; nothing may happen any more.
}

func join(parts []any) string {
	names := make([]string, len(parts))
	for i, p := range parts {
		t := reflect.TypeOf(p)
		switch s, ok := p.(fmt.Stringer); {
		case t.Kind() == reflect.String:
			names[i] = fmt.Sprint(p)
		case t.Kind() == reflect.Struct:
			names[i] = t.Name()
		case ok:
			names[i] = s.String()
		default:
			names[i] = fmt.Sprint(p)
		}
	}
	return strings.Join(names, "/")
}

// note appends the moment to the file that TIDEGATE_KILL_LIST names, so that a test finds all moments there are.
func note(at string) {
	f, err := os.OpenFile(list, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Fprintln(f, at)
}

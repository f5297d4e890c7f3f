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
	mu sync.Mutex
	// before is a moment that has to come first, empty where there is none or it has come.
	before, name string
	after        = 1
	signal       = syscall.SIGKILL
	parsed       = sync.OnceFunc(func() {
		first, then, ordered := strings.Cut(os.Getenv("TIDEGATE_KILL_AT"), ">")
		if ordered {
			before = first
		} else {
			then = first
		}
		var n string
		name, n, _ = strings.Cut(then, "#")
		if v, err := strconv.Atoi(n); err == nil {
			after = v
		}
		if os.Getenv("TIDEGATE_KILL_WITH") == "STOP" {
			signal = syscall.SIGSTOP
		}
	})
	list = os.Getenv("TIDEGATE_KILL_LIST")
)

// Hit kills the process with SIGKILL, or stops it with SIGSTOP, when the parts, joined by slashes, are the moment asked
// for. A part that is not a string is named by its type, or by its String method where the type is no struct.
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
	if before != "" {
		if at == before {
			before = ""
		}
		return
	}
	if at != name {
		return
	}
	if after--; after != 0 {
		return
	}
	fmt.Fprintf(os.Stderr, "killpoint: %v at %s\n", signal, at)
	_ = syscall.Kill(os.Getpid(), signal)
	if signal == syscall.SIGSTOP {
		return // The process goes on where it was, once it is let.
	}
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

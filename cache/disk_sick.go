//go:build killpoints

package cache

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// processFS is the file system of this process, which a test of the binary makes fail: a build with the tag "killpoints"
// asks the file that TIDEGATE_DISK names, at each operation, what is wrong with the disk. It holds one line, such as
// "sync EIO", "write ENOSPC 3" or "sync 6s": the operation (sync, write for all that changes the disk, create, rename,
// read), an error or how long it takes, and how often, without which it is for good. No file, no fault.
func processFS() vfs.FS {
	file := os.Getenv("TIDEGATE_DISK")
	if file == "" {
		return vfs.Default
	}
	return errorfs.Wrap(vfs.Default, &sickness{file: file})
}

type sickness struct {
	file string

	mu   sync.Mutex
	text string // what the file has last said
	left int    // how often it still applies
}

var sickErrors = map[string]error{
	"EIO": syscall.EIO, "ENOSPC": syscall.ENOSPC, "EROFS": syscall.EROFS, "EACCES": syscall.EACCES, "EMFILE": syscall.EMFILE,
}

func (s *sickness) String() string { return "sickness" }

// MaybeError implements errorfs.Injector.
func (s *sickness) MaybeError(op errorfs.Op) error {
	takes, err := s.symptom(op)
	if takes > 0 {
		<-time.After(takes) // this is the slow disk
	}
	if err != nil {
		return &os.PathError{Op: "working on", Path: op.Path, Err: err}
	}
	return nil
}

func (s *sickness) symptom(op errorfs.Op) (takes time.Duration, err error) {
	data, readErr := os.ReadFile(s.file)
	words := strings.Fields(string(data))
	if readErr != nil || len(words) < 2 || !concerns(words[0], op.Kind) {
		return 0, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if string(data) != s.text {
		s.text, s.left = string(data), -1
		if len(words) > 2 {
			s.left, _ = strconv.Atoi(words[2])
		}
	}
	if s.left == 0 {
		return 0, nil
	}
	s.left--
	takes, _ = time.ParseDuration(words[1])
	return takes, sickErrors[words[1]]
}

func concerns(what string, kind errorfs.OpKind) bool {
	switch kind {
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
		return what == "sync" || what == "write"
	case errorfs.OpRename:
		return what == "rename" || what == "write"
	case errorfs.OpCreate:
		return what == "create" || what == "write"
	}
	if kind.ReadOrWrite() == errorfs.OpIsWrite {
		return what == "write"
	}
	return what == "read"
}

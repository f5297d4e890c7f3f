package crash

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// loaded writes an item of 10 KB for each record beside the checkpoints, so that logs and tables come and go.
const loaded = `
    - cache: { resource: state, operator: set, key: "${! @kafka_offset % 200 }", value: '${! "0123456789".repeat(1000) }' }`

// exitOnDisk is how long a pipeline may take to end whose disk has failed: after the restarts it tries, and as long as a
// hard stop takes.
const exitOnDisk = time.Minute

// ailment is what becomes of the disk under a job that runs.
type ailment struct {
	what string
	// fault is what the disk does, in the words of a build with kill points, or begin and end bring it about.
	fault      string
	begin, end func(*sufferer) error
	// pebble and files are what the job ends with on either store; "" where it is to go on.
	pebble, files string
	// again is what the next start says while the disk is still like that; "" where that is not tried.
	again string
	// says is what is logged where the job goes on.
	says string
	// only is the store that is concerned; "" for both. down is set where the disk changes between two runs.
	only string
	down bool
	few  bool // one of the few that are always tried
}

func ailments() []ailment {
	const tried = "(try 3 of 3)"
	return []ailment{
		{
			what: "full", fault: "write ENOSPC", few: true,
			pebble: "the disk or its quota is full", files: "the disk or its quota is full", again: "the disk or its quota is full",
		},
		{
			what: "read-only", fault: "write EROFS",
			pebble: "mounted read-only", files: "mounted read-only", again: "mounted read-only",
		},
		{
			what: "without permission", fault: "write EACCES",
			pebble: "may not write there", files: "may not write there", again: "may not write there",
		},
		{what: "without descriptors", fault: "create EMFILE", only: "checkpoint_file", files: "no file descriptors left"},
		{what: "sync fails once", fault: "sync EIO 1", only: "checkpoint_file", says: "restarting from the last checkpoint", few: true},
		// More than once, since the first may meet a table that is written in the background, which is tried again.
		{what: "sync of the log fails", fault: "sync EIO 4", only: "pebble", pebble: "the disk reports errors", few: true},
		{what: "sync fails", fault: "sync EIO", pebble: "the disk reports errors", files: tried, again: "the disk reports errors"},
		{what: "write fails once", fault: "write EIO 1", pebble: "the disk reports errors", says: "restarting from the last checkpoint"},
		{what: "rename fails once", fault: "rename EIO 1", only: "checkpoint_file", says: "restarting from the last checkpoint"},
		{what: "sync takes 6s, longer than it is logged after", fault: "sync 6s 1", says: "takes long"},
		{what: "sync takes 25s, longer than the timeout twice", fault: "sync 25s 2", pebble: "checkpoint.timeout", files: "did not end within checkpoint.timeout"},
		{
			what: "gone", begin: func(su *sufferer) error { return os.Rename(su.state(), su.state()+".away") },
			end: func(su *sufferer) error {
				return errors.Join(os.RemoveAll(su.state()), os.Rename(su.state()+".away", su.state()))
			},
			pebble: "no such file or directory: it was there", files: "no such file or directory: it was there", again: "holds no checkpoint",
		},
	}
}

func (tr *trial) state() string { return filepath.Join(tr.names.Dir, "state") }

// disk lets the disk of each kind of store fail in each way while the job runs: the job ends or goes on as it is
// documented in docs/state.md, and once the disk is well nothing is lost and nothing doubled.
func (w *ward) disk(t *testing.T) {
	cluster := clusterOf(t, w.tv)
	for i, kind := range []string{"pebble", "checkpoint_file"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := patient
			s.sink = lasting
			if kind == "checkpoint_file" {
				s.store = filesStore
			} else {
				s.processors += loaded
			}
			su := w.newSufferer(t, s, cluster, uint64(200+i))
			// The fault comes with the environment, which the first start was without.
			su.env = []string{"TIDEGATE_DISK=" + su.fault()}
			su.p.Kill()
			require.NoError(t, su.run())
			w.bearAll(t, su, kind, ailments())
			w.mounted(t, su, kind)
			su.end(t, "disk: "+kind)
		})
	}
}

func (w *ward) bearAll(t *testing.T, su *sufferer, kind string, all []ailment) {
	for _, a := range all {
		if w.few && !a.few || a.only != "" && a.only != kind {
			continue
		}
		words := a.pebble
		if kind == "checkpoint_file" {
			words = a.files
		}
		began := time.Now()
		require.NoError(t, su.bear(a, words), "%s: %s", kind, a.what)
		fmt.Printf("disk: %s %s, transaction.version %d: %s, took %v\n", kind, a.what, w.tv, su.line(),
			time.Since(began).Round(100*time.Millisecond))
		require.False(t, su.dirty(), "%s: %s", kind, a.what)
	}
}

func (tr *trial) fault() string { return filepath.Join(tr.names.Dir, "disk") }

// bear lets the pipeline go through one ailment.
func (su *sufferer) bear(a ailment, words string) error {
	su.begin()
	if err := su.goOn(); err != nil {
		return err
	}
	from := fileSize(su.log())
	if a.down {
		su.p.Kill()
	}
	if err := su.sicken(a); err != nil {
		return err
	}
	if a.down {
		if err := su.run(); err != nil {
			return err
		}
	}
	switch {
	case words != "":
		if err := su.endsWith(words); err != nil {
			return err
		}
		if a.again != "" {
			if err := su.run(); err != nil {
				return err
			}
			if err := su.endsWith(a.again); err != nil {
				return fmt.Errorf("while the disk is still like that: %w", err)
			}
		}
	case a.says != "":
		if err := awaitWords(su.p, su.log(), from, a.says); err != nil {
			return err
		}
	}
	if err := su.cure(a); err != nil {
		return err
	}
	if words != "" {
		if err := su.run(); err != nil {
			return err
		}
	}
	deaths := len(su.words)
	if err := su.heal(); err != nil {
		return err
	}
	if len(su.words) != deaths {
		return fmt.Errorf("it has ended by itself: %v", su.words)
	}
	return nil
}

func (su *sufferer) sicken(a ailment) error {
	if a.begin != nil {
		return a.begin(su)
	}
	// The fault is there in full or not at all.
	if err := os.WriteFile(su.fault()+".new", []byte(a.fault), 0o644); err != nil {
		return err
	}
	return os.Rename(su.fault()+".new", su.fault())
}

func (su *sufferer) cure(a ailment) error {
	if a.end != nil {
		return a.end(su)
	}
	return os.Remove(su.fault())
}

// endsWith waits until the pipeline has ended by itself, with 1 and these last words.
func (su *sufferer) endsWith(words string) error {
	if err := su.followFor(su.p, exitOnDisk); !errors.Is(err, errEnded) {
		return su.failed(fmt.Errorf("it goes on, and was to end with %q: %w", words, err))
	}
	code, last := lastWords(su.p, su.log())
	if code != 1 || !strings.Contains(last, words) || !strings.HasPrefix(last, "fatal: ") {
		return su.failed(fmt.Errorf("it has ended with %d, and %q; %q was expected", code, last, words))
	}
	return nil
}

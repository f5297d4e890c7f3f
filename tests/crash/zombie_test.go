package crash

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/child"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// fencedLimit is how long a pipeline may not notice that another one has its ids.
const fencedLimit = 15 * time.Second

// fencedWords are what a pipeline says whose ids another one has taken. One that slept in a write of a record may find
// first that it took too long.
var fencedWords = regexp.MustCompile(`taken over by another owner|initialised again|was suspended`)

// lockWords are what a pipeline says that finds its store in use.
var lockWords = regexp.MustCompile(`(?i)lock|in use`)

// zombie lets two processes believe that they are the one.
func (w *ward) zombie(t *testing.T) {
	cluster := clusterOf(t, w.tv)
	t.Run("store of its own", func(t *testing.T) {
		n := w.times(5)
		if w.few {
			n = 1
		}
		for i := range n {
			w.ownStore(t, cluster, uint64(i))
		}
	})
	t.Run("store copied", func(t *testing.T) {
		points := []string{
			"", "running/action/StartSink", "running/action/StartSource", "running/action/Pause", "running/action/Flush", "running/action/Seal", "running/action/Write", "store/pebble/before commit",
			"store/pebble/after commit", "running/event/WriteDone", "running/action/Commit", "running/event/CommitDone",
			"running/action/CommitOffsets", "running/action/Resume", "first record/action/Write", "init ids/action/InitIDs",
		}
		if w.few {
			return // long: make test-crash SCENARIO=zombie
		}
		su := w.newSufferer(t, patient, cluster, 1000)
		for i, at := range points {
			if err := w.storeCopied(t, su, at, i); err != nil {
				t.Errorf("frozen at %s: %v", at, err)
				su.p.Kill()
				su = w.newSufferer(t, patient, cluster, uint64(1001+i)) // one fault does not hide others
			}
		}
		su.end(t, "zombie: store copied, all")
	})
}

// ownStore starts a second pipeline with a store, topics and a group of its own, and the prefix of the first one.
func (w *ward) ownStore(t *testing.T, cluster *realkafka.Cluster, stream uint64) {
	older := w.newSufferer(t, patient, cluster, stream)
	older.begin()
	require.NoError(t, older.goOn())
	s := patient
	s.startup = "{ mode: earliest-offset, ignore_missing_state: true }"
	n := namesOf(t, cluster, w.tv)
	n.Prefix = older.names.Prefix
	tr, err := newTrial(s, n, cluster, w.connect, older.rng)
	require.NoError(t, err)
	defer tr.close()
	younger := &sufferer{trial: tr}
	require.NoError(t, younger.run())
	defer func() { younger.p.Kill() }()
	younger.begin()
	words, err := older.fenced()
	require.NoError(t, err)
	for range 3 { // the younger one is not fenced back
		require.NoError(t, younger.goOn())
	}
	require.NoError(t, younger.heal())
	fmt.Printf("zombie: store of its own, transaction.version %d: the younger one: %s; the older one ended with: %s\n", w.tv, younger.line(), words)
	require.Empty(t, younger.words)
	younger.end(t, "zombie: store of its own")

	// What the older one had left to commit may have been aborted by the younger: then it cannot go on by itself.
	older.begin()
	require.NoError(t, older.run())
	err = older.heal()
	how := "goes on, " + older.line()
	if err != nil {
		require.NotEmpty(t, older.words, err)
		require.Regexp(t, fencedWords, older.words[0])
		how = "is refused: " + older.words[0]
	}
	fmt.Printf("zombie: store of its own, transaction.version %d: the older one, started again when the younger has stopped, %s\n", w.tv, how)
	require.Zero(t, older.checker.found.doubled)
}

// fenced waits until a pipeline has ended because another one has its ids, and returns what it said.
func (su *sufferer) fenced() (string, error) {
	select {
	case <-su.p.Done():
	case <-time.After(fencedLimit):
		return "", fmt.Errorf("another pipeline has its ids, and it goes on after %v", fencedLimit)
	}
	code, words := lastWords(su.p, su.log())
	if code != 1 || !fencedWords.MatchString(words) {
		return words, fmt.Errorf("exit code %d, and the last words do not tell that another one has the ids: %s", code, words)
	}
	return words, nil
}

// storeCopied freezes a pipeline, starts another one on its store, which is refused, and one on a copy of the store,
// and lets the first one go on.
func (w *ward) storeCopied(t *testing.T, su *sufferer, at string, generation int) error {
	su.begin()
	what := at
	if at == "" {
		what = "a random moment"
		if err := su.goOn(); err != nil {
			return err
		}
		if err := su.followFor(su.p, 2*time.Second); err != nil {
			return err
		}
		su.p.Signal(syscall.SIGSTOP)
	} else {
		if err := su.goOn(); err != nil { // there is a state, which another one can have a copy of
			return err
		}
		su.p.Kill()
		came, err := su.stoppedAt(at, 1)
		if err != nil {
			return err
		}
		if !came {
			return errors.New("that moment did not come")
		}
	}
	older := su.p
	defer older.Kill()
	refused := w.refusedByLock(t, su)
	from := su.names.Dir
	if err := su.moved(patient, filepath.Join(t.TempDir(), fmt.Sprintf("generation-%d", generation))); err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(su.names.Dir, "state"), os.DirFS(filepath.Join(from, "state"))); err != nil {
		return err
	}
	if err := su.run(); err != nil {
		return err
	}
	if err := awaitWords(su.p, su.log(), 0, "sources and sinks are running"); err != nil {
		return err
	}
	if err := su.goOn(); err != nil {
		return err
	}
	older.Signal(syscall.SIGCONT)
	zombie := &sufferer{trial: &trial{names: names{Dir: from}}, p: older}
	words, goesOn := zombie.fenced()
	if goesOn != nil {
		older.Kill()
		words = "nothing: " + goesOn.Error()
	}
	err := errors.Join(goesOn, su.heal())
	fmt.Printf("zombie: store copied, frozen at %s, transaction.version %d: %s; the zombie ended with: %s; one on its store was refused: %s\n",
		what, w.tv, su.line(), words, refused)
	if err == nil && len(su.words) > 0 {
		err = fmt.Errorf("the zombie has fenced its successor: %v", su.words)
	}
	if err == nil && su.dirty() {
		err = fmt.Errorf("%s, first %v", su.line(), su.checker.found.first)
	}
	return err
}

// refusedByLock starts a second pipeline on the store of one that is there.
func (w *ward) refusedByLock(t *testing.T, su *sufferer) string {
	t.Helper()
	log := filepath.Join(t.TempDir(), "second.log")
	second, err := child.Start(exec.Command(su.binary, "run", su.conf()), log)
	require.NoError(t, err)
	defer second.Kill()
	select {
	case <-second.Done():
	case <-time.After(stallLimit):
		t.Fatalf("a second pipeline on one store goes on%s", child.Tail(log, logLines))
	}
	code, words := lastWords(second, log)
	require.Equal(t, 1, code, words)
	require.Regexp(t, lockWords, words)
	return words
}

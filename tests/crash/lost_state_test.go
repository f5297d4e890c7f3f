package crash

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/tests/binary"
)

// TestLostStateIsRefusedUntilItIsToBeIgnored takes the state folder away from a job that ran: the start is refused with
// what the cluster knows and with the way out, does no harm, and goes that way.
func TestLostStateIsRefusedUntilItIsToBeIgnored(t *testing.T) {
	connect := binary.Connect(t)
	eachVersion(t, func(t *testing.T, tv int) {
		cluster := clusterOf(t, tv)
		for name, tc := range map[string]struct {
			leave func(*testing.T, *trial)
			lose  func(dir string) error
			knows func(names) []string
		}{
			"offsets in the group, the folder is gone": {
				leave: func(t *testing.T, tr *trial) { require.NoError(t, tr.runAndStop()) },
				lose:  os.RemoveAll,
				knows: func(n names) []string {
					return []string{`group "` + n.Group + `" has offset `, " of " + n.In + "-", "(tidegate/1 "}
				},
			},
			"an open transaction, the folder is empty": {
				leave: func(t *testing.T, tr *trial) {
					require.NoError(t, tr.killInTransaction())
					tr.names.Group += "-other" // that of before would be named first
				},
				lose: func(dir string) error {
					if err := os.RemoveAll(dir); err != nil {
						return err
					}
					return os.Mkdir(dir, 0o755)
				},
				knows: func(n names) []string {
					return []string{`transactional id "` + n.Prefix + "-0-", "has a transaction that an earlier run", "Ongoing"}
				},
			},
		} {
			t.Run(name, func(t *testing.T) {
				tr, err := newTrial(scenarios[0], namesOf(t, cluster, tv), cluster, connect, rand.New(rand.NewPCG(1, 0)))
				require.NoError(t, err)
				defer tr.close()
				tc.leave(t, tr)
				require.NoError(t, tr.moved(tr.scenario, tr.names.Dir))
				require.NoError(t, tc.lose(filepath.Join(tr.names.Dir, "state")))
				for range 2 { // the first one has made a store, which is as empty
					words := tr.refused(t)
					for _, known := range append(tc.knows(tr.names), "fatal: ", "holds no checkpoint", "set startup.ignore_missing_state: true") {
						require.Contains(t, words, known)
					}
				}

				s := tr.scenario
				s.startup = "{ mode: earliest-offset, ignore_missing_state: true }"
				require.NoError(t, tr.moved(s, tr.names.Dir))
				require.NoError(t, tr.runAndStop())
				require.NoError(t, tr.moved(tr.scenario, tr.names.Dir))
				require.NoError(t, tr.runAndStop(), "with a state nobody has to ignore anything")
			})
		}
	})
}

// TestOldCopyOfTheStateIsRefused puts a copy back that was made before the last run: the group shows that the store has
// been further. With the newest state nobody minds.
func TestOldCopyOfTheStateIsRefused(t *testing.T) {
	connect := binary.Connect(t)
	cluster := clusterOf(t, 2)
	for name, store := range map[string]string{"pebble": pebbleStore, "checkpoint_file": filesStore} {
		t.Run(name, func(t *testing.T) {
			s := scenarios[0]
			s.store = store
			tr, err := newTrial(s, namesOf(t, cluster, 2), cluster, connect, rand.New(rand.NewPCG(1, 0)))
			require.NoError(t, err)
			defer tr.close()
			state := filepath.Join(tr.names.Dir, "state")
			require.NoError(t, tr.runAndStop())
			require.NoError(t, os.CopyFS(state+"-old", os.DirFS(state)))
			require.NoError(t, tr.runAndStop())
			require.NoError(t, os.Rename(state, state+"-newest"))
			require.NoError(t, os.Rename(state+"-old", state))
			words := tr.refused(t)
			for _, known := range []string{
				"fatal: ", "is older than what this store has held", `group "` + tr.names.Group + `" has offsets`, "set startup.ignore_missing_state: true",
			} {
				require.Contains(t, words, known)
			}
			require.NoError(t, os.RemoveAll(state))
			require.NoError(t, os.Rename(state+"-newest", state))
			require.NoError(t, tr.runAndStop())
		})
	}
}

// runAndStop lets the pipeline run until something new has come out, and stops it.
func (tr *trial) runAndStop() error {
	from := fileSize(tr.log())
	p, err := tr.start()
	if err != nil {
		return err
	}
	defer p.Kill()
	// What a killed run has committed may be seen only now.
	if err := cmp.Or(tr.progress(p), awaitWords(p, tr.log(), from, sourcesRun), tr.awaitHandler(p)); err != nil {
		return tr.brokenRun(p, err)
	}
	p.Signal(syscall.SIGTERM)
	if err := tr.followFor(p, exitLimit); !p.Ended() {
		return tr.failed(fmt.Errorf("the pipeline goes on %s after SIGTERM: %w", exitLimit, err))
	}
	if err := p.Err(); err != nil {
		return tr.failed(fmt.Errorf("a graceful stop: %w", err))
	}
	return nil
}

// killInTransaction kills the pipeline at a moment when a transaction is open.
func (tr *trial) killInTransaction() error {
	for range 20 {
		p, err := tr.start()
		if err != nil {
			return err
		}
		if err = tr.progress(p); err == nil {
			err = tr.followFor(p, time.Duration(tr.rng.Int64N(int64(100*time.Millisecond))))
		}
		p.Kill()
		if err != nil {
			return tr.brokenRun(p, err)
		}
		if open, err := tr.openTransaction(); open || err != nil {
			return err
		}
	}
	return fmt.Errorf("no transaction of %s was open after any of 20 kills", tr.names.Prefix)
}

func (tr *trial) openTransaction() (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stallLimit)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(tr.cluster.Bootstrap()...))
	if err != nil {
		return false, fmt.Errorf("asking for open transactions: %w", err)
	}
	defer client.Close()
	all, err := kadm.NewClient(client).ListTransactions(ctx, nil, []string{"Ongoing"})
	if err != nil {
		return false, fmt.Errorf("asking for open transactions: %w", err)
	}
	for _, tx := range all.Sorted() {
		if strings.HasPrefix(tx.TxnID, tr.names.Prefix+"-") {
			return true, nil
		}
	}
	return false, nil
}

// refused starts a pipeline that is to end by itself with exit code 1, and returns its last words.
func (tr *trial) refused(t *testing.T) string {
	t.Helper()
	p, err := tr.start()
	require.NoError(t, err)
	defer p.Kill()
	select {
	case <-p.Done():
	case <-time.After(stallLimit):
		t.Fatal(tr.failed(fmt.Errorf("the pipeline goes on")))
	}
	code, words := lastWords(p, tr.log())
	require.Equal(t, 1, code, words)
	return words
}

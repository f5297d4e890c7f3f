package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/child"
	"github.com/tidegate/tidegate/tests/realkafka"
)

const (
	// reloaded is what Benthos says when a new config runs.
	reloaded = "Updated main config"
	// reloadWait is the longest that a random moment lies behind a rewrite: Benthos waits for a second, and the stop and
	// the recovery take about one more.
	reloadWait = 4 * time.Second
)

// variants are configs that copy the same records to the same place, and differ in all that may differ between two
// incarnations of one pipeline.
func variants() []scenario {
	changed := func(change func(*scenario)) scenario {
		s := patient
		change(&s)
		return s
	}
	return []scenario{
		changed(func(s *scenario) { s.checkpoint = "interval: 40ms\n      timeout: 4s" }),
		changed(func(s *scenario) {
			s.processors += "\n    - mapping: |\n        root = content()\n        meta seen = \"yes\""
		}),
		changed(func(s *scenario) { s.processors += "\n    - split: { size: 7 }" }),
		changed(func(s *scenario) { s.sink = strings.Replace(s.sink, "timeout: 6s", "timeout: 6s, pool_size: 7", 1) }),
		changed(func(s *scenario) { s.sink = strings.Replace(s.sink, "{{ .Prefix }}", "{{ .Prefix }}-new", 1) }),
		changed(func(s *scenario) { s.checkpoint = "interval: 300ms\n      max_concurrent: 2\n      timeout: 4s" }),
		patient,
	}
}

// broken is a config with a mistake.
func broken(old, mistake string) scenario {
	s := patient
	s.processors = strings.Replace(s.processors, old, mistake, 1)
	return s
}

// reload rewrites the config of pipelines that run with -w.
func (w *ward) reload(t *testing.T) {
	rounds := []struct {
		name string
		play func(*ward, *sufferer, int) (string, error)
		few  bool
	}{
		{"another config", (*ward).reloadOnce, true},
		{"two in a row", (*ward).reloadTwice, false},
		{"a lint error", (*ward).reloadLint, false},
		{"a construction that fails", (*ward).reloadUnbuilt, false},
		{"a buffer", (*ward).reloadBuffer, false},
		{"killed", (*ward).reloadKilled, true},
	}
	cluster := clusterOf(t, w.tv)
	t.Run("broker up", func(t *testing.T) {
		for i, r := range rounds {
			n := w.times(10)
			if w.few {
				n = 1
			}
			if w.few && !r.few {
				continue // long: make test-crash SCENARIO=reload
			}
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				su := w.newSufferer(t, patient, cluster, uint64(i), "run", "-w")
				for round := range n {
					require.NoError(t, w.suffer(su, "reload: "+r.name, func() (string, error) { return r.play(w, su, round) }))
				}
				su.end(t, "reload: "+r.name)
			})
		}
	})
	if !w.few {
		w.reloadWithoutBroker(t)
	}
}

// suffer lets a pipeline go through a trouble, waits until everything has come out, and prints what has become of it.
func (w *ward) suffer(su *sufferer, name string, trouble func() (string, error)) error {
	su.begin()
	if err := su.goOn(); err != nil {
		return err
	}
	what, err := trouble()
	if err == nil {
		err = su.heal()
	}
	fmt.Printf("%s, transaction.version %d: %s; %s\n", name, w.tv, su.line(), what)
	if err == nil && su.dirty() {
		err = fmt.Errorf("%s, first %v", su.line(), su.checker.found.first)
	}
	return err
}

// write writes a config in place of the one that is there: into the file, or as a new file in its place.
func (su *sufferer) write(s scenario) error {
	if su.rng.IntN(2) == 0 {
		return su.moved(s, su.names.Dir)
	}
	aside := filepath.Join(su.names.Dir, "aside")
	here := su.names.Dir
	err := su.moved(s, aside)
	su.names.Dir = here
	if err != nil {
		return err
	}
	// The folder of the state is that of the config.
	text, err := os.ReadFile(filepath.Join(aside, "job.yaml"))
	if err != nil {
		return err
	}
	moved := filepath.Join(aside, "moved.yaml")
	if err := os.WriteFile(moved, []byte(strings.ReplaceAll(string(text), aside, here)), 0o644); err != nil {
		return err
	}
	return os.Rename(moved, su.conf())
}

// reloadedBy writes a config and waits for what the pipeline says to it.
func (su *sufferer) reloadedBy(s scenario, words string) error {
	from := fileSize(su.log())
	if err := su.write(s); err != nil {
		return err
	}
	return awaitWords(su.p, su.log(), from, words)
}

// follows reads the output for a random time up to a limit.
func (su *sufferer) follows(limit time.Duration) (time.Duration, error) {
	after := time.Duration(su.rng.Int64N(int64(limit)))
	return after.Round(time.Millisecond), su.followFor(su.p, after)
}

func (w *ward) reloadOnce(su *sufferer, round int) (string, error) {
	all := variants()
	return fmt.Sprintf("variant %d", round%len(all)), su.reloadedBy(all[round%len(all)], reloaded)
}

func (w *ward) reloadTwice(su *sufferer, round int) (string, error) {
	all := variants()
	if err := su.write(all[round%len(all)]); err != nil {
		return "", err
	}
	after, err := su.follows(reloadWait)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("the second after %v", after), su.reloadedBy(all[(round+1)%len(all)], reloaded)
}

// reloadLint leaves the pipeline alone: the config is refused before anything is stopped.
func (w *ward) reloadLint(su *sufferer, round int) (string, error) {
	from := fileSize(su.log())
	if err := su.reloadedBy(broken("root = content()", "root ="), "Rejecting updated main config"); err != nil {
		return "", err
	}
	if err := su.heal(); err != nil {
		return "", err
	}
	text, err := os.ReadFile(su.log())
	if err != nil {
		return "", err
	}
	if began := strings.Contains(string(text[from:]), "sources and sinks are running"); began || len(su.words) > 0 {
		return "", fmt.Errorf("a config that is refused was to change nothing%s", child.Tail(su.log(), logLines))
	}
	return "rejected, then replaced", su.reloadedBy(variants()[round%len(variants())], reloaded)
}

// reloadUnbuilt leaves the process without a stream until there is a config that can be built.
func (w *ward) reloadUnbuilt(su *sufferer, round int) (string, error) {
	mistakes := []scenario{
		broken("- mapping: root = content()", "- cached: { cache: nowhere, key: a, processors: [] }"),
		patient,
	}
	// One fails before the output is built, the other one behind it.
	mistakes[1].output = "{{ sink .Out }}\n  processors:\n    - cached: { cache: nowhere, key: a, processors: [] }"
	if err := su.reloadedBy(mistakes[round%2], "Failed to apply updated config"); err != nil {
		return "", err
	}
	after, err := su.follows(reloadWait)
	if err != nil {
		return "", err
	}
	p := su.p
	if err := su.reloadedBy(variants()[round%len(variants())], reloaded); err != nil {
		return "", err
	}
	if err := su.heal(); err != nil || su.p != p {
		return "", fmt.Errorf("it was to go on without a new process: %w", err)
	}
	return fmt.Sprintf("a good one %v later", after), nil
}

// reloadBuffer ends the process, with the place in the config.
func (w *ward) reloadBuffer(su *sufferer, round int) (string, error) {
	bad := patient
	bad.input = "{{ source .In }}\n\nbuffer:\n  memory: {}"
	if err := su.write(bad); err != nil {
		return "", err
	}
	if err := su.follow(su.p, stallLimit, func() bool { return false }); !su.p.Ended() {
		return "", su.failed(fmt.Errorf("a buffer was to end the process: %w", err))
	}
	code, words := lastWords(su.p, su.log())
	if code != 1 || !strings.Contains(words, "buffer: a memory buffer acknowledges records before they are written") {
		return "", su.failed(fmt.Errorf("a buffer was to end the process with 1, not %d", code))
	}
	if err := su.write(variants()[round%len(variants())]); err != nil {
		return "", err
	}
	return "refused with exit code 1, then started again", su.run()
}

// reloadKilled kills the process around a reload.
func (w *ward) reloadKilled(su *sufferer, round int) (string, error) {
	if err := su.write(variants()[round%len(variants())]); err != nil {
		return "", err
	}
	after, err := su.follows(reloadWait)
	if err != nil {
		return "", err
	}
	su.p.Kill()
	return fmt.Sprintf("killed after %v", after), su.run()
}

// reloadWithoutBroker rewrites the config while the broker is away, so that the incarnation before cannot have its last
// checkpoint. Where it is away for long, the stop takes all the time that Benthos gives it.
func (w *ward) reloadWithoutBroker(t *testing.T) {
	options := optionsOf(t, w.tv)
	options.Brokers = 1
	cluster := realkafka.Start(t, options)
	s := patient
	s.checkpoint = everySome + "\n      timeout: 1m"
	s.sink = lasting
	hasty := patient
	hasty.sink = lasting
	for _, s := range []scenario{s, hasty} { // a long checkpoint.timeout, and one that is over before the stop is
		faster := s
		faster.checkpoint = strings.Replace(s.checkpoint, "100ms", "40ms", 1)
		su := w.newSufferer(t, s, cluster, 100, "run", "-w")
		for round := range max(1, w.times(10)/2) {
			away := func() (string, error) {
				if err := cluster.Kill(0); err != nil {
					return "", err
				}
				defer func() {
					if !cluster.Running(0) {
						_ = cluster.Restart(0)
					}
				}()
				next := []scenario{faster, s}[round%2]
				if err := su.reloadedBy(next, "attempting to update pipeline"); err != nil {
					return "", err
				}
				limit := 5 * time.Second
				if round%2 == 0 {
					limit = 40 * time.Second // 30 s of it for the stop
				}
				after, err := su.follows(limit)
				if err != nil && !su.p.Ended() {
					return "", err
				}
				return fmt.Sprintf("the broker came back %v after the reload began", after), cluster.Restart(0)
			}
			require.NoError(t, w.suffer(su, "reload: broker away, "+strings.Fields(s.checkpoint)[3], away))
		}
		su.end(t, "reload: broker away")
	}
}

package lint

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/child"
)

// TestRefusalsSayWhatAndWhyAndTheWayOut gives the binary what it refuses, in each way a config can come to it, and holds
// the whole answer. Run with -rewrite to accept a change, and read the diff: it is what users read.
//
// The command is `refuse`, its arguments are the ways: lint, run, reload (a job that runs under -w gets the config) and
// streams; flags=( ) and sets=( ) go to the command line. The input is a config without its caches. In it SOURCE is a
// source with checkpoints, SOURCE[a: b] one with more in its checkpoint block, SOLO one without checkpoints, SINK an
// exactly-once sink, SINK[p] one with the prefix p. A line "# name.yaml" begins another file: resources.yaml is given
// with -r, any other one is another stream.
func TestRefusalsSayWhatAndWhyAndTheWayOut(t *testing.T) {
	datadriven.Walk(t, "testdata/refusals", func(t *testing.T, path string) {
		t.Parallel()
		broker := startBroker(t, 0, "in", "other", "out", "more")
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			require.Equal(t, "refuse", d.Cmd)
			var b strings.Builder
			r := refusal{bootstrap: broker.Addrs()[0], files: filesOf(d.Input), data: d}
			for _, arg := range d.CmdArgs {
				if ask := ways[arg.Key]; ask != nil {
					fmt.Fprintf(&b, "%s: %s\n", arg.Key, ask(r, t))
				}
			}
			return b.String()
		})
	})
}

// refusal is what is to be refused.
type refusal struct {
	bootstrap string
	files     map[string]string
	data      *datadriven.TestData
}

var ways = map[string]func(refusal, *testing.T) string{
	"lint": refusal.lint, "run": refusal.run, "reload": refusal.reload, "streams": refusal.streams,
}

// caches are what every config can name: stores, and what is none.
const caches = `cache_resources:
  - label: state
    pebble: { path: "${STATE_DIR}" }
  - label: development
    checkpoint_memory: {}
  - label: forgetful
    memory: {}
  - label: folder
    file: { directory: "${STATE_DIR}-files" }
`

var (
	words = regexp.MustCompile(`\b(SOURCE|SOLO|SINK)\b(?:\[([^\]]*)\])?`)
	// logFields are the answers in lines of a log.
	logFields = regexp.MustCompile(`(?:cause|msg|error|lint)=("(?:[^"\\]|\\.)*")`)
	lints     = regexp.MustCompile(`^\S+\.yaml\(\d+,\d+\) `)
	// noStream is in the log of a process whose stream does not run.
	noStream  = regexp.MustCompile(`the stream has failed|Failed to connect`)
	anyStream = regexp.MustCompile(`stream "\w+"`)
)

// filesOf splits the input, and writes out its words.
func filesOf(input string) map[string]string {
	files, name := map[string]string{}, "job.yaml"
	for line := range strings.Lines(input) {
		if next, ok := strings.CutPrefix(strings.TrimSpace(line), "# "); ok && strings.HasSuffix(next, ".yaml") {
			name = next
			continue
		}
		files[name] += words.ReplaceAllStringFunc(line, spelled)
	}
	for name := range files {
		files[name] += "\n"
	}
	return files
}

func spelled(word string) string {
	m := words.FindStringSubmatch(word)
	const source = `kafka_flink_source: { bootstrap_servers: [ "${BOOTSTRAP}" ], topics: [ in ], group_id: job, startup: { mode: earliest-offset }`
	switch more := m[2]; m[1] {
	case "SOLO":
		return source + " }"
	case "SOURCE":
		if more != "" {
			more = ", " + more
		}
		return source + ", checkpoint: { interval: 100ms, store: state" + more + " } }"
	default:
		if more == "" {
			more = "job"
		}
		return `kafka_flink_sink: { bootstrap_servers: [ "${BOOTSTRAP}" ], topic: out, delivery_guarantee: exactly-once, transactional_id_prefix: ` + more + " }"
	}
}

// options are what the case adds to a command line.
func (r refusal) options() (options []string) {
	for _, arg := range r.data.CmdArgs {
		switch arg.Key {
		case "flags":
			options = append(options, arg.Vals...)
		case "sets":
			for _, set := range arg.Vals {
				options = append(options, "--set", set)
			}
		}
	}
	if r.files["resources.yaml"] != "" {
		options = append(options, "-r", "resources.yaml")
	}
	return options
}

// begin starts the binary in a folder that has the files.
func (r refusal) begin(t *testing.T, files map[string]string, args ...string) *job {
	all := maps.Clone(r.files)
	maps.Copy(all, files)
	return startFiles(t, r.bootstrap, all, args...)
}

func (r refusal) lint(t *testing.T) string {
	j := r.begin(t, map[string]string{"job.yaml": "http: { enabled: false }\n" + caches + r.files["job.yaml"]},
		append(append([]string{"lint", "--skip-env-var-check"}, r.options()...), "job.yaml")...)
	code := j.end(t)
	return r.answer(fmt.Sprintf("exit %d", code), j, strings.TrimSpace(string(j.text(t))))
}

func (r refusal) run(t *testing.T) string {
	j := r.begin(t, map[string]string{"job.yaml": "http: { enabled: false }\n" + caches + r.files["job.yaml"]},
		append(append([]string{"run"}, r.options()...), "job.yaml")...)
	return r.answer(fmt.Sprintf("exit %d", j.end(t)), j, lastWords(t, j))
}

// reload starts a job that is sound, and changes its file.
func (r refusal) reload(t *testing.T) string {
	const head = "http: { enabled: false }\nshutdown_timeout: 5s\n" + caches
	sound := strings.Join(slices.Collect(maps.Values(filesOf("input: { SOURCE }\noutput: { SINK }"))), "")
	j := r.begin(t, map[string]string{"job.yaml": head + sound},
		append(append([]string{"run", "-w"}, r.options()...), "job.yaml")...)
	j.said(t, "sources and sinks are running")
	rejected := false
	j.rewritten(t, head+r.files["job.yaml"], func() bool {
		rejected = slices.ContainsFunc(strings.Split(string(j.text(t)), "\n"), func(line string) bool {
			return !strings.Contains(line, "level=error") && faultIn(line) != ""
		})
		return rejected || j.Ended()
	})
	how := "exit %d"
	if rejected {
		how = "the job goes on as it was, and ends with exit %d"
		j.Signal(syscall.SIGTERM)
	}
	return r.answer(fmt.Sprintf(how, j.end(t)), j, lastWords(t, j))
}

// streams gives the stream to a process that runs several. One that fails does not end it.
func (r refusal) streams(t *testing.T) string {
	root, address := streamsRoot(t)
	root, _, _ = strings.Cut(root, "cache_resources:")
	args := append([]string{"streams", "-o", "root.yaml", "-r", "caches.yaml"}, r.options()...)
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		if name != "resources.yaml" {
			args = append(args, name)
		}
	}
	j := r.begin(t, map[string]string{"root.yaml": root, "caches.yaml": caches}, args...)
	failed := false
	j.until(t, 20*time.Millisecond, func() bool {
		failed = noStream.Match(j.text(t))
		return failed || j.Ended()
	})
	how := "exit %d"
	if failed && !j.Ended() {
		how = "the process goes on, and ends with exit %d"
		j.Signal(syscall.SIGTERM)
	}
	how = fmt.Sprintf(how, j.end(t))
	said := strings.ReplaceAll(lastWords(t, j), strings.TrimPrefix(address, "http://"), "${ADDRESS}")
	if len(r.files) > 1 { // any may be the first
		said = anyStream.ReplaceAllLiteralString(said, `stream "${STREAM}"`)
	}
	return r.answer(how, j, said)
}

// lastWords are what the process printed at last: a cause, which may have several lines, or the faults in its log, each
// once. That Benthos stops for lints is known by the lints.
func lastWords(t *testing.T, j *job) string {
	text := strings.TrimSpace(string(j.text(t)))
	if i := strings.LastIndex(text, "fatal: "); i >= 0 && (i == 0 || text[i-1] == '\n') {
		return text[i:]
	}
	var said []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "time=") {
			line = faultIn(line)
		}
		told := func(before string) bool { return before == line || strings.HasSuffix(line, ": "+before) }
		if line != "" && !strings.Contains(line, "linter errors") && !slices.ContainsFunc(said, told) {
			said = append(said, line)
		}
	}
	return strings.Join(said, "\n")
}

// faultIn is what a line of the log says is wrong, if anything.
func faultIn(line string) string {
	fault := ""
	for _, m := range logFields.FindAllStringSubmatch(line, -1) {
		text, err := strconv.Unquote(m[1])
		isLint := lints.MatchString(text) && !strings.Contains(text, "got !!null") // it was read while being written
		if err == nil && (strings.Contains(line, "level=error") || isLint) && len(text) > len(fault) {
			fault = text
		}
	}
	return fault
}

// answer is what was said, without what is this machine's.
func (r refusal) answer(how string, j *job, said string) string {
	said = strings.NewReplacer(filepath.Dir(j.log), "${DIR}", r.bootstrap, "${BOOTSTRAP}").Replace(said)
	if said == "" {
		return how
	}
	return how + "\n  " + strings.ReplaceAll(said, "\n", "\n  ")
}

// rewritten changes the file of a job that runs under -w, and waits until that has the effect.
func (j *job) rewritten(t *testing.T, text string, effect func() bool) {
	t.Helper()
	var written time.Time
	j.until(t, 20*time.Millisecond, func() bool {
		// Benthos may have been about to look at the file for the first time. It waits until there are no more changes.
		if time.Since(written) > limit/3 {
			require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(j.log), "job.yaml"), []byte(text), 0o600))
			written = time.Now()
		}
		return effect()
	})
}

// until waits for a condition, also past the end of the job.
func (j *job) until(t *testing.T, every time.Duration, is func() bool) {
	t.Helper()
	tick := time.NewTicker(every)
	defer tick.Stop()
	timeout := time.After(4 * limit)
	for !is() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("it never came to that%s", child.Tail(j.log, 30))
		}
	}
}

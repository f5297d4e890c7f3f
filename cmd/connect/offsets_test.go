package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/cmd/connect/offsets"
	"github.com/tidegate/tidegate/internal/devbroker"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// dryJob is a job with what stands around its source. @SOURCE@ is filled in by tests.
const dryJob = `
http: { enabled: false }
cache_resources:
  - label: state
    @KIND@: { path: "${STATE_DIR}" }
input:
  label: @LABEL@
  kafka_flink_source:
    bootstrap_servers: "${BOOTSTRAP_SERVERS}"
    @SOURCE@
output: { drop: {} }
`

// dry is a job in a directory of its own.
type dry struct {
	t          *testing.T
	dir, state string
	client     *kgo.Client
	admin      *kadm.Client
}

func newDry(t *testing.T, bootstrap []string) *dry {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	d := &dry{t: t, dir: t.TempDir(), client: cl, admin: kadm.NewClient(cl)}
	d.state = filepath.Join(d.dir, "state")
	t.Setenv("BOOTSTRAP_SERVERS", strings.Join(bootstrap, ","))
	t.Setenv("STATE_DIR", d.state)
	return d
}

// job writes the config with these lines of the source, and returns its path.
func (d *dry) job(kind, label string, source ...string) string {
	text := strings.NewReplacer("@KIND@", kind, "@LABEL@", label, "@SOURCE@", strings.Join(source, "\n    ")).Replace(dryJob)
	file := filepath.Join(d.dir, "job.yaml")
	require.NoError(d.t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// produce writes n records to a partition, with timestamps 1000, 1001, ... ms.
func (d *dry) produce(topic string, partition int32, n int) {
	for i := range n {
		require.NoError(d.t, d.client.ProduceSync(d.t.Context(), &kgo.Record{
			Topic: topic, Partition: partition, Value: []byte("x"), Timestamp: time.UnixMilli(int64(1000 + i)),
		}).FirstErr())
	}
}

// told is the JSON of the command.
type told struct {
	Sources []struct {
		Source, Group, Note, Error string
		Checkpoint                 *struct{ Record, Checkpoint uint64 }
		Partitions                 []toldPartition
	}
}

type toldPartition struct {
	Topic     string
	Partition int32
	Offset    int64
	Rule      string
	Replaces  *int64
	LogStart  int64 `json:"log_start"`
	LogEnd    int64 `json:"log_end"`
	Stop      *int64
	NotRead   string `json:"not_read"`
}

// offsets is the command without its process; args are those of run. It returns its error's text.
func (d *dry) offsets(file string, args ...string) (got told, failed string) {
	d.t.Helper()
	var out, log bytes.Buffer
	job, err := readJob(d.t.Context(), append(args, file))
	if err == nil {
		err = offsets.Run(d.t.Context(), job, offsets.Options{
			JSON: true, Out: &out, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
	}
	if out.Len() > 0 {
		require.NoError(d.t, json.Unmarshal(out.Bytes(), &got), out.String())
	}
	if err != nil {
		return got, err.Error()
	}
	require.Empty(d.t, log.String())
	return got, ""
}

// groups are the consumer groups there are.
func (d *dry) groups() []string {
	listed, err := d.admin.ListGroups(d.t.Context())
	require.NoError(d.t, err)
	return listed.Groups()
}

func at(n int64) *int64 { return &n }

func TestOffsetsTellsWhereEachModeBegins(t *testing.T) {
	broker, err := devbroker.Start(devbroker.Options{Topics: []devbroker.Topic{{Name: "in", Partitions: 2}}})
	require.NoError(t, err)
	defer broker.Close()
	d := newDry(t, broker.Addrs())
	d.produce("in", 0, 5)
	d.produce("in", 1, 3)
	var committed kadm.Offsets
	committed.AddOffset("in", 0, 2, -1)
	require.NoError(t, d.admin.CommitAllOffsets(t.Context(), "half", committed))

	row := func(p int32, offset, end int64, rule string, stop *int64) toldPartition {
		return toldPartition{Topic: "in", Partition: p, Offset: offset, Rule: rule, LogEnd: end, Stop: stop}
	}
	for name, tc := range map[string]struct {
		source []string
		want   []toldPartition
		err    string
	}{
		"earliest": {
			source: []string{"topics: in", "startup: { mode: earliest-offset }"},
			want:   []toldPartition{row(0, 0, 5, "earliest", nil), row(1, 0, 3, "earliest", nil)},
		},
		"latest, bounded by the end": {
			source: []string{"topics: in", "startup: { mode: latest-offset }", "bounded: { mode: latest-offset }"},
			want:   []toldPartition{row(0, 5, 5, "latest", at(5)), row(1, 3, 3, "latest", at(3))},
		},
		"a group with a fallback": {
			source: []string{"topics: in", "group_id: half", "startup: { offset_reset: earliest }"},
			want:   []toldPartition{row(0, 2, 5, "committed offset", nil), row(1, 0, 3, "offset_reset earliest", nil)},
		},
		"a group without": {
			source: []string{"topics: in", "group_id: half"}, err: `group "half" has no committed offset for partitions in 1`,
		},
		"a timestamp, one partition": {
			source: []string{`partitions: [ "in:0" ]`, "startup: { mode: timestamp, timestamp: 1003 }"},
			want:   []toldPartition{row(0, 3, 5, "timestamp", nil)},
		},
		"specific offsets": {
			source: []string{"topics: in", `startup: { mode: specific-offsets, specific_offsets: "partition:0,offset:1;partition:1,offset:9" }`},
			want: []toldPartition{row(0, 1, 5, "specific offset", nil),
				{Topic: "in", Partition: 1, Rule: "offset_reset earliest", Replaces: at(9), LogEnd: 3}},
		},
		"a share": {
			source: []string{"topics: in", "startup: { mode: earliest-offset }", "parallelism: 2", "index: 1"},
			want:   []toldPartition{row(0, 0, 5, "earliest", nil)},
		},
		"no such topic": {
			source: []string{"topics: nowhere", "startup: { mode: earliest-offset }"}, err: `topics: "nowhere": no such topic`,
		},
		"no store of that name": {
			source: []string{"topics: in", "startup: { mode: earliest-offset }", "checkpoint: { interval: 1s, store: nothing }"},
			err:    `checkpoint.store: "nothing": no cache has this label`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d.t = t
			got, failed := d.offsets(d.job("pebble", `""`, tc.source...))
			require.Contains(t, failed, tc.err)
			require.Len(t, got.Sources, 1)
			require.Equal(t, "input", got.Sources[0].Source)
			if tc.err != "" {
				require.NotEmpty(t, got.Sources[0].Error)
				require.Contains(t, failed, got.Sources[0].Error)
			}
			require.ElementsMatch(t, tc.want, got.Sources[0].Partitions)
			require.NoDirExists(t, d.state)
		})
	}
	d.t = t
	require.Equal(t, []string{"half"}, d.groups(), "no group was made")
}

func TestOffsetsOfACheckpointAreThoseItHoldsAndChangeNothing(t *testing.T) {
	for _, kind := range []string{"pebble", "checkpoint_file"} {
		t.Run(kind, func(t *testing.T) {
			broker, err := devbroker.Start(devbroker.Options{Topics: []devbroker.Topic{{Name: "in", Partitions: 1}}})
			require.NoError(t, err)
			defer broker.Close()
			d := newDry(t, broker.Addrs())
			d.produce("in", 0, 5)
			source := []string{"topics: in", "group_id: g", "startup: { mode: earliest-offset }", "checkpoint: { interval: 50ms, store: state }"}
			file := d.job(kind, "orders", source...)
			got, failed := d.offsets(file)
			require.Empty(t, failed)
			require.Equal(t, "orders", got.Sources[0].Source)
			require.Contains(t, got.Sources[0].Note, "no checkpoint yet in "+kind)
			require.Equal(t, "earliest", got.Sources[0].Partitions[0].Rule)

			job := connect(t, "run", file)
			require.NoError(t, job.Start())
			defer func() { _ = job.Process.Kill(); _ = job.Wait() }()
			d.awaitCommitted("g", "in", 5)
			_, failed = d.offsets(file)
			require.Contains(t, failed, "is in use by another process")
			require.Contains(t, failed, "While the job runs its positions move")
			require.NoError(t, job.Process.Signal(syscall.Signal(0)), "the job runs on")
			d.produce("in", 0, 2)
			d.awaitCommitted("g", "in", 7)
			require.NoError(t, job.Process.Signal(syscall.SIGTERM))
			require.NoError(t, job.Wait())

			before := treeOf(t, d.state)
			d.produce("in", 0, 1)
			got, failed = d.offsets(file)
			require.Empty(t, failed)
			require.NotNil(t, got.Sources[0].Checkpoint)
			require.Equal(t, []toldPartition{{Topic: "in", Offset: 7, Rule: "checkpoint", LogEnd: 8}}, got.Sources[0].Partitions)
			require.Equal(t, before, treeOf(t, d.state))

			// What would end the start is said in the same words.
			_, failed = d.offsets(d.job(kind, "other", source...))
			require.Contains(t, failed, `the newest checkpoint has positions of the input "orders", which the config no longer has`)
			require.NoError(t, os.RemoveAll(d.state))
			file = d.job(kind, "orders", source...)
			_, failed = d.offsets(file)
			require.Contains(t, failed, "holds no checkpoint, but group \"g\" has offset 7 of in-0")
			require.True(t, strings.HasPrefix(failed, "orders: the state store"), "named once: %s", failed)
			out, err := connect(t, "run", file).CombinedOutput()
			require.Error(t, err)
			require.Contains(t, string(out), "holds no checkpoint, but group \"g\" has offset 7 of in-0")
		})
	}
}

// awaitCommitted waits until the group is at an offset of partition 0.
func (d *dry) awaitCommitted(group, topic string, want int64) {
	d.t.Helper()
	require.Eventually(d.t, func() bool {
		all, err := d.admin.FetchOffsets(d.t.Context(), group)
		o, ok := all.Lookup(topic, 0)
		return err == nil && ok && o.At == want
	}, 30*time.Second, 20*time.Millisecond)
}

// treeOf is everything in a directory, with the times at which it was written.
func treeOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		all[path] = info.ModTime().String()
		if !e.IsDir() {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			all[path] += string(text)
		}
		return nil
	}))
	return all
}

func TestOffsetsReadsTheConfigAsRunDoes(t *testing.T) {
	broker, err := devbroker.Start(devbroker.Options{Topics: []devbroker.Topic{{Name: "in", Partitions: 1}, {Name: "more", Partitions: 1}}})
	require.NoError(t, err)
	defer broker.Close()
	d := newDry(t, broker.Addrs())
	file := d.job("pebble", `""`, `topics: "${TOPICS}"`, "startup: { mode: earliest-offset }", "checkpoint: { interval: 1s, store: elsewhere }")
	env, more := filepath.Join(d.dir, "env"), filepath.Join(d.dir, "more.yaml")
	require.NoError(t, os.WriteFile(env, []byte("TOPICS=more\n"), 0o600))
	require.NoError(t, os.WriteFile(more, []byte("cache_resources: [ { label: elsewhere, checkpoint_memory: {} } ]\n"), 0o600))
	got, failed := d.offsets(file, "--env-file", env, "-r", more)
	require.Empty(t, failed)
	require.Equal(t, "more", got.Sources[0].Partitions[0].Topic)
	require.Contains(t, got.Sources[0].Note, "forgets all at the end of a process")

	got, failed = d.offsets(file, "--env-file", env, "-r", more, "--set", "input.kafka_flink_source.topics=in")
	require.Empty(t, failed)
	require.Equal(t, "in", got.Sources[0].Partitions[0].Topic)

	for says, args := range map[string][]string{
		"name the config": {"offsets"},
		"a.yaml":          {"offsets", filepath.Join(d.dir, "a.yaml")},
		// What stands around a source counts too.
		"a memory buffer acknowledges records before they are written": {"offsets", "-r", more, "--env-file", env, "--set", "buffer.memory.limit=1000", file},
	} {
		out, err := connect(t, args...).CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 1, exit.ExitCode())
		require.Contains(t, string(out), says)
	}
	table, err := connect(t, "offsets", "-r", more, "--env-file", env, file).Output()
	require.NoError(t, err)
	require.Regexp(t, `(?m)^  TOPIC +PARTITION +STARTS AT +BECAUSE OF +LOG START +LOG END +STOPS BEFORE$`, string(table))
	require.Regexp(t, `(?m)^  more +0 +0 +earliest +0 +0 +never$`, string(table))
}

// TestOffsetsOnARealBrokerAreThoseTheStartBegins holds what was told against what a run then does.
func TestOffsetsOnARealBrokerAreThoseTheStartBegins(t *testing.T) {
	kafka := realkafka.Start(t, realkafka.Options{})
	topic := kafka.Topic(t, 2)
	d := newDry(t, kafka.Bootstrap())
	d.produce(topic, 0, 6)
	d.produce(topic, 1, 4)
	var gone kadm.Offsets
	gone.AddOffset(topic, 0, 2, -1)
	_, err := d.admin.DeleteRecords(t.Context(), gone)
	require.NoError(t, err)
	var warm kadm.Offsets // a new cluster has no group coordinator until it is asked for one
	warm.AddOffset(topic, 0, 0, -1)
	require.Eventually(t, func() bool { return d.admin.CommitAllOffsets(t.Context(), "warm", warm) == nil }, 30*time.Second, 100*time.Millisecond)
	file := d.job("pebble", `""`, "topics: "+topic, "group_id: g", "startup: { mode: timestamp, timestamp: 1003 }",
		"bounded: { mode: latest-offset }", "checkpoint: { interval: 100ms, store: state }")
	got, failed := d.offsets(file)
	require.Empty(t, failed)
	require.Equal(t, []toldPartition{
		{Topic: topic, Partition: 0, Offset: 3, Rule: "timestamp", LogStart: 2, LogEnd: 6, Stop: at(6)},
		{Topic: topic, Partition: 1, Offset: 3, Rule: "timestamp", LogEnd: 4, Stop: at(4)},
	}, got.Sources[0].Partitions)
	require.NotContains(t, d.groups(), "g")

	out, err := connect(t, "run", file).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "timestamp: 2")
	d.awaitCommitted("g", topic, *got.Sources[0].Partitions[0].Stop)
	got, failed = d.offsets(file)
	require.Empty(t, failed)
	require.Equal(t, []toldPartition{
		{Topic: topic, Partition: 0, Offset: 6, Rule: "checkpoint", LogStart: 2, LogEnd: 6, Stop: at(6)},
		{Topic: topic, Partition: 1, Offset: 4, Rule: "checkpoint", LogEnd: 4, Stop: at(4)},
	}, got.Sources[0].Partitions)
}

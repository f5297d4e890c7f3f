package parity

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/child"
	"github.com/tidegate/tidegate/tests/realkafka"

	"github.com/tidegate/tidegate/tests/streams"
)

const flinkName = "flink"

//go:embed flink/pom.xml
var flinkPOM []byte

// flink is Apache Flink in one Java machine.
type flink struct {
	t   testing.TB
	dir string

	mu   sync.Mutex
	in   io.Writer
	jobs map[string]*flinkJob // guarded by mu
}

// startFlink compiles the judge and starts it.
func startFlink(t testing.TB) *flink {
	t.Helper()
	f := &flink{t: t, dir: t.TempDir(), jobs: map[string]*flinkJob{}}
	classPath, java := f.compile()
	log, err := filepath.Abs("flink/log4j2.properties")
	require.NoError(t, err)
	cmd := exec.Command(java, "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
		"--add-opens", "java.base/java.util=ALL-UNNAMED", "--add-opens", "java.base/java.lang=ALL-UNNAMED",
		"-Dlog4j2.configurationFile="+log, "-Djava.io.tmpdir="+f.dir, "-cp", classPath, "Judge")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := child.Run(cmd); err != nil {
			t.Errorf("running Flink: %v", err)
		}
	})
	f.in = in
	wg.Go(func() { f.listen(out) })
	t.Cleanup(func() {
		_ = in.Close()
		wg.Wait()
	})
	return f
}

// compile returns the class path of the compiled judge, and the program java.
func (f *flink) compile() (classPath, java string) {
	f.t.Helper()
	java, err := realkafka.JavaBinary()
	require.NoError(f.t, err)
	libs, err := realkafka.Jars(context.Background(), "flink-2.2.1-kafka-5.0.0", flinkPOM)
	require.NoError(f.t, err)
	jars := filepath.Join(libs, "*")
	cmd := exec.Command(filepath.Join(filepath.Dir(java), "javac"), "-J-Xmx256m", "-nowarn", "-d", f.dir, "-cp", jars, "flink/Judge.java")
	out, err := cmd.CombinedOutput()
	require.NoError(f.t, err, string(out))
	return f.dir + string(filepath.ListSeparator) + jars, java
}

// listen takes the judge's lines to the jobs.
func (f *flink) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			ID, Event, Path string
			Row             []*string
			Causes          []string
			Owners          []int32
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			f.t.Errorf("Flink says %q: %v", lines.Text(), err)
			continue
		}
		f.mu.Lock()
		j := f.jobs[e.ID]
		f.mu.Unlock()
		j.mu.Lock()
		switch e.Event {
		case "row":
			j.got = append(j.got, rowOf(e.Row))
		case "owners":
			j.owners <- e.Owners
		case "savepoint":
			j.saved <- e.Path
		case "ended", "failed":
			if len(e.Causes) > 0 {
				j.cause = strings.Join(e.Causes, " | ")
			}
			j.ended.Do(func() { close(j.over) })
		}
		j.mu.Unlock()
	}
}

func rowOf(r []*string) streams.Row {
	partition, _ := strconv.Atoi(*r[1])
	offset, _ := strconv.ParseInt(*r[2], 10, 64)
	value := "null"
	if r[3] != nil {
		value = *r[3]
	}
	return streams.Row{Topic: *r[0], Partition: partition, Offset: offset, Value: value}
}

func (f *flink) send(command map[string]any) {
	f.t.Helper()
	line, err := json.Marshal(command)
	require.NoError(f.t, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err = f.in.Write(append(line, '\n'))
	require.NoError(f.t, err)
}

func (f *flink) name() string            { return flinkName }
func (f *flink) patience() time.Duration { return 3 * time.Minute }
func (f *flink) settle() time.Duration   { return 8 * time.Second }

func (f *flink) start(tr *trial, saved string) job {
	id := tr.id
	if saved != "" {
		id += "_restored"
	}
	j := f.job(id)
	command := tr.flinkAPI()
	if tr.sayableInSQL() {
		command = map[string]any{"via": "sql", "options": tr.flinkOptions()}
	}
	command["cmd"], command["id"] = "start", id
	if tr.checkpoints {
		command["checkpoint_ms"] = 300
	}
	if saved != "" {
		command["restore"] = saved
	}
	f.send(command)
	return j
}

func (f *flink) job(id string) *flinkJob {
	j := &flinkJob{flink: f, id: id, over: make(chan struct{}), saved: make(chan string, 1), owners: make(chan []int32, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs[id] = j
	return j
}

// owners asks which of several readers reads each partition.
func (f *flink) owners(partitions []string, readers int32) []int32 {
	f.t.Helper()
	j := f.job(fmt.Sprint("owners_", readers))
	f.send(map[string]any{"cmd": "owners", "id": j.id, "partitions": partitions, "readers": readers})
	select {
	case owners := <-j.owners:
		return owners
	case <-j.over:
		f.t.Fatal(j.failure())
	case <-time.After(f.patience()):
		f.t.Fatal("Flink does not tell the owners")
	}
	return nil
}

// sayableInSQL tells whether table options can say the case; else Flink's builder has to.
func (c parityCase) sayableInSQL() bool {
	return c.partitions == nil && c.start.offsets == nil && c.stop.offsets == nil && !c.stop.keepRunning &&
		(c.start.reset == "" || c.start.mode == "group-offsets") && c.stop.mode != "earliest-offset" && c.stop.reset == ""
}

func (tr *trial) real(logical []string) []string {
	out := make([]string, len(logical))
	for i, l := range logical {
		out[i] = tr.world.Topic(l)
	}
	return out
}

// regex is the pattern over real names.
func (tr *trial) regex() string { return regexp.QuoteMeta(tr.world.Prefix) + "(?:" + tr.pattern + ")" }

// flinkOptions are those of CREATE TABLE.
func (tr *trial) flinkOptions() map[string]string {
	o := map[string]string{
		"connector": "kafka", "format": "raw", "properties.bootstrap.servers": strings.Join(tr.world.Bootstrap, ","),
	}
	if tr.pattern != "" {
		o["topic-pattern"] = tr.regex()
	} else {
		o["topic"] = strings.Join(tr.real(tr.topics), ";")
	}
	if tr.group != "" {
		o["properties.group.id"] = tr.world.Group(tr.group)
	}
	if tr.readCommitted {
		o["properties.isolation.level"] = "read_committed"
	}
	if tr.start.reset != "" {
		o["properties.auto.offset.reset"] = tr.start.reset
	}
	if tr.discovery != 0 {
		o["scan.topic-partition-discovery.interval"] = fmt.Sprintf("%d ms", max(0, slowly(tr.discovery).Milliseconds()))
	}
	for prefix, p := range map[string]position{"scan.startup.": tr.start, "scan.bounded.": tr.stop} {
		if p.mode == "" {
			continue
		}
		o[prefix+"mode"] = p.mode
		if p.mode == "timestamp" {
			o[prefix+"timestamp-millis"] = fmt.Sprint(p.timestamp)
		}
		if p.mode == "specific-offsets" && p.specific != absent {
			o[prefix+"specific-offsets"] = p.specific
		}
	}
	return o
}

// slowly is Flink's interval. Where a look at the cluster takes longer than the interval, Flink's enumerator begins the
// next one before it has noted what the last one found, and reads new partitions once for each.
func slowly(interval time.Duration) time.Duration {
	if interval <= 0 {
		return interval
	}
	return max(interval, 3*time.Second)
}

// flinkAPI says the same to Flink's KafkaSource.builder().
func (tr *trial) flinkAPI() map[string]any {
	properties := map[string]string{}
	job := map[string]any{"via": "api", "bootstrap": strings.Join(tr.world.Bootstrap, ","), "properties": properties}
	switch {
	case tr.pattern != "":
		job["pattern"] = tr.regex()
	case tr.partitions != nil:
		job["partitions"] = tr.real(tr.partitions)
	default:
		job["topics"] = tr.real(tr.topics)
	}
	if tr.group != "" {
		job["group"] = tr.world.Group(tr.group)
	}
	if tr.readCommitted {
		properties["isolation.level"] = "read_committed"
	}
	if tr.discovery != 0 {
		properties["partition.discovery.interval.ms"] = fmt.Sprint(slowly(tr.discovery).Milliseconds())
	}
	job["start"] = tr.initializer(tr.start)
	switch {
	case tr.stop.keepRunning:
		job["unbounded"] = tr.initializer(tr.stop)
	case tr.stop.mode != "":
		job["bounded"] = tr.initializer(tr.stop)
	}
	return job
}

func (tr *trial) initializer(p position) map[string]any {
	i := map[string]any{"mode": p.mode, "timestamp": p.timestamp}
	if p.reset != "" {
		i["reset"] = p.reset
	}
	if p.mode == "specific-offsets" {
		offsets := map[string]int64{}
		for at, o := range maps.All(p.offsets) {
			offsets[tr.world.Topic(at)] = o
		}
		i["offsets"] = offsets
	}
	return i
}

// flinkJob is one job in Flink.
type flinkJob struct {
	flink  *flink
	id     string
	saved  chan string
	owners chan []int32
	over   chan struct{}
	ended  sync.Once

	mu    sync.Mutex
	got   []streams.Row // guarded by mu
	cause string        // guarded by mu
}

func (j *flinkJob) rows() []streams.Row {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]streams.Row{}, j.got...)
}

func (j *flinkJob) failure() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.cause
}

func (j *flinkJob) done() <-chan struct{} { return j.over }

func (j *flinkJob) save() string {
	j.flink.send(map[string]any{"cmd": "savepoint", "id": j.id, "dir": "file://" + j.flink.dir + "/savepoints"})
	select {
	case path := <-j.saved:
		return path
	case <-time.After(j.flink.patience()):
		j.flink.t.Errorf("%s: no savepoint came", j.id)
		return ""
	}
}

func (j *flinkJob) cancel() {
	select {
	case <-j.over:
	default:
		j.flink.send(map[string]any{"cmd": "cancel", "id": j.id})
	}
}

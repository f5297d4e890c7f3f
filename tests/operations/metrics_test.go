package operations

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/tests/realkafka"
)

// series is one line of /metrics: `name{label="value",…} 1`.
var series = regexp.MustCompile(`^([a-z0-9_]+?)(?:_bucket|_sum|_count)?(?:\{(.*)\})? (\S+)$`)

// ours tells Tidegate's own metrics from Benthos's.
var ours = regexp.MustCompile(`^(kafka_source|kafka_sink|checkpoint)_`)

// exported are type and labels, beside those that all have, of each metric of ours.
func (j *job) exported() map[string]string {
	_, text := j.get("/metrics")
	found := map[string]string{}
	types := map[string]string{}
	for scan := bufio.NewScanner(strings.NewReader(text)); scan.Scan(); {
		line := scan.Text()
		if name, kind, is := strings.Cut(strings.TrimPrefix(line, "# TYPE "), " "); is && strings.HasPrefix(line, "# TYPE ") {
			types[name] = strings.Replace(kind, "histogram", "timer", 1)
			continue
		}
		m := series.FindStringSubmatch(line)
		if m == nil || !ours.MatchString(m[1]) {
			continue
		}
		var labels []string
		for _, l := range regexp.MustCompile(`([a-z]+)="`).FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains([]string{"label", "path", "le"}, l[1]) {
				labels = append(labels, l[1])
			}
		}
		slices.Sort(labels)
		found[m[1]] = types[m[1]] + " " + strings.Join(labels, ", ")
	}
	return found
}

// metric sums up all series of a name that have the labels, given as `label="value"`.
func (j *job) metric(name string, labels ...string) (sum float64) {
	_, text := j.get("/metrics")
	for scan := bufio.NewScanner(strings.NewReader(text)); scan.Scan(); {
		m := series.FindStringSubmatch(scan.Text())
		if m == nil || m[1] != name || slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(m[2], l) }) {
			continue
		}
		v, err := strconv.ParseFloat(m[3], 64)
		require.NoError(j.t, err)
		sum += v
	}
	return sum
}

// documented is what docs/metrics.md says, as exported has it, and which metrics may be absent.
func documented(t *testing.T) (page map[string]string, optional []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	page = map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z]+) \\| ([a-z, ]*)\\| ([^|]+) \\| (.*) \\|$").FindAllStringSubmatch(string(text), -1) {
		labels := strings.Split(strings.TrimSpace(row[3]), ", ")
		slices.Sort(labels)
		require.NotContains(t, page, row[1], "once")
		page[row[1]] = row[2] + " " + strings.Join(labels, ", ")
		if strings.Contains(row[5], "Absent until it happens") {
			optional = append(optional, row[1])
		}
	}
	return page, optional
}

// feedReal fills a topic of two partitions: plain records, committed and aborted transactions. The last thing in
// partition 0 is an abort, in partition 1 a commit. It returns how many records a reader of committed ones gets, and how
// many bytes.
func feedReal(t *testing.T, cluster *realkafka.Cluster, topic string) (records, bytes int64) {
	t.Helper()
	plain, err := kgo.NewClient(kgo.SeedBrokers(cluster.Bootstrap()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer plain.Close()
	tx, err := kgo.NewClient(kgo.SeedBrokers(cluster.Bootstrap()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.TransactionalID(topic+"-feeder"))
	require.NoError(t, err)
	defer tx.Close()
	produce := func(cl *kgo.Client, partition int32, n int) {
		for i := range n {
			r := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(fmt.Sprint("value ", i))}
			require.NoError(t, cl.ProduceSync(t.Context(), r).FirstErr())
			bytes += int64(len(r.Value))
			records++
		}
	}
	transact := func(partition int32, n int, commit kgo.TransactionEndTry) {
		before, size := records, bytes
		require.NoError(t, tx.BeginTransaction())
		produce(tx, partition, n)
		require.NoError(t, tx.EndTransaction(t.Context(), commit))
		if !commit {
			records, bytes = before, size
		}
	}
	produce(plain, 0, 20)
	transact(1, 10, kgo.TryCommit)
	transact(0, 5, kgo.TryAbort)
	return records, bytes
}

func TestNumbersEqualTheBrokersOwn(t *testing.T) {
	t.Parallel()
	cluster := realkafka.Shared(t)
	in, out := cluster.Topic(t, 2), cluster.Topic(t, 1)
	records, bytes := feedReal(t, cluster, in)
	group := realkafka.Name(t)
	j := run(t, cluster.BootstrapString(), in, out, strings.ReplaceAll(pipeline, ": job\n", ": "+group+"\n"))
	j.becomes(http.StatusOK)
	j.eventually("everything is read and committed", func() bool {
		return j.metric("kafka_sink_committed_records") == float64(records) && j.metric("checkpoint_committed") > 0
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.Bootstrap()...))
	require.NoError(t, err)
	defer cl.Close()
	admin := kadm.NewClient(cl)
	ends, err := admin.ListCommittedOffsets(t.Context(), in)
	require.NoError(t, err)
	for p := range int32(2) {
		end, ok := ends.Lookup(in, p)
		require.True(t, ok)
		at := []string{fmt.Sprintf("topic=%q", in), fmt.Sprintf("partition=\"%d\"", p)}
		j.eventually("the end is known, and reached over the control records", func() bool {
			return j.metric("kafka_source_end_offset", at...) == float64(end.Offset) &&
				j.metric("kafka_source_position", at...) == float64(end.Offset) && j.metric("kafka_source_lag", at...) == 0
		})
		j.eventually("the committed offset is the group's", func() bool {
			committed, err := admin.FetchOffsets(t.Context(), group)
			if err != nil {
				return false
			}
			o, ok := committed.Lookup(in, p)
			return ok && o.At == end.Offset && j.metric("kafka_source_committed_offset", at...) == float64(end.Offset)
		})
	}
	require.EqualValues(t, records, j.metric("kafka_source_records"))
	require.EqualValues(t, bytes, j.metric("kafka_source_bytes"))
	j.eventually("the sink's counts are published", func() bool { return j.metric("kafka_sink_records") == float64(records) })
	require.EqualValues(t, bytes, j.metric("kafka_sink_bytes"))
	require.EqualValues(t, records, j.metric("checkpoint_sealed_records"))
	require.Equal(t, j.metric("checkpoint_committed"), j.metric("checkpoint_last_committed"))
	require.Zero(t, j.metric("kafka_source_fetch_errors"))
	require.EqualValues(t, 5, j.metric("kafka_sink_transactional_ids_free")+j.metric("kafka_sink_transactional_ids_in_use"))
	comparePage(t, j)
}

// comparePage is TestPageListsWhatTheBinaryExports for a job that has read, written and committed.
func comparePage(t *testing.T, j *job) {
	t.Helper()
	page, optional := documented(t)
	require.NotEmpty(t, page)
	exported := j.exported()
	for name, as := range exported {
		require.Equal(t, page[name], as, "%s is exported so; what does docs/metrics.md say?", name)
	}
	for name := range page {
		if !slices.Contains(optional, name) {
			require.Contains(t, exported, name, "docs/metrics.md lists it")
		}
	}
}

// TestPageListsWhatTheBinaryExports compares docs/metrics.md with the binary, in both directions.
func TestPageListsWhatTheBinaryExports(t *testing.T) {
	t.Parallel()
	b := brokers(t, 0)
	j := run(t, b.Addrs()[0], "in", "out", pipeline)
	feed(t, b.Addrs(), 100)
	j.eventually("everything is committed", func() bool {
		return j.metric("kafka_source_committed_offset") == 100 && j.metric("kafka_source_records") == 100
	})
	comparePage(t, j)
}

package operations

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/tests/realkafka"
)

// halting is the pipeline that stands still at the record "halt".
const halting = `mapping: root = content()
    - sleep: { duration: '${! if content().string() == "halt" { "1h" } else { "0s" } }' }`

// describe is what kafka-consumer-groups says of a group's partitions of a topic: the columns by their names.
func describe(t *testing.T, cluster *realkafka.Cluster, group, topic string) map[string]map[string]string {
	t.Helper()
	out, err := cluster.Tool(t.Context(), "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
		"--bootstrap-server", cluster.BootstrapString(), "--describe", "--group", group)
	require.NoError(t, err)
	var names []string
	rows := map[string]map[string]string{}
	for line := range strings.Lines(out) {
		cells := strings.Fields(line)
		switch {
		case len(cells) > 0 && cells[0] == "GROUP":
			names = cells
		case names != nil && len(cells) == len(names):
			row := map[string]string{}
			for i, c := range cells {
				row[names[i]] = c
			}
			if row["TOPIC"] == topic {
				rows[row["PARTITION"]] = row
			}
		}
	}
	return rows
}

// commits counts how often the group's offset of a partition was committed, by the brokers' own log of commits.
func commits(t *testing.T, cluster *realkafka.Cluster, group, topic string, partition int32) (n int) {
	t.Helper()
	const log = "__consumer_offsets"
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.Bootstrap()...), kgo.ConsumeTopics(log), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(t, err)
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), log)
	require.NoError(t, err)
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	for len(left) > 0 {
		fetches := cl.PollFetches(t.Context())
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
			key := kmsg.NewOffsetCommitKey()
			if key.ReadFrom(r.Key) == nil && key.Version <= 1 && r.Value != nil && key.Group == group && key.Topic == topic && key.Partition == partition {
				n++
			}
		})
	}
	return n
}

// TestNumbersOfAGroupEqualWhatKafkasOwnToolSays: while the job is up to date, while the broker refuses its commits, and while
// its pipeline stands still. The numbers it was killed with are those that `connect offsets` shows.
func TestNumbersOfAGroupEqualWhatKafkasOwnToolSays(t *testing.T) {
	t.Parallel()
	cluster := realkafka.Shared(t)
	in, out, group := cluster.Topic(t, 2), cluster.Topic(t, 1), realkafka.Name(t)
	writer, err := kgo.NewClient(kgo.SeedBrokers(cluster.Bootstrap()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer writer.Close()
	produce := func(partition int32, values ...string) {
		t.Helper()
		for _, v := range values {
			r := &kgo.Record{Topic: in, Partition: partition, Value: []byte(v)}
			require.NoError(t, writer.ProduceSync(t.Context(), r).FirstErr())
		}
	}
	text := strings.NewReplacer(": job\n", ": "+group+"\n", "mapping: root = content()", halting).Replace(pipeline)
	j := run(t, cluster.BootstrapString(), in, out, text)
	j.becomes(http.StatusOK)
	at := func(name string, partition int) float64 {
		return j.metric(name, fmt.Sprintf("topic=%q", in), fmt.Sprintf("partition=\"%d\"", partition))
	}
	// agree waits until every number is the tool's, and the group's offsets are these.
	agree := func(committed ...float64) {
		t.Helper()
		for p, want := range committed {
			j.eventually(fmt.Sprintf("partition %d is committed at %v", p, want), func() bool {
				return at("kafka_source_committed_offset", p) == want
			})
		}
		rows := describe(t, cluster, group, in)
		for p, want := range committed {
			row := rows[strconv.Itoa(p)]
			number := func(column string) float64 {
				n, err := strconv.ParseFloat(row[column], 64)
				require.NoError(t, err, "%s of %v", column, row)
				return n
			}
			require.Equal(t, want, number("CURRENT-OFFSET"), "partition %d", p)
			require.Equal(t, "-", row["CONSUMER-ID"], "the source is no member")
			j.eventually("the end of the log is known", func() bool { return at("kafka_source_end_offset", p) == number("LOG-END-OFFSET") })
			require.Equal(t, number("LAG"), at("kafka_source_end_offset", p)-at("kafka_source_committed_offset", p))
			j.eventually("the lag is that of the position", func() bool {
				return at("kafka_source_lag", p) == number("LOG-END-OFFSET")-at("kafka_source_position", p)
			})
		}
	}
	succeeded := func() int { return int(j.metric("kafka_source_commits_succeeded")) }

	produce(0, "a", "b", "c", "d")
	produce(1, "a", "b")
	agree(4, 2)
	j.eventually("every commit that the broker has logged is counted", func() bool {
		return succeeded() == commits(t, cluster, group, in, 0)
	})
	require.Zero(t, j.metric("kafka_source_commits_failed"))

	// While somebody consumes with the group, its broker takes no commits of a source that is no member.
	before := succeeded()
	member, err := kgo.NewClient(kgo.SeedBrokers(cluster.Bootstrap()...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(out), kgo.DisableAutoCommit())
	require.NoError(t, err)
	j.eventually("the member is in the group", func() bool {
		groups, err := kadm.NewClient(writer).DescribeGroups(t.Context(), group)
		return err == nil && groups[group].State == "Stable"
	})
	produce(0, "e")
	j.eventually("a commit is refused", func() bool { return j.metric("kafka_source_commits_failed") > 0 })
	require.Equal(t, before, succeeded())
	require.Equal(t, before, commits(t, cluster, group, in, 0))
	require.EqualValues(t, 4, at("kafka_source_committed_offset", 0))
	member.Close()
	produce(0, "f")
	agree(6, 2)
	j.eventually("every commit is counted again", func() bool { return succeeded() == commits(t, cluster, group, in, 0) })

	produce(0, "halt", "g", "h")
	produce(1, "i")
	j.eventually("the pipeline stands still", func() bool { return at("kafka_source_position", 0) > 6 })
	produce(0, "j")
	j.eventually("the lag grows meanwhile", func() bool { return at("kafka_source_lag", 0) > 0 })
	row := describe(t, cluster, group, in)["0"]
	require.Equal(t, "6", row["CURRENT-OFFSET"])
	require.Equal(t, "4", row["LAG"])
	require.EqualValues(t, 6, at("kafka_source_committed_offset", 0))
	j.eventually("the end is the log's", func() bool { return at("kafka_source_end_offset", 0) == 10 })

	last := j.metric("checkpoint_last_committed")
	require.Positive(t, last)
	j.Kill()
	cmd := exec.Command(connect, "offsets", "job.yaml")
	cmd.Dir = filepath.Dir(j.log)
	cmd.Env = append(cmd.Environ(), "BOOTSTRAP="+cluster.BootstrapString(), "IN="+in, "OUT="+out)
	table, err := cmd.CombinedOutput()
	require.NoError(t, err, string(table))
	require.Contains(t, string(table), fmt.Sprintf("restored from checkpoint %v,", last))
	require.Regexp(t, in+` +0 +6 +checkpoint +0 +10`, string(table))
}

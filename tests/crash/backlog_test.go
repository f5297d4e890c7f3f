package crash

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/child"
	"github.com/tidegate/tidegate/tests/binary"
	"github.com/tidegate/tidegate/tests/realkafka"
)

var flagBacklog = flag.Duration("crash.backlog", 0, "how long a slow pipeline reads from a backlog")

const (
	// backlogBytes is how much each pipeline finds, on so many partitions.
	backlogBytes      = 1 << 30
	backlogPartitions = 64
	// recordOverhead is what a record takes in a batch beside its value.
	recordOverhead = 8
	// backlogLimit is what its process may take for it.
	backlogLimit = 250 * mb
)

// backlog is a slow pipeline before a topic that is full.
type backlog struct {
	name string
	// size is that of a record's value, perSecond how many records the pipeline takes.
	size, perSecond int
	// records is how many there are; 0: a gigabyte.
	records int
	// codec compresses, alike fills values with one byte.
	codec kgo.CompressionCodec
	alike bool
	sink  string
}

const backlogAtLeastOnce = `
    delivery_guarantee: at-least-once`

var backlogs = []backlog{
	{name: "100 B, exactly-once", size: 100, perSecond: 1000, codec: kgo.NoCompression(), sink: exactlyOnce},
	{name: "1 kB, at-least-once", size: 1 << 10, perSecond: 1000, codec: kgo.NoCompression(), sink: backlogAtLeastOnce},
	{name: "10 B, lz4", size: 10, records: 8_000_000, perSecond: 1000, codec: kgo.Lz4Compression(), sink: exactlyOnce},
	{name: "1 MB, exactly-once", size: 1_000_000, perSecond: 4, codec: kgo.NoCompression(), sink: exactlyOnce},
	{name: "1 MB, zstd 1000:1", size: 1_000_000, perSecond: 4, codec: kgo.ZstdCompression(), alike: true, sink: exactlyOnce},
	{name: "1 kB, zstd 1000:1", size: 1 << 10, perSecond: 1000, codec: kgo.ZstdCompression(), alike: true, sink: exactlyOnce},
}

const backlogText = `# Written by the soak test.
http: { enabled: false }
logger: { level: INFO, add_timestamp: true }
shutdown_timeout: 30s

cache_resources:
  - label: state
    pebble: { path: "%s/state" }

rate_limit_resources:
  - label: slow
    local: { count: %d, interval: 1s }

input:
  kafka_flink_source: { bootstrap_servers: [ "%s" ], topics: [ %s ], startup: { mode: earliest-offset }, checkpoint: { store: state, interval: 1s%s } }

pipeline:
  threads: 1
  processors: [ { rate_limit: { resource: slow } } ]

output:
  kafka_flink_sink: { bootstrap_servers: [ "%s" ], topic: %s, %s }
`

// TestBacklogTakesLittleMemory puts pipelines that take little before topics that hold much: what is read ahead is
// bounded, whatever the size of records, how well they are compressed and from how many brokers they come.
func TestBacklogTakesLittleMemory(t *testing.T) {
	if *flagBacklog == 0 {
		t.Skip("gigabytes and minutes are for make soak SCENARIO=backlog; what bounds the memory has tests of its own in internal/kafkasource")
	}
	connect := binary.Connect(t)
	for _, brokers := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d brokers", brokers), func(t *testing.T) {
			cluster := realkafka.Start(t, realkafka.Options{
				Brokers: brokers, JVM: smallJVM,
				Properties: map[string]string{"default.replication.factor": "1", "min.insync.replicas": "1"},
			})
			t.Run("all", func(t *testing.T) {
				for _, b := range backlogs {
					t.Run(b.name, func(t *testing.T) {
						in := cluster.Topic(t, backlogPartitions)
						b.fill(t, cluster, in)
						t.Parallel() // the topics are filled one after the other, and read at one time
						b.read(t, cluster, connect, brokers, in)
					})
				}
			})
		})
	}
}

// fill writes the backlog.
func (b backlog) fill(t *testing.T, cluster *realkafka.Cluster, topic string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Bootstrap()...), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(b.codec),
		kgo.ProducerLinger(100*time.Millisecond), kgo.MaxBufferedRecords(50_000), kgo.MaxBufferedBytes(64<<20), kgo.UnknownTopicRetries(100),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerBatchMaxBytes(1_048_000))
	require.NoError(t, err)
	defer client.Close()
	failed := make(chan error, 1)
	value := make([]byte, b.size)
	for n := range cmp.Or(b.records, backlogBytes/(b.size+recordOverhead)) {
		if !b.alike && n%16 == 0 {
			value = make([]byte, b.size)
			for i := range value {
				value[i] = byte(i*i>>3) ^ byte(n) ^ byte(n>>8)
			}
		}
		client.Produce(t.Context(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	require.NoError(t, client.Flush(t.Context()))
	require.Empty(t, failed)
}

// read lets a pipeline read for a while, and judges the most memory that its process has had.
func (b backlog) read(t *testing.T, cluster *realkafka.Cluster, connect string, brokers int, in string) {
	dir, out := t.TempDir(), cluster.Topic(t, 4)
	mode := ""
	if b.sink == backlogAtLeastOnce {
		mode = ", mode: at-least-once"
	}
	sink := flow(strings.ReplaceAll(b.sink, "{{ .Prefix }}", realkafka.Name(t)))
	conf, log := filepath.Join(dir, "job.yaml"), filepath.Join(dir, "job.log")
	text := fmt.Sprintf(backlogText, dir, b.perSecond, cluster.BootstrapString(), in, mode, cluster.BootstrapString(), out, sink)
	require.NoError(t, os.WriteFile(conf, []byte(text), 0o600))
	p, err := child.Start(exec.Command(connect, "run", conf), log)
	require.NoError(t, err)
	defer p.Kill()
	pulses := b.watch(t, p, log)
	p.Signal(syscall.SIGTERM)
	require.NoError(t, p.Err(), child.Tail(log, logLines))
	records, err := topicOf(cluster.Bootstrap(), out)
	require.NoError(t, err)
	last := pulses[len(pulses)-1]
	fmt.Printf("backlog of 1 GB, %d partitions, %d brokers, %-20s: %d records taken in %v, RSS after a third %d MB, after two %d MB, at the end %d MB, peak %d MB\n",
		backlogPartitions, brokers, b.name, len(records), last.at.Round(time.Second), pulses[len(pulses)/3].rss/mb,
		pulses[2*len(pulses)/3].rss/mb, last.rss/mb, last.peak/mb)
	require.Less(t, last.peak, int64(backlogLimit))
	require.Greater(t, float64(len(records)), 0.7*float64(b.perSecond)*flagBacklog.Seconds(), "it takes what it can")
}

// watch takes the pulse until the time is up.
func (b backlog) watch(t *testing.T, p *child.Process, log string) (pulses []pulse) {
	ctx, cancel := context.WithTimeout(t.Context(), *flagBacklog)
	defer cancel()
	began := time.Now()
	for ctx.Err() == nil {
		pause(ctx, time.Second)
		require.False(t, p.Ended(), "the pipeline has ended%s", child.Tail(log, logLines))
		beat, err := patientOf{}.take(p.PID())
		require.NoError(t, err)
		beat.at = time.Since(began)
		pulses = append(pulses, beat)
	}
	return pulses
}

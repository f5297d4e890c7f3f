package kafkasink

import (
	"log/slog"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkaclient"
)

// Guarantee is Flink's delivery guarantee (sink.delivery-guarantee).
type Guarantee uint8

// The delivery guarantees.
const (
	// AtLeastOnce: acknowledged by the broker before the checkpoint, or without checkpoints before the write returns.
	AtLeastOnce Guarantee = iota
	// ExactlyOnce: in Kafka transactions that are committed with the checkpoint, or without checkpoints before the write
	// returns.
	ExactlyOnce
	// None: sent and forgotten; what fails is counted and logged.
	None
)

func (g Guarantee) String() string {
	switch g {
	case AtLeastOnce:
		return "at-least-once"
	case ExactlyOnce:
		return "exactly-once"
	case None:
		return "none"
	}
	return "no guarantee"
}

// Seat is what a sink needs of its end of the coordinator; *checkpoint.Seat fulfils it.
type Seat interface {
	// Checkpointed tells whether the stream's sources are checkpointed.
	Checkpointed() bool
	// CheckTransactionTimeout refuses a transaction timeout that a checkpoint does not fit into.
	CheckTransactionTimeout(time.Duration) error
	// ClaimIDs refuses transactional ids that another sink of the stream has on the cluster.
	ClaimIDs(clusterID string) error
	// Failed reports a failure that a new attempt heals.
	Failed(checkpoint.Tag, error)
	// Fatal reports one that no new attempt heals.
	Fatal(error)
}

// DefaultLinger is how long a record waits for others that go to the same partition, where nobody waits for it: Kafka's
// default of linger.ms since 4.0 (KIP-1030). Without it a busy stream sends many requests of few records each, which costs
// the broker more than the client. A flush does not wait for it, so it makes no checkpoint longer.
const DefaultLinger = 5 * time.Millisecond

// Limits of the records that are sent and not yet acknowledged, and of one record. They are Kafka's defaults where it
// has one (message.max.bytes, delivery.timeout.ms).
const (
	DefaultMaxBufferedRecords = 50_000
	DefaultMaxBufferedBytes   = 64 << 20
	DefaultMaxMessageBytes    = 1_048_588
	DefaultDeliveryTimeout    = 2 * time.Minute
	DefaultDrainTimeout       = 5 * time.Second
	DefaultCommitInterval     = time.Second
	// defaultBatchSize is how much goes to one partition before records without a key go on to the next.
	defaultBatchSize = 64 << 10
)

// ownTimeout is Kafka's default of transaction.timeout.ms, for transactions that no checkpoint has to find again: what a
// process that does not come back has left open holds up readers no longer than that.
const ownTimeout = time.Minute

// Config is what a Sink is made of. It is not changed after New.
type Config struct {
	Guarantee Guarantee
	// Stream and Seat are the coordinator that the sink belongs to, and its end of it.
	Stream *checkpoint.Stream
	Seat   Seat
	// Key is the key of the sink's declaration.
	Key string
	// Client are the connection options.
	Client []kgo.Opt
	// Properties are Kafka's own settings of a producer; they win over the defaults.
	Properties kafkaclient.Properties
	// Principal is the user the connection logs in as, for messages; empty where it is not known.
	Principal string
	// Topics are those known beforehand; Connect fails while one is missing.
	Topics []string
	// Pool names the transactional ids of an exactly-once sink.
	Pool checkpoint.Pool
	// TransactionTimeout is 0 for the broker's maximum, at most 1 h.
	TransactionTimeout time.Duration
	// CommitInterval is how long a transaction takes writes at most where no checkpoint decides; 0 is the default. Writers
	// is how many may be in WriteBatch at a time; 0 is 1.
	CommitInterval time.Duration
	Writers        int
	// DeliveryTimeout bounds a write that waits for the broker's acknowledgement; 0 is the default. In a checkpoint it is
	// the checkpoint's timeout that bounds the flush.
	DeliveryTimeout time.Duration
	// DrainTimeout is how long Close of a sink of guarantee none waits for what it has buffered; 0 is the default.
	DrainTimeout time.Duration
	// Linger is how long a record waits for others that go to the same partition. Connect sets it to the default where
	// writes return before the broker has acknowledged them.
	Linger time.Duration
	// MaxBufferedRecords and MaxBufferedBytes bound what is sent and not acknowledged; 0 is the default.
	MaxBufferedRecords int
	MaxBufferedBytes   int64
	// MaxMessageBytes is the largest record batch, uncompressed, as the broker counts it (message.max.bytes); 0 is the
	// default.
	MaxMessageBytes int32

	Log *slog.Logger
	// Metrics are what the sink counts; nil fields count nowhere.
	Metrics Metrics
}

func (c Config) withDefaults() Config {
	c = c.withProperties()
	if c.MaxBufferedRecords <= 0 {
		c.MaxBufferedRecords = DefaultMaxBufferedRecords
	}
	if c.MaxBufferedBytes <= 0 {
		c.MaxBufferedBytes = DefaultMaxBufferedBytes
	}
	if c.MaxMessageBytes <= 0 {
		c.MaxMessageBytes = DefaultMaxMessageBytes
	}
	if c.DeliveryTimeout <= 0 {
		c.DeliveryTimeout = DefaultDeliveryTimeout
	}
	if c.DrainTimeout <= 0 {
		c.DrainTimeout = DefaultDrainTimeout
	}
	if c.CommitInterval <= 0 {
		c.CommitInterval = DefaultCommitInterval
	}
	if c.Writers <= 0 {
		c.Writers = 1
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Metrics = c.Metrics.withDefaults()
	return c
}

// withProperties takes over the limits that the sink itself keeps.
func (c Config) withProperties() Config {
	if n, ok := c.Properties.Int("max.request.size"); ok {
		c.MaxMessageBytes = int32(n)
	}
	if n, ok := c.Properties.Int("buffer.memory"); ok {
		c.MaxBufferedBytes = n
	}
	if d, ok := c.Properties.Duration("delivery.timeout.ms"); ok {
		c.DeliveryTimeout = d
	}
	return c
}

// options are those of a producing client.
//
// The client's own RecordDeliveryTimeout must not be among them: it measures from the record's timestamp, which a copy
// keeps, so every record older than the timeout would fail at the first hiccup.
func (c Config) options() []kgo.Opt {
	batchBytes, _ := c.clientLimit()
	batchSize := defaultBatchSize
	if n, ok := c.Properties.Int("batch.size"); ok {
		batchSize = int(n)
	}
	opts := append(c.Client[:len(c.Client):len(c.Client)],
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(c.Linger),
		kgo.ProducerBatchCompression(kgo.NoCompression()), // Kafka's default of compression.type
		kgo.ProducerBatchMaxBytes(batchBytes),
		// The window bounds what is buffered, for whole batches; the client must not block in the middle of one.
		kgo.MaxBufferedRecords(math.MaxInt),
		// A broker that is away is waited for, a record that is refused fails at once.
		kgo.RecordRetries(math.MaxInt),
		// A missing topic is an error within seconds, and a topic just made is found as fast.
		kgo.UnknownTopicRetries(4),
		kgo.MetadataMinAge(time.Second),
		// Kafka's default partitioner: keys by murmur2, records without a key in uniform batches (KIP-794).
		kgo.RecordPartitioner(kgo.UniformBytesPartitioner(max(1, batchSize), true, true, nil)),
		kgo.DisableClientMetrics(), // Close would wait up to a second for a last push
	)
	return append(opts, c.Properties.Producer()...)
}

// pool is the pool with its place in the cluster.
func (c Config) pool(clusterID string) checkpoint.Pool {
	p := c.Pool
	p.ClusterID = clusterID
	return p
}

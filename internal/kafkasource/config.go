package kafkasource

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tidegate/tidegate/internal/headerexpr"
	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/internal/offsets"
	"github.com/tidegate/tidegate/internal/splits"
)

// The defaults of settings that no user sees.
const (
	defaultMaxBatch         = 1000
	defaultMetadataInterval = 30 * time.Second
	defaultProbeInterval    = time.Second
)

// Config are the settings of a Reader.
type Config struct {
	// Key is the key of the source's declaration; it names the source in its state.
	Key        string
	Connection kafkaclient.Config
	// Subscription and Share say which partitions are read; the zero Share is the whole.
	Subscription splits.Subscription
	Share        splits.Share
	// Group is the consumer group whose offsets may be read and, with CommitOffsets, are committed; empty for none.
	Group         string
	CommitOffsets bool
	// AutoCommit is how often a Solo commits, 0 for never; a Reader with checkpoints has no use for it.
	AutoCommit    time.Duration
	Start         offsets.Start
	Stop          offsets.Stop
	Restore       offsets.Restore
	ReadCommitted bool
	// Rack is where the process runs: what has a replica there is read from it (KIP-392). Empty: from leaders.
	Rack string
	// Filter keeps records by their headers; nil keeps all.
	Filter *headerexpr.Expr

	// ClosedHard names what around the source closes it as at a hard stop, with the outputs alive, when the input is to
	// end; empty for nothing.
	ClosedHard string

	// StreamID and StoreID, the state store's uuid, go into the owner mark of committed offsets. StoreID is asked at
	// each commit, since the store is opened after the source was built; nil for none.
	StreamID string
	StoreID  func() string

	// CheckGroup refuses a group that another application uses. CheckpointInterval is that of the checkpoints, 0 without,
	// and SecondLook how long CheckGroup waits before it looks again, 0 for its own choice; both belong to it.
	CheckGroup                     bool
	CheckpointInterval, SecondLook time.Duration

	// MaxBatch is how many records a batch holds at most.
	MaxBatch int
	// DiscoveryInterval is how often new partitions are looked for, 0 or less for never: then they are only warned of. A
	// bounded source looks for none, whatever it says.
	DiscoveryInterval time.Duration
	// MetadataInterval is how often it is looked whether partitions that are read still exist, whatever DiscoveryInterval
	// says.
	MetadataInterval time.Duration
	// ForgetAfter is for how long no broker may know the id of a topic that is not read until its positions are dropped.
	ForgetAfter time.Duration
	// ProbeInterval is how long a partition stands still before its true next offset is asked for.
	ProbeInterval time.Duration
	// EndInterval is how often the ends of the log are asked for, LostAfter for how long no broker may answer until the
	// source is not ready.
	EndInterval, LostAfter time.Duration

	Metrics Metrics
	// Logger is nil for none.
	Logger *slog.Logger
}

// Metrics are what a Reader counts (rule 12); nil fields are not counted.
type Metrics struct {
	// CommitsSucceeded and CommitsFailed count commits to the consumer group, not partitions.
	CommitsSucceeded, CommitsFailed func(int64)
	// RestoredOutOfRange counts partitions whose restored or committed position the log no longer had, and SkippedOffsets the
	// offsets below their log's start that are not read because of it.
	RestoredOutOfRange, SkippedOffsets func(int64)
	// NackedRecords counts records of batches that were not delivered; they are read again.
	NackedRecords func(int64)
	// FilteredRecords counts records that the header filter does not keep, by topic.
	FilteredRecords func(topic string, n int64)
	// DiscoveredPartitions counts partitions that were taken up while the source was running.
	DiscoveredPartitions func(int64)
	// UnavailablePartitions takes how many partitions no broker tells the end of, each time they were asked.
	UnavailablePartitions func(int64)
	// Rewinds counts how often a Solo has gone back; with checkpoints the coordinator counts.
	Rewinds func(int64)
	// Partitions takes what there is to say of each partition.
	Partitions PartitionMetrics
}

func count(counter func(int64), n int64) {
	if counter != nil && n != 0 {
		counter(n)
	}
}

// withDefaults returns the config with zero values filled in, or why it cannot work.
func (c Config) withDefaults() (Config, error) {
	if c.Share == (splits.Share{}) {
		c.Share = splits.Whole()
	}
	if c.MaxBatch <= 0 {
		c.MaxBatch = defaultMaxBatch
	}
	if c.MetadataInterval <= 0 {
		c.MetadataInterval = defaultMetadataInterval
	}
	if c.Stop.Bounded() {
		c.DiscoveryInterval = 0
	}
	if c.ForgetAfter <= 0 {
		c.ForgetAfter = max(defaultForgetAfter, 2*c.DiscoveryInterval)
	}
	if c.ProbeInterval <= 0 {
		c.ProbeInterval = defaultProbeInterval
	}
	if c.EndInterval <= 0 {
		c.EndInterval = defaultEndInterval
	}
	if c.LostAfter <= 0 {
		c.LostAfter = lostAfter
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	err := errors.Join(c.Subscription.Validate(), c.Share.Validate(), c.Start.Validate(), c.Stop.Validate(), c.Restore.Validate())
	return c, err
}

// clientID is the client.id of one of the source's clients. As in Flink, readers are told apart by their index; role is
// empty for the reader itself.
func (c Config) clientID(role string) string {
	prefix := c.Connection.ClientID
	if prefix == "" {
		prefix = c.Group
	}
	if prefix == "" {
		prefix = "tidegate-" + c.Key
	}
	id := fmt.Sprintf("%s-%d", prefix, c.Share.Index)
	if role != "" {
		id += "-" + role
	}
	return id
}

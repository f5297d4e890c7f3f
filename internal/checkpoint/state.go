package checkpoint

import "cmp"

// NoStop is the Stop of a split that is read without end.
const NoStop int64 = -1

// Split is the position of one topic partition.
type Split struct {
	Topic string
	// TopicID is Kafka's id of the topic (KIP-516), zero where the broker tells none. It tells a topic that was
	// deleted and created again from the one the position belongs to.
	TopicID   [16]byte
	Partition int32
	// Offset is the next offset to read, as Kafka commits it: one past the last record that was emitted.
	Offset int64
	// LeaderEpoch is the epoch of the last record read, -1 where unknown (KIP-320).
	LeaderEpoch int32
	// Stop is the first offset that is not read any more, or NoStop.
	Stop int64
}

// AtStop tells whether the split has reached its stop offset.
func (s Split) AtStop() bool { return s.Stop != NoStop && s.Offset >= s.Stop }

// CompareSplits orders splits by topic, then partition.
func CompareSplits(a, b Split) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// SourceState is what one source needs to go on: it is immutable once handed over.
type SourceState struct {
	// Source is the key of the source's declaration: its label, else its config path with an ordinal.
	Source string
	// ClusterID is the id of the Kafka cluster the positions belong to.
	ClusterID string
	// Splits are sorted by topic and partition, and hold every partition the source was resolved for.
	Splits []Split
	// Finished is set when every split has reached its stop and the source will emit nothing more.
	Finished bool
	// Parallelism and Index are the static share of partitions this source reads; 1 and 0 where it reads all.
	Parallelism, Index int32
	// Publish asks that the positions go to the consumer group before anything is read, since to resolve them again would
	// give others, as with the end of the log. It is no part of a record, and Equal does not look at it.
	Publish bool
}

// Equal tells whether both states hold the same positions.
func (s SourceState) Equal(o SourceState) bool {
	if s.Source != o.Source || s.ClusterID != o.ClusterID || s.Finished != o.Finished ||
		s.Parallelism != o.Parallelism || s.Index != o.Index || len(s.Splits) != len(o.Splits) {
		return false
	}
	for i := range s.Splits {
		if s.Splits[i] != o.Splits[i] {
			return false
		}
	}
	return true
}

// Pool names the transactional ids of one sink: <Prefix>-<Index>-<0 … Size-1>.
type Pool struct {
	ClusterID string
	Prefix    string
	Index     int32
	Size      int32
}

// SinkState is what a record says of one sink.
type SinkState struct {
	Sink string
	// Pools are the pools in use. There is more than one only between the record of a recovery and the next one,
	// while the ids of an old prefix or of a larger old pool are still to be initialised.
	Pools []Pool
}

// TopicShare is the part of a transaction that went to one topic.
type TopicShare struct {
	Topic      string
	Partitions []int32
	Records    int64
}

// Committable is a sealed transaction: everything in it was acknowledged by the broker, nothing will be added.
type Committable struct {
	Sink            string
	ClusterID       string
	TransactionalID string
	// ProducerID and Epoch are those that the acknowledged records carry, so they are the transaction's own.
	ProducerID int64
	Epoch      int16
	// BeganUnixMs is when the transaction's first record was produced, in milliseconds since 1970.
	BeganUnixMs int64
	// TimeoutMs is the transaction timeout the producer was initialised with, in milliseconds.
	TimeoutMs int32
	Records   int64
	Topics    []TopicShare
}

// CacheDelta is what one aligned cache wrote between two barriers, as a redo log of the cache's own encoding.
type CacheDelta struct {
	Cache string
	Log   []byte
}

// Entry is one checkpoint that is neither committed nor given up. It is immutable.
type Entry struct {
	Checkpoint    uint64
	Before, After []SourceState
	Committables  []Committable
	Deltas        []CacheDelta
}

// Record is what the state store holds. The newest one needs no other to be understood.
type Record struct {
	// Number is higher than that of any record ever issued for this stream.
	Number uint64
	// LastCheckpoint is the highest checkpoint number ever issued; none is used twice, not even after a replay.
	LastCheckpoint uint64
	// StreamID is the Benthos stream the record belongs to; empty outside streams mode.
	StreamID string
	// WrittenUnixMs is when the write began, in milliseconds since 1970; for people, never for decisions.
	WrittenUnixMs int64
	// Positions are where each source goes on once every entry is committed.
	Positions []SourceState
	// Entries are all checkpoints that are not committed or given up, in checkpoint order (rule 7).
	Entries []Entry
	Sinks   []SinkState
}

// Verdict is what became of a committable.
type Verdict uint8

// The verdicts of a commit. Only the first four are ever recorded for a committable that was asked about.
const (
	// Committed: the transaction is committed, by this request or an earlier one.
	Committed Verdict = iota + 1
	// Aborted: the transaction is certainly aborted, by its timeout as a rule. Its records will never be seen.
	Aborted
	// Unknown: the id was initialised again or has expired; the broker can no longer tell.
	Unknown
	// NotTried: another committable of the same checkpoint is lost, so no EndTxn was sent for this one.
	NotTried
)

func (v Verdict) String() string {
	switch v {
	case Committed:
		return "committed"
	case Aborted:
		return "aborted"
	case Unknown:
		return "unknown"
	case NotTried:
		return "not tried"
	}
	return "no verdict"
}

package txn

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// A broker that has just been started may complete a transaction and write no marker on partitions it does not know yet.
// It cannot be made to on purpose; what it leaves can: records of a producer id that its coordinator knows nothing of,
// which a broker takes where it does not verify them.
func TestWhatABrokerHasLeftOpenIsEndedAsItsCoordinatorHas(t *testing.T) {
	for _, version := range []int{2, 0} {
		cluster := realkafka.Start(t, realkafka.Options{
			Features:   map[string]int{"transaction.version": version},
			Properties: map[string]string{"transaction.partition.verification.enable": "false"},
		})
		b := newBench(t, cluster)
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Run("committed", func(t *testing.T) { leftOpenByACommit(t, b) })
			t.Run("aborted", func(t *testing.T) { leftOpenByAnAbort(t, b) })
			t.Run("killed while mending a commit", func(t *testing.T) { killedWhileMending(t, b) })
			t.Run("open", func(t *testing.T) { openIsNotLeftOpen(t, b) })
		})
	}
}

// committedAndLeftOpen is what a process leaves that a broker has committed a transaction for without all its markers.
func committedAndLeftOpen(t *testing.T, on *bench) (b *bench, c checkpoint.Committable, pool checkpoint.Pool) {
	t.Helper()
	b = on.withTopic(t)
	p := b.pool(t, realkafka.Name(t))
	_, err := p.Init(t.Context(), []checkpoint.Pool{p.cfg.Pool}, nil)
	require.NoError(t, err)
	_, c = b.seal(t, p, 0, "marked")
	_, err = p.Commit(t.Context(), c)
	require.NoError(t, err)
	b.leaveOpen(t, c, "not marked")
	p.Close()
	return b, c, p.cfg.Pool
}

// leftOpenByACommit: the next transaction would decide over the records, and lose them if it were aborted.
func leftOpenByACommit(t *testing.T, b *bench) {
	b, _, pool := committedAndLeftOpen(t, b)
	next := b.pool(t, pool.Prefix)
	next.Know(b.topic)
	_, err := next.Init(t.Context(), []checkpoint.Pool{next.cfg.Pool}, nil)
	require.NoError(t, err)
	b.seal(t, next, 0, "aborted")
	require.NoError(t, next.Abort(t.Context(), 0))
	require.ElementsMatch(t, []string{"marked", "not marked"}, b.committed(t))
}

// leftOpenByAnAbort: the next transaction's commit would show the records.
func leftOpenByAnAbort(t *testing.T, b *bench) {
	b = b.withTopic(t)
	p := b.pool(t, realkafka.Name(t))
	_, err := p.Init(t.Context(), []checkpoint.Pool{p.cfg.Pool}, nil)
	require.NoError(t, err)
	_, c := b.seal(t, p, 0, "aborted")
	require.NoError(t, p.Abort(t.Context(), 0))
	b.leaveOpen(t, b.owned(t, c), "aborted, not marked")
	p.mu.Lock()
	p.written[0] = true // as where it happens to the transaction itself
	p.mu.Unlock()
	_, c = b.seal(t, p, 0, "committed")
	_, err = p.Commit(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, []string{"committed"}, b.committed(t))
}

// killedWhileMending: the transaction that shows what was committed is open when the process dies.
func killedWhileMending(t *testing.T, b *bench) {
	b, c, pool := committedAndLeftOpen(t, b)
	now := b.owned(t, c)
	add := kmsg.NewPtrAddPartitionsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch = now.TransactionalID, now.ProducerID, now.Epoch
	topic := kmsg.NewAddPartitionsToTxnRequestTopic()
	topic.Topic, topic.Partitions = b.topic, []int32{elsewhere(c)}
	add.Topics = append(add.Topics, topic)
	_, err := add.RequestWith(t.Context(), b.old)
	require.NoError(t, err)
	require.Equal(t, "Ongoing", b.seen(t, c.TransactionalID))

	next := b.pool(t, pool.Prefix)
	verdict, err := next.Commit(t.Context(), c) // it is in the newest record yet
	require.NoError(t, err)
	require.Equal(t, checkpoint.Committed, verdict)
	next.Know(b.topic)
	_, err = next.Init(t.Context(), []checkpoint.Pool{next.cfg.Pool}, nil)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"marked", "not marked"}, b.committed(t))
}

// openIsNotLeftOpen: a living owner opens a transaction between the look at its coordinator and that at the partitions.
func openIsNotLeftOpen(t *testing.T, b *bench) {
	b = b.withTopic(t)
	p := b.pool(t, realkafka.Name(t))
	_, err := p.Init(t.Context(), []checkpoint.Pool{p.cfg.Pool}, nil)
	require.NoError(t, err)
	_, c := b.seal(t, p, 0, "committed")
	_, err = p.Commit(t.Context(), c)
	require.NoError(t, err)

	var opens sync.Once
	rival, err := Dial(append(b.opts[:len(b.opts):len(b.opts)], kgo.WithHooks(onRead(func(key int16) {
		if kmsg.Key(key) == kmsg.DescribeTransactions {
			opens.Do(func() { b.seal(t, p, 0, "open") })
		}
	}))), "", discard())
	require.NoError(t, err)
	defer rival.Close()
	require.NoError(t, rival.mend(t.Context(), mending{ids: []string{c.TransactionalID}, topics: []string{b.topic}}))
	require.Equal(t, "Ongoing", b.seen(t, c.TransactionalID))
	p.Close()
	_, err = rival.Init(t.Context(), []string{c.TransactionalID}, []string{b.topic}, Timeouts{Candidates: []time.Duration{time.Minute}}, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"committed"}, b.committed(t))
}

// onRead is a kgo.HookBrokerRead.
type onRead func(key int16)

func (f onRead) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	f(key)
}

// owned is the committable's id as its coordinator has it now.
func (b *bench) owned(t *testing.T, c checkpoint.Committable) checkpoint.Committable {
	t.Helper()
	seen, err := b.describe(t.Context(), c.TransactionalID)
	require.NoError(t, err)
	c.ProducerID, c.Epoch = seen.producerID, seen.epoch
	return c
}

// elsewhere is the partition of the two that a transaction has not written to.
func elsewhere(c checkpoint.Committable) int32 { return 1 - c.Topics[0].Partitions[0] }

// leaveOpen writes a record as a producer whose coordinator knows of no transaction on the partition.
func (b *bench) leaveOpen(t *testing.T, c checkpoint.Committable, value string) {
	t.Helper()
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.Produce), 9)
	client, err := kgo.NewClient(append(b.opts[:len(b.opts):len(b.opts)], kgo.MaxVersions(versions))...)
	require.NoError(t, err)
	defer client.Close()
	record := kmsg.NewRecord()
	record.Value = []byte(value)
	record.Length = int32(len(record.AppendTo(nil)) - 1)
	batch := kmsg.RecordBatch{
		Magic: 2, Attributes: 1 << 4, ProducerID: c.ProducerID, ProducerEpoch: c.Epoch, NumRecords: 1,
		PartitionLeaderEpoch: -1, FirstTimestamp: time.Now().UnixMilli(), MaxTimestamp: time.Now().UnixMilli(),
		Records: record.AppendTo(nil),
	}
	raw := batch.AppendTo(nil)
	batch.Length = int32(len(raw) - 12)
	raw = batch.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))

	req := kmsg.NewPtrProduceRequest()
	req.TransactionID, req.Acks, req.TimeoutMillis = &c.TransactionalID, -1, 10_000
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = b.topic
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Partition, partition.Records = elsewhere(c), raw
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(t.Context(), client)
	require.NoError(t, err)
	require.NoError(t, kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode))
	open, told, err := b.openOn(t.Context(), &mending{topics: []string{b.topic}})
	require.NoError(t, err)
	require.True(t, told)
	require.Contains(t, open, place{c.ProducerID, b.topic, elsewhere(c)}, "the record hangs")
}

package failures

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/tests/realkafka"
)

// TestFailuresWhileRunning has one cluster for all: what breaks a part of it comes last.
func TestFailuresWhileRunning(t *testing.T) {
	b := newBench(t)
	t.Run("while all brokers run", func(t *testing.T) {
		t.Run("a topic is denied", b.topicIsDenied)
		t.Run("a batch is corrupt", b.batchIsCorrupt)
	})
	t.Run("leaders move and a broker dies", b.leadersMoveAndABrokerDies)
}

// leadersMoveAndABrokerDies runs two jobs, with checkpoints and without, on a topic with replicas and on one without. While
// records are written, leaderships move by elections and by a reassignment, then one broker is killed and comes back.
func (b *bench) leadersMoveAndABrokerDies(t *testing.T) {
	const partitions = 6
	id := realkafka.Name(t)
	// The worst to lose is the one that also coordinates the job's transactions.
	dies := b.coordinator(t, id+"-0-0")
	one, other := (dies+1)%3, (dies+2)%3
	replicated, single := b.topic(t, everywhere(partitions)...), b.topic(t, []int32{one}, []int32{other}, []int32{dies})
	topics := []string{replicated, single}
	type run struct {
		*job
		out *observer
	}
	var runs []run
	for id, plain := range map[string]bool{id: false, id + "-plain": true} {
		p := pipeline{servers: b.BootstrapString(), in: topics, out: b.topic(t, []int32{0, 1, 2}), id: id, plain: plain}
		runs = append(runs, run{p.start(t, t.TempDir()), b.observe(t, p.out)})
	}
	await := func() {
		t.Helper()
		want := b.expected(topics...)
		for _, r := range runs {
			r.out.until(r.job, want)
		}
	}
	for p := range int32(3) {
		b.write(t, single, p, 10)
	}
	stop := b.writing(t, replicated, partitions)
	await()

	for turn := range int32(2) {
		b.moveLeaders(t, replicated, partitions, turn+1)
	}
	b.reassign(t, single, 0, []int32{other}) // its only replica goes to another broker
	b.write(t, single, 0, 10)
	await()

	require.NoError(t, b.Kill(int(dies)))
	b.awaitLeaders(t, single, []int32{other, other, -1})
	for p := range int32(2) {
		b.write(t, single, p, 10)
	}
	await() // all but what is offline, of which nothing was written
	for _, r := range runs {
		// On a busy machine an election may take so long that other partitions are named as well, for a while.
		r.eventually("the partition without a leader is named", func() bool {
			return slices.ContainsFunc(r.lines("partitions cannot be read"), func(line string) bool { return strings.Contains(line, single+" 2") })
		})
		r.eventually("it is the only one", func() bool { return r.metric("kafka_source_unavailable_partitions") == 1 })
	}
	require.NoError(t, b.Restart(int(dies)))
	b.awaitLeaders(t, single, []int32{other, other, dies})
	b.write(t, single, 2, 10)
	await()
	stop()
	await()
	for _, r := range runs {
		r.said("partitions can be read again")
		r.eventually("no partition is unavailable", func() bool { return r.metric("kafka_source_unavailable_partitions") == 0 })
		require.Zero(t, r.metric("checkpoint_lost_records"))
		require.Zero(t, r.metric("kafka_source_rewinds"))
		r.stops()
		r.out.exactly(b.expected(topics...))
	}
}

// moveLeaders makes each partition's replica that is `by` places behind its first one in everywhere its leader.
func (b *bench) moveLeaders(t *testing.T, topic string, partitions int32, by int32) {
	t.Helper()
	var order kadm.AlterPartitionAssignmentsReq
	want := make([]int32, partitions)
	for p := range partitions {
		first := p + by
		order.Assign(topic, p, nodes([]int32{first % 3, (first + 1) % 3, (first + 2) % 3}))
		want[p] = first % 3
	}
	b.alter(t, order)
	all := kadm.TopicsSet{}
	for p := range partitions {
		all.Add(topic, p)
	}
	require.Eventually(t, func() bool { // a replica that has just been put first may not count as preferred yet
		_, err := b.admin.ElectLeaders(t.Context(), kadm.ElectPreferredReplica, all)
		return err == nil && slices.Equal(want, b.leaders(t, topic))
	}, limit, 100*time.Millisecond)
}

// reassign moves a partition to other brokers.
func (b *bench) reassign(t *testing.T, topic string, partition int32, to []int32) {
	t.Helper()
	var order kadm.AlterPartitionAssignmentsReq
	order.Assign(topic, partition, nodes(to))
	b.alter(t, order)
	require.Eventually(t, func() bool { return b.leaders(t, topic)[partition] == to[0] }, limit, 50*time.Millisecond)
}

func (b *bench) alter(t *testing.T, order kadm.AlterPartitionAssignmentsReq) {
	t.Helper()
	answers, err := b.admin.AlterPartitionAssignments(t.Context(), order)
	require.NoError(t, err)
	require.NoError(t, answers.Error())
}

func (b *bench) awaitLeaders(t *testing.T, topic string, want []int32) {
	t.Helper()
	require.Eventually(t, func() bool { return slices.Equal(want, b.leaders(t, topic)) }, limit, 50*time.Millisecond)
}

// login is what alice's connection has.
const login = `    sasl: [ { mechanism: SCRAM-SHA-512, username: alice, password: "` + realkafka.Password + `" } ]
`

// topicIsDenied takes away the permission to read one of two topics. A topic that is not read any more, in silence, would be
// worse than a job that ends: it says which one and what to grant, does not start without, and goes on where it was.
func (b *bench) topicIsDenied(t *testing.T) {
	for _, plain := range []bool{false, true} {
		t.Run(fmt.Sprintf("plain %v", plain), func(t *testing.T) {
			t.Parallel()
			stays, denied := b.topic(t, everywhere(2)...), b.topic(t, everywhere(2)...)
			topics := []string{stays, denied}
			p := pipeline{servers: b.Listener(realkafka.SASLPlaintext), connection: login, in: topics, out: b.topic(t, []int32{0, 1, 2}),
				id: realkafka.Name(t), plain: plain}
			dir, out := t.TempDir(), b.observe(t, p.out)
			b.allow(t, kmsg.ACLResourceTypeTopic, kmsg.ACLOperationRead, stays)
			b.allow(t, kmsg.ACLResourceTypeTopic, kmsg.ACLOperationRead, denied)
			b.allow(t, kmsg.ACLResourceTypeTopic, kmsg.ACLOperationWrite, p.out)
			b.allow(t, kmsg.ACLResourceTypeGroup, kmsg.ACLOperationRead, p.id)
			b.allow(t, kmsg.ACLResourceTypeTransactionalId, kmsg.ACLOperationWrite, p.id)
			for _, topic := range topics {
				b.write(t, topic, 0, 10)
				b.write(t, topic, 1, 10)
			}
			j := p.start(t, dir)
			out.until(j, b.expected(topics...))
			// What came last is acknowledged, and committed to the group.
			j.eventually("everything is committed", func() bool { return j.metric("kafka_source_committed_offset") == 40 })

			b.deny(t, denied)
			last := j.fails()
			require.Contains(t, last, denied)
			require.Contains(t, last, "grant the ACL operation Read on resource Topic")
			b.write(t, stays, 0, 10)
			b.write(t, denied, 0, 10)
			again := p.start(t, dir).fails()
			require.Contains(t, again, denied)
			require.Contains(t, again, "grant the ACL operation Read on resource Topic")

			b.allow(t, kmsg.ACLResourceTypeTopic, kmsg.ACLOperationRead, denied)
			j = p.start(t, dir)
			out.until(j, b.expected(topics...))
			j.stops()
			out.exactly(b.expected(topics...))
		})
	}
}

// batchIsCorrupt changes a byte of a batch that lies in front of the reader. What is before it is delivered, nothing behind
// it, and the other partition goes on until the job ends, with everything that people need. Once the log is whole the job goes
// on where it was.
func (b *bench) batchIsCorrupt(t *testing.T) {
	t.Parallel()
	topic := b.topic(t, []int32{1}, []int32{0})
	p := pipeline{servers: b.BootstrapString(), in: []string{topic}, out: b.topic(t, []int32{0, 1, 2}), id: realkafka.Name(t)}
	for range 3 {
		b.write(t, topic, 0, 10)
	}
	b.write(t, topic, 1, 10)
	repair := b.Damage(t, 1, topic, 0, 1, realkafka.BatchRecords+6, 1)
	dir, out := t.TempDir(), b.observe(t, p.out)
	j := p.start(t, dir)
	last := j.fails()
	for _, part := range []string{
		fmt.Sprintf("fetching %s-0 at offset 10: the batch there is corrupt in the log of its leader, broker 2: encoded crc", topic),
		"Nothing of it is skipped", `properties.check.crcs: "false"`, "behind the batch, whose last offset is 19", "it was read 3 times",
	} {
		require.Contains(t, last, part)
	}
	require.Len(t, j.lines("what was read before it is committed first"), 1, j.log())
	before := map[string]int64{topic + " 0": 10, topic + " 1": 10}
	out.take(5 * time.Second)
	out.exactly(before)

	repair()
	j = p.start(t, dir)
	out.until(j, b.expected(topic))
	j.stops()
	out.exactly(b.expected(topic))
}

// Package devbroker is a Kafka broker inside the process (franz-go's kfake on 127.0.0.1), together with what a demo or
// a test needs around one: numbered records to load, an offset fence, a read_committed observer and an audit that
// counts what was lost, doubled, altered or out of order. In come topics and a load, out go an address and counts; the
// loader, the fence and the observer work with any Kafka. The binary's sub-commands and tests may import it, plugins
// and cores may not.
//
// # Where the embedded broker is not Kafka
//
// Everything a transactional copy needs works: KIP-890 epochs (EndTxn v5), implicit adding of partitions, fencing by
// InitProducerId, transaction timeouts, read_committed fetches with a last stable offset. These answers differ from
// those of Apache Kafka 4.3, so recovery is tested on the real one; TestAnswersThatDifferFromKafka pins each of them:
//
//   - DescribeTransactions and ListTransactions know the states Ongoing and Empty only: no CompleteCommit,
//     CompleteAbort or Prepare state is ever seen, not after a commit, an abort or a timeout.
//   - Transactions end at once: CONCURRENT_TRANSACTIONS is never answered.
//   - EndTxn (commit) with the epoch of a transaction that InitProducerId aborted answers INVALID_TXN_STATE to v5,
//     where Kafka answers PRODUCER_FENCED: the epoch is one behind, not two.
//   - EndTxn (commit) v5 for a transaction that was committed by v4 answers OK, where Kafka answers INVALID_TXN_STATE.
//   - EndTxn (commit) v5 for a new, empty transaction answers OK where the id's last one was committed.
//   - InitProducerId for an id that exists keeps the transaction timeout of its first initialisation.
//   - Nothing is written to disk, so nothing survives the process.
package devbroker

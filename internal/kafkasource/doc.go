// Package kafkasource reads topic partitions for one stream and takes part in its checkpoints. In comes a Config of plain
// values and what the coordinator asks of a checkpoint.Source; out go batches of records, each with the Tag of its
// attempt and its acknowledgement, and positions: next offsets to read, never last records (rule 11). It imports
// franz-go and not Benthos; only plugins may import it.
//
// # What is not obvious
//
//   - Each attempt has a consumer client of its own. A client that is sought back may still hand out what it fetched
//     before, so nothing of it is used again after a failover.
//   - Partitions are assigned directly, with exact offsets. There is no group membership, so the client has nothing
//     that it could commit (rule 1), and no reset policy, so it never jumps (ConsumeResetOffset is NoResetOffset).
//   - Control records are kept and skipped here, since they alone tell that the position has moved over a transaction's
//     end. Where not even those are left (a log whose tail was compacted away) probe.go asks the broker.
//   - A position moves when a batch is handed out, in Next; Pause waits until all that was handed out is acknowledged,
//     so positions then cover exactly what has been delivered.
package kafkasource

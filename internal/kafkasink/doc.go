// Package kafkasink writes records to Kafka for one sink: into the open transaction of an attempt, or with a plain
// idempotent producer, as the delivery guarantee says, and takes part in checkpoints. Ready-made records with the tag of
// the attempt that emitted them come in; acknowledged records, committables and reported failures go out. Plugins import
// it; it is an adapter and may import franz-go, not Benthos.
//
// # Who meets whom
//
// WriteBatch is called by as many goroutines as max_in_flight, the checkpoint.Sink methods by the coordinator (Start,
// Open and Seal from its loop, the others from goroutines of their own), promises by the client. What can meet:
//
//   - WriteBatch and Start: a batch of an attempt that has not begun here waits for it; it is never dropped.
//   - WriteBatch and Seal, with no id free: the batch waits for Open. The source does not emit then, so this is the
//     exception.
//   - WriteBatch and Flush or Seal: in a barrier nothing of the attempt is in flight, so a write that still runs belongs
//     to a batch somebody gave up on. Flush waits for it, and Seal refuses while there is one: a record that came in
//     after the flush would be committed although its position is not.
//   - WriteBatch and Halt: the batch counts as dropped from the moment Halt has the lock. One that is past the lock may
//     still hand records to the client that Halt closes; they fail or stay in the transaction that is aborted. Halt
//     waits for it, so that after Halt nobody writes with the old attempt's client.
//   - A promise and Halt: failures of a halted attempt are consequences of it and are not reported.
//   - A failed send and Flush: Flush returns only when it is settled whether another owner has fenced the id, because
//     the failover that Flush's error leads to would take the id back from its rightful owner.
//   - Commit of one id and WriteBatch on another: they share nothing but the pool's lock.
//   - Close and everything: after Close nothing is sent, whoever waits returns.
package kafkasink

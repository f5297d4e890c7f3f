// Package checkpoint is the coordinator of one stream: it decides when a barrier runs, what a durable record holds,
// when a transaction may be committed, and what is resumed, aborted or replayed after a failure. Machine is a pure
// state machine: events (an acknowledgement, a drained source, a finished write, a fired timer) come in, actions
// (pause, seal, write, commit, abort) go out, and it has no goroutine, clock or I/O; Stream has those, in stream.go,
// run.go and perform.go. It imports neither Benthos nor a Kafka client, and every other room may import it.
//
// # The caller's contract
//
// Whoever drives a Machine (Stream does, and the explorer in explore_test.go does) keeps these rules:
//
//  1. Step is called by one goroutine at a time, and the actions it returns are begun in their order.
//  2. Each action that asks for an answer gets exactly one answer event, or none if the process ends. An answer that
//     comes late carries the checkpoint, attempt or record number it was asked for, and the Machine tells it apart.
//  3. A write is reported durable only when the record would survive a power cut, and failed only when it certainly
//     left nothing behind. Everything else is reported as unknown.
//  4. Seal is carried out and answered at once, before any other event. A commit is reported only when its verdict is definite; until then the caller goes on asking.
//  5. After Halt a sink drops what an older attempt emitted; a source is drained when nothing it emitted is in flight.
//  6. Nothing is sent to the broker for a transactional id but what an action asks for.
package checkpoint

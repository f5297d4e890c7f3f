// Package txn keeps the transactional ids of one sink: each id's client and open transaction, its seal, its commit, and
// what became of a transaction whose client is gone. Records and committables come in; sealed transactions, definite
// verdicts and initialised ids go out. internal/kafkasink imports it; it is an adapter and may import franz-go, not
// Benthos.
//
// # Non-obvious facts
//
//   - Ids are pooled, clients are not: a client is kept for its id's next transaction only after its EndTransaction
//     returned nil. After an error nothing may be called on it but Close, because a second EndTransaction would first
//     run InitProducerId, which aborts. The outcome is then found by raw EndTxn (Broker.Commit).
//   - ProducerID on a client whose id has failed initialises it again. So a committable's producer id and epoch come from
//     the acknowledged records.
//   - Closing a client sends nothing to the coordinator: a sealed transaction survives it.
//   - EndTxn version 5 sent to a cluster whose finalised transaction.version is below 2 is refused and wedges the
//     transaction for good, so the version is pinned by what the id's own coordinator says is finalised.
package txn

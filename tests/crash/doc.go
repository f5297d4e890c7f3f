// Package crash kills the real binary at random moments and at every step of the protocol, and lets it suffer brokers
// that die, a hindered network, a freeze and a second self, while it copies records on a real Kafka and a producer goes
// on writing; what is decided once, where a pipeline begins and ends, is tried in many lives, each from a first start on.
// Scenarios, steps, a number of kills, a signal and a seed come in; a line or a table with what a read_committed reader
// has seen lost, doubled, altered and out of order goes out, how long the reader waits after a kill, and whether what the
// processes hold stays flat. Nothing imports it; `make test-crash` and `make soak` run it long, `make bench-recovery`
// takes the time, `make test` does a little of each.
package crash

// Package crash kills the real binary at random moments, and at every step of the protocol, while it copies records on
// a real Kafka and a producer goes on writing, and counts what a read_committed reader has seen of each record in the
// end. A scenario, a number of kills, a signal and a seed come in; one line with what was lost, doubled, altered and out
// of order goes out. Nothing imports it; `make test-crash` runs it long, `make test` a little.
package crash

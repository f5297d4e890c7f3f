// Command floor copies a topic as fast as the Kafka client can, with one transaction a second: what anything built on
// that client has to be compared with. It keeps no positions, so it guarantees nothing after a crash. Flags come in, an
// exit code goes out; bench runs it.
package main

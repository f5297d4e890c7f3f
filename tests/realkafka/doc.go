// Package realkafka starts Apache Kafka 4.3.1 for tests and benchmarks: one or three brokers in KRaft mode, as child
// processes on 127.0.0.1, that are gone when the test is, whatever ends it. The number of brokers, features and
// broker properties come in; a Cluster goes out, whose brokers can be killed, stopped, paused and restarted one by
// one, and on which Kafka's own command line tools can be run as an independent witness. Tests everywhere may import
// it, and so may bench/; nothing that ends up in the binary does.
//
// # What it needs
//
// Java 17 or later, and Maven for the first run, which fetches the jars into the user's cache folder (54 MB). Where
// they are missing, Start skips the test and says why; where CI=true is set it fails it instead.
//
// TIDEGATE_KAFKA=host:port[,host:port] uses a cluster of one's own in place of a started one. Tests that choose
// features or properties, or that kill brokers, are then skipped.
//
// # One cluster for many tests
//
// Start costs about three seconds. A package whose tests need nothing special of the broker calls Shared instead, and
// declares
//
//	func TestMain(m *testing.M) { realkafka.Main(m) }
//
// so that the shared cluster and its folder are removed at the end.
package realkafka

// Package parity holds the source against Apache Flink itself. One table of cases is run through both engines, on the
// same topics of a real Kafka, by one driver that knows only records, ends and failures: Flink 2.2.1 with its Kafka
// connector, in a small Java program (flink/Judge.java), and the real binary in streams mode. What Flink said is checked
// in under testdata, so that `make test` needs Flink for nothing; `make parity` asks it again. Where we differ on
// purpose, the case says why, and the test holds us to exactly that difference.
//
// What needs Flink is skipped without the flag -parity.flink; all of it needs the real Kafka of tests/realkafka. Nothing
// imports this package.
package parity

// Package kafkaflinksink is the Benthos output kafka_flink_sink: its registration, its config spec and the way from
// messages to Kafka records. In come message batches, out go records to internal/kafkasink, which takes part in the
// stream's checkpoints. Binaries import it for its registration; nothing else does.
package kafkaflinksink

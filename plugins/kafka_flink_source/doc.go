// Package kafkaflinksource is the Benthos input kafka_flink_source: its config spec with lints, and the bridge from
// Benthos's reader to internal/kafkasource. A parsed config and resources come in; messages with exactly the metadata
// that is asked for, each with its attempt's tag in the context, go out. Only the binary's imports.go, and those of
// people who build their own, import it.
package kafkaflinksource

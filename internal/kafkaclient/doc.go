// Package kafkaclient turns the connection settings that source and sink share into franz-go options, checks that a
// cluster can be reached, and explains Kafka's errors to people. Settings as plain values come in, client options,
// a cluster id and classified errors go out. It does not know Benthos; the adapters (kafkasource, kafkasink, txn) and
// the edges may import it.
package kafkaclient

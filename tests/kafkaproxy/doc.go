// Package kafkaproxy is a TCP proxy between a job and real Kafka brokers that knows enough of the protocol to name each
// request: tests drop, delay or cut the request or the answer of one kind, once or for a while, or the whole network.
// In come broker addresses, out goes a bootstrap address for the job; answers that name brokers are rewritten so that
// the job stays on the proxy. Tests may import it.
package kafkaproxy

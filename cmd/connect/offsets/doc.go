// Package offsets is `connect offsets`: it tells where the Kafka sources of a config would begin and stop, and why, and
// does none of it. In comes the job that a config describes; out goes a table, or JSON. It decides nothing itself:
// the positions are those that kafkasource.Survey, and so a start, would choose. Only the binary imports it.
package offsets

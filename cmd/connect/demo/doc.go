// Package demo shows exactly-once delivery under SIGKILL: a real pipeline of this binary in a child process copies
// numbered records on an embedded broker, is killed at random moments while it works, and is started again until it is
// done. In come the number of records and kills, out go a table of what a read_committed consumer saw and an error where
// the figures don't hold. Only the binary's demo sub-command imports it.
package demo

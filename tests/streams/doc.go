// Package streams runs sources in the real binary: one process in streams mode, in which every job of a test is a stream
// of its own that is made and removed by the HTTP API. The config of a source comes in; the records that it read, how it
// ended or why it failed, and its metrics go out. A start costs milliseconds, so hundreds of cases fit into a test. Tests
// of every room but the cores may import it.
package streams

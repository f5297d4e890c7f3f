// Package failures runs the built binary while something fails on a real Kafka of three brokers: leaders that move or die,
// partitions without a leader, permissions that are taken away, batches that are corrupt. In comes what goes wrong; what has
// arrived, exactly once or not at all, and what the job has said about it, is compared. Only tests live here.
package failures

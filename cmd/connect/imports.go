package main

// The bill of materials: what this binary can read, write and do. An import registers its components with Benthos.
import (
	// Tidegate's: a source and a sink for Kafka, caches that can hold checkpoints, and metrics at /metrics.
	_ "github.com/tidegate/tidegate/cache"
	_ "github.com/tidegate/tidegate/plugins/header_filter"
	_ "github.com/tidegate/tidegate/plugins/kafka_flink_sink"
	_ "github.com/tidegate/tidegate/plugins/kafka_flink_source"
	_ "github.com/tidegate/tidegate/plugins/prometheus"

	// Benthos's own: everything without a dependency (mapping, switch, dedupe, ...), and files, HTTP, sockets, stdin.
	_ "github.com/redpanda-data/benthos/v4/public/components/io"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
)

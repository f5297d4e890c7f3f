package benthosx

// ExampleCopy is the example that the docs of source and sink share, since neither is of use without the other.
const ExampleCopy = `
input:
  kafka_flink_source:
    bootstrap_servers: [ "localhost:9092" ]
    topics: [ orders ]
    group_id: orders-copy
    startup: { mode: earliest-offset }
    checkpoint: { interval: 5s, store: state }

output:
  kafka_flink_sink:
    bootstrap_servers: [ "localhost:9092" ]
    topic: orders-copy
    delivery_guarantee: exactly-once
    transactional_id_prefix: orders-copy

cache_resources:
  - label: state
    pebble: { path: ./data/state }
`

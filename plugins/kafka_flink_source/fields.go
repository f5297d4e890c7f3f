package kafkaflinksource

import (
	// The lint rules use its Bloblang functions.
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
)

// Field names.
const (
	fieldTopics         = "topics"
	fieldTopicPattern   = "topic_pattern"
	fieldPartitions     = "partitions"
	fieldGroupID        = "group_id"
	fieldClientIDPrefix = "client_id_prefix"
	fieldRack           = "rack"
	fieldParallelism    = "parallelism"
	fieldIndex          = "index"

	fieldStartup         = "startup"
	fieldMode            = "mode"
	fieldTimestamp       = "timestamp"
	fieldSpecificOffsets = "specific_offsets"
	fieldOffsetReset     = "offset_reset"
	fieldIgnoreState     = "ignore_missing_state"

	fieldBounded     = "bounded"
	fieldKeepRunning = "keep_running"

	fieldDiscovery = "discovery_interval"

	fieldHeaderFilter   = "header_filter"
	fieldIsolationLevel = "isolation_level"
	fieldMetadata       = "metadata"
	fieldCommitOffsets  = "commit_offsets_on_checkpoint"
	fieldCheckGroup     = "check_duplicated_group_id"

	fieldHeaderMetadata  = "header_metadata"
	fieldIncludePrefixes = "include_prefixes"
	fieldIncludePatterns = "include_patterns"

	fieldAutoCommit = "auto_commit"
	fieldEnabled    = "enabled"

	fieldCheckpoint        = "checkpoint"
	fieldInterval          = "interval"
	fieldMinPause          = "min_pause"
	fieldTimeout           = "timeout"
	fieldMaxConcurrent     = "max_concurrent"
	fieldTolerableFailures = "tolerable_failures"
	fieldRetained          = "retained"
	fieldOnStop            = "on_stop"
	fieldStore             = "store"
	fieldMaxRestarts       = "max_restarts"
	fieldAllowNonRestored  = "allow_non_restored_state"
	fieldOnOutOfRange      = "on_restore_out_of_range"
)

// Values of modes that only this package knows.
const (
	readUncommitted = "read_uncommitted"
	readCommitted   = "read_committed"
	exactlyOnce     = "exactly-once"
	atLeastOnce     = "at-least-once"
	stopRetain      = "retain"
	stopDelete      = "delete"
)

package kafkaflinksource

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/benthosx"
	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/internal/offsets"
)

//go:embed kafka_flink_source.md
var description string

func init() {
	service.MustRegisterBatchInput("kafka_flink_source", spec(), newInput)
}

func spec() *service.ConfigSpec {
	return service.NewConfigSpec().
		Version("0.1.0").
		Categories("Services").
		Summary("Reads Kafka topics with the semantics of the Apache Flink Kafka source: start-up modes, bounded reads and checkpoints.").
		Description(description).
		Fields(benthosx.ConnectionFields(kafkaclient.Source)...).
		Fields(subscriptionFields()...).
		Fields(
			service.NewStringField(fieldGroupID).Default("").
				Description("The consumer group whose committed offsets `startup.mode: group-offsets` starts from, and to which "+
					"positions are committed for monitoring. The source is never a member of the group. Without a group nothing is committed.").
				Example("orders-copy"),
			service.NewStringField(fieldClientIDPrefix).Default("").Advanced().
				Description("Begins the client ids that the brokers see. Default: the group id, else `tidegate-` and the component's label or path."),
			service.NewStringField(fieldRack).Default("").Advanced().
				Description("Where the process runs, such as an availability zone, by Kafka's `client.rack`. Partitions are read from a replica "+
					"whose broker has the same `broker.rack`, where the brokers' `replica.selector.class` is "+
					"`org.apache.kafka.common.replica.RackAwareReplicaSelector`, else from their leaders.").
				Example("eu-central-1a").Example("${ZONE}"),
			benthosx.IntField(fieldParallelism, fieldParallelism, 1, 1,
				"How many processes share the partitions, each with its own `index`, its own checkpoints and, by the index, its own transactional ids. A whole number.").Advanced(),
			benthosx.IntField(fieldIndex, fieldIndex, 0, 0,
				"The number of this process among them, from 0 to `parallelism` - 1. Which partitions it reads follows Flink's rule: those of a topic go to the processes in turn, and the first one depends on the topic's name.").Advanced(),
			benthosx.BoolField(fieldCheckGroup, fieldCheckGroup, false,
				"Whether to refuse, at the start, a `group_id` that another application uses, true or false, as Flink's `scan.check.duplicated.group.id`: "+
					"one with active members, or one to which another job of Tidegate's commits offsets of partitions that are read here.").Advanced(),
			startupField(),
			boundedField(),
			headerFilterField(),
			discoveryField(),
			benthosx.EnumField("isolation_level", fieldIsolationLevel, map[string]string{
				readUncommitted: "All records, also those of open and aborted transactions. Kafka's default.",
				readCommitted:   "Only records outside of transactions and in committed ones. For topics that are written with transactions.",
			}).Default(readUncommitted).Description("Which records of transactional topics are read."),
			metadataField(),
			headerMetadataField(),
			autoCommitField(),
			checkpointField(),
			benthosx.BoolField(fieldCommitOffsets, fieldCommitOffsets, true,
				"With checkpoints: whether the positions of every completed one are committed to the consumer group, true or false. What is "+
					"delivered never depends on them."),
		).
		LintRule(fmt.Sprintf("%s.concat(%s)", wholeRule, benthosx.ConnectionLint(kafkaclient.Source))).
		Example("Copy a topic exactly once", "What consumers with `isolation.level=read_committed` see of the copy has no gaps and no repeats, whenever the process is killed.", benthosx.ExampleCopy).
		Example("Read without checkpoints", "Goes on from the group's offsets, which are committed once a second up to where every record is acknowledged. After a crash records may come again, and none is lost.", exampleSolo).
		Example("Read what there is, then end", "Reads the topic up to its present end and ends the process. Restarted halfway, it goes on to the same end.", exampleBounded)
}

// wholeRule checks what no field can tell by itself, in the words of the config.
const wholeRule = subscriptionRule + startStopRule + `
let cp = this.checkpoint.or({})
let auto = this.auto_commit.or({})
let parallelism = this.parallelism.or(1).number().catch(null)
let index = this.index.or(0).number().catch(null)
let properties = this.properties.or({})
let group = this.group_id.or("").string().trim()
let defaults = {
  "mode": "exactly-once", "store": "", "min_pause": "0s", "timeout": "10m", "max_concurrent": 1, "tolerable_failures": 0, "retained": 2,
  "on_stop": "retain", "max_restarts": -1, "allow_non_restored_state": false, "on_restore_out_of_range": "fail"
}
let idle = $cp.key_values().filter(kv -> $defaults.exists(kv.key) && $defaults.get(kv.key) != kv.value).map_each(kv -> "checkpoint." + kv.key).sort()
let idle = $idle.concat(if $startup.ignore_missing_state.or(false) == true { ["startup.ignore_missing_state"] } else { [] })
let idle = $idle.concat(if this.commit_offsets_on_checkpoint.or(true) == false { ["commit_offsets_on_checkpoint"] } else { [] })
root = [
  if $startup.mode.or("group-offsets").string().lowercase() == "group-offsets" && $group == "" {
    "startup.mode is group-offsets (the default), which needs group_id; set group_id, or startup.mode to earliest-offset or latest-offset"
  },
  if $parallelism != null && $index != null && $parallelism >= 1 && $index >= $parallelism {
    "index: %v is not from 0 to parallelism - 1 = %v; processes are counted from 0".format($index, $parallelism - 1)
  },
  if this.client_id_prefix.or("").string() != "" && $properties.exists("client~1id") && $properties.get("client~1id") != this.client_id_prefix {
    "properties.client.id and client_id_prefix say different things; remove one of them"
  },
  if this.isolation_level.or("read_uncommitted").string().lowercase() == "read_committed" && $properties.get("isolation~1level").or("read_committed").string().lowercase() != "read_committed" {
    "properties.isolation.level and isolation_level say different things; remove one of them"
  },
  if this.rack.or("").string() != "" && $properties.get("client~1rack").or(this.rack).string() != this.rack.string() {
    "properties.client.rack and rack say different things; remove one of them"
  },
  if $cp.exists("interval") && $cp.store.or("").string().trim() == "" {
    "checkpoint.store is required: the label of the cache that keeps the checkpoints, one of pebble, checkpoint_file or checkpoint_memory"
  },
  if !$cp.exists("interval") && $idle.length() > 0 {
    "%v %v no effect without checkpoint.interval, which turns checkpoints on; set checkpoint.interval, such as 5s, or remove %v".format($idle.join(", "), if $idle.length() == 1 { "has" } else { "have" }, if $idle.length() == 1 { "it" } else { "them" })
  },
  if $cp.exists("interval") && ($auto.exists("enabled") || $auto.exists("interval")) {
    "auto_commit and checkpoint.interval contradict each other: with checkpoints, positions are committed after each of them (commit_offsets_on_checkpoint); remove auto_commit, or checkpoint.interval to read without checkpoints"
  },
  if $group == "" && this.check_duplicated_group_id.or(false) == true {
    "check_duplicated_group_id has no effect without group_id; set group_id, or remove it"
  },
  if !$cp.exists("interval") && $group == "" && $auto.exists("interval") {
    "auto_commit.interval has no effect without group_id: there is no consumer group to commit to; set group_id, or remove auto_commit"
  } else if !$cp.exists("interval") && $group == "" && $auto.enabled.or(false) == true {
    "auto_commit.enabled is true, and there is no group_id to commit to; set group_id, or remove auto_commit"
  } else if !$cp.exists("interval") && $auto.enabled.or(true) == false && $auto.exists("interval") {
    "auto_commit.interval has no effect with auto_commit.enabled: false; remove one of them"
  },
  if $cp.min_pause.or("0s").string().parse_duration().catch(0) > 0 && $cp.max_concurrent.or(1).number().catch(1) > 1 {
    "checkpoint.min_pause and checkpoint.max_concurrent above 1 contradict each other: a pause after a checkpoint means that there is one at a time"
  },
].filter(lint -> lint != null).concat($startStop).concat($subscription)`

func discoveryField() *service.ConfigField {
	return service.NewDurationField(fieldDiscovery).Default("5m").
		Description("How often new partitions of the topics are looked for, by Flink's `scan.topic-partition-discovery.interval`. They are read " +
			"from their first record, whatever `startup.mode` is. `0s` or less turns it off; a bounded source looks for none.").
		Example("30s").Example("0s").
		LintRule(fmt.Sprintf(`
let d = this.string().parse_duration().catch(null)
root = if $d == null {
  "discovery_interval: %%v is not a duration, such as 30s or 5m; 0s turns discovery off".format(this.string().quote())
} else if $d > 0 && $d < %[1]q.parse_duration() {
  "discovery_interval: %%v is less than %[1]s, the least there is but for 0s, which turns discovery off".format(this.string())
}`, minDiscovery))
}

func metadataField() *service.ConfigField {
	quoted := make([]string, len(metadataNames))
	for i, n := range metadataNames {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	return service.NewStringListField(fieldMetadata).
		Description("What is attached to each message. Each costs memory and time, so list only what the pipeline uses; the sink copies " +
			"key, headers and timestamp from here, so without them its records have none of these, or the time of writing. One of " + strings.Join(metadataNames, ", ") + ".").
		Default(toAny(defaultMetadata)).
		LintRule(fmt.Sprintf(`
let known = [ %s ]
root = if this.type() == "array" {
  if this.unique().length() < this.length() { [ "metadata lists an item twice" ] }
} else if !$known.contains(this.string()) {
  [ "metadata: %%v is not one of %%v".format(this.string().quote(), $known.join(", ")) ]
}`, strings.Join(quoted, ", ")))
}

func toAny(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

func autoCommitField() *service.ConfigField {
	path := func(name string) string { return fieldAutoCommit + "." + name }
	return service.NewObjectField(fieldAutoCommit,
		// Neither has a default that Benthos knows, or no rule could tell that it is set where it has no effect.
		benthosx.OptionalBoolField(path(fieldEnabled), fieldEnabled,
			"Whether positions are committed to `group_id`, by Kafka's `enable.auto.commit`. Default: true where there is a group; without one nothing is committed."),
		benthosx.DurationField(path(fieldInterval), fieldInterval, minInterval.String(),
			"How often, by Kafka's `auto.commit.interval.ms`. Default: 5s. After a crash what came since the last commit is read again.").Optional().Example("1s"),
	).Description("Commits to the consumer group while there are no checkpoints (`checkpoint.interval` is unset). Committed is, for each partition, the offset up to which every record is acknowledged.")
}

func checkpointField() *service.ConfigField {
	path := func(name string) string { return fieldCheckpoint + "." + name }
	return service.NewObjectField(fieldCheckpoint,
		benthosx.DurationField(path(fieldInterval), fieldInterval, "10ms",
			"The time from the start of one checkpoint to the start of the next. With an exactly-once sink it is also how often "+
				"records become visible to read_committed consumers. Unset: there are no checkpoints.").Optional().Example("5s"),
		service.NewStringField(fieldStore).Default("").
			Description("The label of the cache that keeps the checkpoints: `pebble`, `checkpoint_file`, or for trying things out `checkpoint_memory`. Required with `checkpoint.interval`.").
			Example("state"),
		benthosx.EnumField("checkpoint.mode", fieldMode, map[string]string{
			exactlyOnce: "With an exactly-once sink nothing is lost and nothing is visible twice.",
			atLeastOnce: "Not to be combined with an exactly-once sink.",
		}).Default(exactlyOnce).Description("What checkpoints promise, by Flink's `execution.checkpointing.mode`."),
		benthosx.DurationField(path(fieldTimeout), fieldTimeout, "10ms",
			"How long a checkpoint may take before it is declined. Together with the interval it has to be below the transaction "+
				"timeout of an exactly-once sink.").Default("10m"),
		benthosx.DurationField(path(fieldMinPause), fieldMinPause, "0s",
			"The least time between the end of one checkpoint and the start of the next.").Default("0s").Advanced(),
		benthosx.IntField(path(fieldMaxConcurrent), fieldMaxConcurrent, 1, 1,
			"How many checkpoints may be under way at once. A whole number.").Advanced(),
		benthosx.IntField(path(fieldTolerableFailures), fieldTolerableFailures, 0, 0,
			"How many checkpoints in a row may be declined before the stream goes back to the last one. A whole number.").Advanced(),
		benthosx.IntField(path(fieldRetained), fieldRetained, 2, 1,
			"How many checkpoint records are kept. Recovery needs one; more are for people to go back to. A whole number.").Advanced(),
		benthosx.EnumField("checkpoint.on_stop", fieldOnStop, map[string]string{
			stopRetain: "The checkpoints stay, and the next start goes on from them.",
			stopDelete: "The checkpoints are deleted once everything is committed and the positions are in the consumer group; else they stay.",
		}).Default(stopRetain).Description("What becomes of the checkpoints at a graceful stop.").Advanced(),
		benthosx.IntField(path(fieldMaxRestarts), fieldMaxRestarts, -1, -1,
			"How many failovers in a row, without a completed checkpoint in between, are made before the process ends with exit code 1. -1: without limit.").Advanced(),
		benthosx.BoolField(path(fieldAllowNonRestored), fieldAllowNonRestored, false,
			"Whether to start although the newest checkpoint holds state of components that are no longer in the config, true or false. Transactions of outputs that are gone are dropped, and counted as lost; an input under a new label begins by its start-up mode.").Advanced(),
		benthosx.EnumField("checkpoint.on_restore_out_of_range", fieldOnOutOfRange, map[string]string{
			string(offsets.FailOutOfRange):     "The start-up fails, or the process ends, and names the partitions.",
			string(offsets.EarliestOutOfRange): "Such a partition is read from its first record. What retention deleted unread is lost; that is counted and logged.",
		}).Default(string(offsets.FailOutOfRange)).
			Description("What happens when a partition no longer has the position of the checkpoint, or while running the one that is to be read next. `startup.offset_reset` never applies to it.").Advanced(),
	).Description("Checkpoints: the positions from which a restarted or failed stream goes on, together with the transactions of the sink.")
}

const exampleSolo = `
input:
  kafka_flink_source:
    bootstrap_servers: [ "localhost:9092" ]
    topics: [ orders ]
    group_id: orders-archive
    startup: { mode: group-offsets, offset_reset: earliest }
    auto_commit: { interval: 1s }

output:
  file:
    path: ./orders.jsonl
    codec: lines
`

const exampleBounded = `
input:
  kafka_flink_source:
    bootstrap_servers: [ "localhost:9092" ]
    topics: [ orders ]
    startup: { mode: earliest-offset }
    bounded: { mode: latest-offset }
    checkpoint: { interval: 5s, store: state }

output:
  file:
    path: ./orders.jsonl
    codec: lines

cache_resources:
  - label: state
    pebble: { path: ./data/state }
`

package kafkaflinksink

import (
	_ "embed"

	// The lint rules use its Bloblang functions.
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/benthosx"
	"github.com/tidegate/tidegate/internal/kafkaclient"
)

//go:embed kafka_flink_sink.md
var description string

// Field names.
const (
	fieldTopic          = "topic"
	fieldGuarantee      = "delivery_guarantee"
	fieldPrefix         = "transactional_id_prefix"
	fieldTransactions   = "transactions"
	fieldPoolSize       = "pool_size"
	fieldTimeout        = "timeout"
	fieldOnLost         = "on_lost_transaction"
	fieldCommitInterval = "commit_interval"
	fieldMaxInFlight    = "max_in_flight"
	fieldKey            = "key"
	fieldHeaders        = "headers"
	fieldFrom           = "from"
	fieldTimestamp      = "timestamp"
	fieldIndex          = "index"
)

// Values.
const (
	guaranteeNone        = "none"
	guaranteeAtLeastOnce = "at-least-once"
	guaranteeExactlyOnce = "exactly-once"
	lostReplay           = "replay"
	lostFail             = "fail"
	lostContinue         = "continue"
)

// minPoolSize is what one checkpoint at a time needs: an open id, a sealed one, and one that waits to be forgotten. The
// coordinator checks it against max_concurrent.
const minPoolSize = 3

func init() {
	service.MustRegisterBatchOutput("kafka_flink_sink", spec(), newOutput)
}

func spec() *service.ConfigSpec {
	return service.NewConfigSpec().
		Version("0.1.0").
		Categories("Services").
		Summary("Writes to Kafka topics with the delivery guarantees of the Apache Flink Kafka sink, exactly-once by two-phase commit.").
		Description(description).
		Fields(benthosx.ConnectionFields(kafkaclient.Sink)...).
		Fields(
			service.NewInterpolatedStringField(fieldTopic).
				Description("The topic of each record. It has to exist.").Example("orders-copy").Example(`orders-${! @kafka_topic }`),
			benthosx.EnumField("delivery_guarantee", fieldGuarantee, map[string]string{
				guaranteeNone:        "Nothing is waited for. Records may be lost, and are counted and logged then.",
				guaranteeAtLeastOnce: "Every record is acknowledged by the brokers before its checkpoint completes. After a failure records may be there twice.",
				guaranteeExactlyOnce: "Records are written in Kafka transactions that are committed once the checkpoint is durable. Behind inputs without checkpoints a batch is acknowledged once its transaction has committed; see above.",
			}).Default(guaranteeAtLeastOnce).Description("What is promised, by Flink's `sink.delivery-guarantee`."),
			service.NewStringField(fieldPrefix).Default("").
				Description("Begins the transactional ids, which are `<prefix>-<index>-<n>`. Required with exactly-once, refused without. No other job may use it: two with one prefix fence each other.").
				Example("orders-copy"),
			transactionsField(),
			benthosx.IntField(fieldMaxInFlight, fieldMaxInFlight, 1, 1,
				"How many batches are written at once. More than 1 gives up the order of records. With exactly-once behind an input without checkpoints it is also how many batches can share a transaction: 64 is a good number there."),
			service.NewInterpolatedStringField(fieldKey).Default("${! @kafka_key }").
				Description("The key of each record. Where it is one reference to metadata and nothing else, as in the default, bytes stay what they are and what is absent is no key. An expression that is null is no key either. Empty: no keys."),
			service.NewObjectField(fieldHeaders,
				service.NewStringField(fieldFrom).Default("@kafka_headers").
					Description("Metadata that holds a list of `{key, value}` objects; order and duplicates are kept, a null value is not an empty one. Empty: no headers.").
					LintRule(`
root = if this.string().trim() != "" && !this.string().trim().re_match("^@.") {
  "headers.from: %v does not name metadata; write it as \"@kafka_headers\", or leave it empty for no headers".format(this.string().quote())
}`),
			).Description("The headers of each record."),
			service.NewInterpolatedStringField(fieldTimestamp).Default("${! @kafka_timestamp_ms }").
				Description("The timestamp of each record, in milliseconds since 1970. The default copies the one that the source read, and is now where there was none. Empty: now."),
			benthosx.OptionalIntField(fieldIndex, fieldIndex, 0,
				"The number of this process among those that share the work, from 0: each has transactional ids of its own. Default: the `index` of the stream's `kafka_flink_source`, which it has to equal; it is for streams without one.").
				Advanced(),
		).
		LintRule(wholeRule+".concat("+benthosx.ConnectionLint(kafkaclient.Sink)+")").
		Example("Copy a topic exactly once", "What consumers with `isolation.level=read_committed` see of the copy has no gaps and no repeats, whenever the process is killed.", benthosx.ExampleCopy)
}

// wholeRule checks what no field can tell by itself, in the words of the config.
const wholeRule = `
let guarantee = this.delivery_guarantee.or("at-least-once").string().lowercase()
let properties = this.properties.or({})
let prefix = this.transactional_id_prefix.or("").string().trim()
let defaults = { "pool_size": 5, "timeout": "", "on_lost_transaction": "replay", "commit_interval": "1s" }
let idle = this.transactions.or({}).key_values().filter(kv -> $defaults.exists(kv.key) && $defaults.get(kv.key) != kv.value).map_each(kv -> "transactions." + kv.key).sort()
let idle = (if $prefix == "" { [] } else { ["transactional_id_prefix"] }).concat($idle)
root = [
  if $guarantee == "exactly-once" && $prefix == "" {
    "transactional_id_prefix is required with delivery_guarantee: exactly-once; choose one that no other job uses"
  } else if ["none", "at-least-once"].contains($guarantee) && $idle.length() > 0 {
    "%v %v no effect with delivery_guarantee: %v, which writes without transactions; set delivery_guarantee: exactly-once, or remove %v".format($idle.join(", "), if $idle.length() == 1 { "has" } else { "have" }, $guarantee, if $idle.length() == 1 { "it" } else { "them" })
  },
  if $guarantee == "exactly-once" && $properties.get("enable~1idempotence").or(true).string() == "false" {
    "properties.enable.idempotence: false does not go with delivery_guarantee: exactly-once, whose transactions need idempotent producers; remove it"
  },
  if ["exactly-once", "at-least-once"].contains($guarantee) && ["0", "1"].contains($properties.get("acks").or("all").string()) {
    "properties.acks: %v does not go with delivery_guarantee: %v: a record that not all in-sync replicas have may be lost; remove it, or set delivery_guarantee: none".format($properties.get("acks"), $guarantee)
  },
  if $guarantee != "exactly-once" && $properties.exists("transaction~1timeout~1ms") {
    "properties.transaction.timeout.ms has no effect with delivery_guarantee: %v, which writes without transactions; remove it".format($guarantee)
  } else if $properties.exists("transaction~1timeout~1ms") && this.transactions.timeout.or("").string() != "" {
    "properties.transaction.timeout.ms and transactions.timeout say the same thing; remove one of them"
  },
].filter(lint -> lint != null)`

func transactionsField() *service.ConfigField {
	path := func(name string) string { return fieldTransactions + "." + name }
	return service.NewObjectField(fieldTransactions,
		benthosx.IntField(path(fieldPoolSize), fieldPoolSize, 5, minPoolSize,
			"How many transactional ids there are. At least `checkpoint.max_concurrent` of the source + 2."),
		service.NewStringField(fieldTimeout).Default("").
			Description("How long the broker keeps a transaction open, and so how long the process may be down before its last checkpoint has to be read and written again. Has to be at least the source's `checkpoint.interval` + `checkpoint.timeout`. Empty: the broker's `transaction.max.timeout.ms`, at most 1h; without a checkpointed source 1m.").
			Example("15m").
			LintRule(`
let d = this.string().parse_duration().catch(null)
root = if this.string() != "" && $d == null {
  "transactions.timeout: %v is not a duration, such as 15m or 1h".format(this.string().quote())
} else if this.string() != "" && $d < "1s".parse_duration() {
  "transactions.timeout: %v is less than 1s, the least there is".format(this.string())
} else if this.string() != "" && $d > "500h".parse_duration() {
  "transactions.timeout: %v is more than 500h, the most that fits into a request".format(this.string())
}`),
		benthosx.EnumField("transactions.on_lost_transaction", fieldOnLost, map[string]string{
			lostReplay:   "Its records are read and written again, where no part of its checkpoint is visible yet; else the process ends.",
			lostFail:     "The process ends.",
			lostContinue: "It is counted as lost, logged, and the stream goes on.",
		}).Default(lostReplay).
			Description("What happens when the broker has aborted a transaction of a durable checkpoint, as it does when the process was down for longer than `transactions.timeout`."),
		benthosx.DurationField(path(fieldCommitInterval), fieldCommitInterval, leastCommitInterval.String(),
			"Without a checkpointed source: how long a transaction takes batches at most. It is committed earlier when `max_in_flight` batches wait, and when nothing has come for a hundredth of this.").
			Default("1s"),
	).Description("Transactions of an exactly-once sink.").Advanced().
		LintRule(`
let timeout = this.timeout.or("").string().parse_duration().catch(null)
let interval = this.commit_interval.or("1s").string().parse_duration().catch(null)
root = if $timeout != null && $timeout >= "1s".parse_duration() && $interval != null && $interval >= $timeout {
  "transactions.commit_interval: %v is not less than transactions.timeout, %v: the broker would abort transactions before they are committed".format(this.commit_interval.or("1s"), this.timeout)
}`)
}

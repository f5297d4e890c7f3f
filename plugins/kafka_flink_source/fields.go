package kafkaflinksource

import (
	"fmt"

	// The lint rules use its Bloblang functions.
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
	"github.com/redpanda-data/benthos/v4/public/service"
)

// Field names.
const (
	fieldTopics         = "topics"
	fieldGroupID        = "group_id"
	fieldClientIDPrefix = "client_id_prefix"

	fieldStartup     = "startup"
	fieldMode        = "mode"
	fieldOffsetReset = "offset_reset"

	fieldBounded = "bounded"

	fieldIsolationLevel = "isolation_level"
	fieldMetadata       = "metadata"
	fieldCommitOffsets  = "commit_offsets_on_checkpoint"

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

// Benthos does not lint durations, numbers and booleans, and a value that is none of these switches off all rules of the
// spec without a word. So such fields take any value here, and have a rule that says what they want.

func durationField(path, name, least string, description string) *service.ConfigField {
	return service.NewDurationField(name).Description(description).LintRule(fmt.Sprintf(`
let d = this.string().parse_duration().catch(null)
root = if $d == null {
  "%[1]s: %%v is not a duration, such as 500ms, 5s or 10m".format(this.string().quote())
} else if $d < %[2]q.parse_duration() {
  "%[1]s: %%v is less than %[2]s, the least there is".format(this.string())
}`, path, least))
}

func intField(path, name string, value, least int, description string) *service.ConfigField {
	return service.NewAnyField(name).Description(description).Default(value).LintRule(fmt.Sprintf(`
let n = if this.type() == "number" { this.number() } else { null }
root = if $n == null || $n != $n.floor() {
  "%[1]s: %%v is not a whole number".format(this.string().quote())
} else if $n < %[2]d {
  "%[1]s: %%v is less than %[2]d, the least there is".format($n)
}`, path, least))
}

func boolField(path, name string, value bool, description string) *service.ConfigField {
	return service.NewAnyField(name).Description(description).Default(value).LintRule(fmt.Sprintf(`
root = if this.type() != "bool" {
  "%[1]s: %%v is neither true nor false".format(this.string().quote())
}`, path))
}

package kafkaflinksource

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/offsets"
	"github.com/tidegate/tidegate/internal/splits"
)

const minimal = `
bootstrap_servers: [ "localhost:9092" ]
topics: [ orders ]
group_id: g
checkpoint: { interval: 5s, store: state }
`

func indent(yaml string) []byte {
	return []byte("kafka_flink_source:\n  " + strings.ReplaceAll(strings.TrimSpace(yaml), "\n", "\n  ") + "\n")
}

func lint(t *testing.T, yaml string) []string {
	t.Helper()
	lints, err := service.GlobalEnvironment().NewComponentConfigLinter().LintInputYAML(indent(yaml))
	require.NoError(t, err)
	var out []string
	for _, l := range lints {
		out = append(out, l.What)
	}
	slices.Sort(out)
	return out
}

// parse builds the config as the constructor does.
func parse(t *testing.T, yaml string) (config, error) {
	t.Helper()
	conf, err := spec().ParseYAML(yaml, nil)
	if err != nil {
		return config{}, err
	}
	c, err := parseConfig(conf)
	if err == nil {
		err = c.reader.Start.Validate()
	}
	if err == nil {
		err = c.reader.Stop.Validate()
	}
	if err == nil {
		err = c.reader.Subscription.Validate()
	}
	return c, err
}

// TestBadInput holds each wrong config against its lint, and against the error a start-up gives that skips the lints.
func TestBadInput(t *testing.T) {
	// with replaces one line of the minimal config, or appends to it.
	with := func(old, replacement string) string {
		if old == "" {
			return minimal + replacement
		}
		require.Contains(t, minimal, old)
		return strings.Replace(minimal, old, replacement, 1)
	}
	checkpointed := func(more string) string { return with("store: state }", "store: state, "+more+" }") }
	// solo has no checkpoints, and nobody's no group either.
	solo := func(more string) string { return with("checkpoint: { interval: 5s, store: state }", more) }
	nobody := func(more string) string {
		return strings.Replace(solo(more), "group_id: g", "startup: { mode: earliest-offset }", 1)
	}
	for name, tc := range map[string]struct{ yaml, lint, err string }{
		"unknown field": {with("", "topic: orders"), "field topic not recognised", ""},
		"no topics":     {with("topics: [ orders ]\n", ""), "topics names no topic; name what to read in topics, topic_pattern or partitions", "topics"},
		"empty topics":  {with("[ orders ]", "[]"), "topics names no topic", "no topic given"},
		"empty topic":   {with("[ orders ]", `[ orders, " " ]`), "topics has an entry that is empty", "entry 1 is empty"},
		"topic twice":   {with("[ orders ]", "[ orders, orders ]"), "topics names a topic twice", "listed twice"},
		"bad pattern": {
			with("", `header_metadata: { include_patterns: [ ok, "a(" ] }`),
			`header_metadata.include_patterns: "a(" is not a regular expression of RE2: `,
			`header_metadata.include_patterns: "a(" is not a regular expression of RE2: error parsing regexp: missing closing )`,
		},
		"topics a number":      {with("[ orders ]", "7"), `topics: "7" is neither a list of names nor one string`, "topics: 7 is neither a list"},
		"topics of numbers":    {with("[ orders ]", "[ 7 ]"), "topics: \"[7]\" is neither a list of names", "topics: 7 is not the name of a topic"},
		"topics as a string":   {with("[ orders ]", `"orders;;users"`), "topics has an entry that is empty", "entry 1 is empty"},
		"topics and a pattern": {with("", "topic_pattern: orders"), "topics, topic_pattern: only one of them can be set", "topics, topic_pattern: only one of them can be set"},
		"pattern empty":        {with("topics: [ orders ]", `topic_pattern: " "`), "topic_pattern matches no name", "topic_pattern: \" \" matches no name"},
		"pattern wrong":        {with("topics: [ orders ]", `topic_pattern: "orders-("`), `topic_pattern: "orders-(" is no regular expression`, `topic_pattern: "orders-(" is no pattern`},
		"pattern of Java":      {with("topics: [ orders ]", `topic_pattern: "(?!test).*"`), "has what Java's patterns know and RE2 does not", "has a lookaround, which Java's patterns know"},
		"partitions wrong":     {with("topics: [ orders ]", `partitions: [ "orders" ]`), `partitions: "orders" is not of the form orders:0 or orders:0-3`, `partitions: "orders" names no partition`},
		"topics with commas":   {with("topics: [ orders ]", `topics: "orders,users"`), `topics: "orders,users" cannot be the name of a topic`, `topics: "orders,users" cannot be the name of a topic, which has up to 249 letters of a to z, digits, points, dashes and underscores; name several topics in a list`},
		"topics with blanks":   {with("[ orders ]", `[ " orders" ]`), `topics: " orders" cannot be the name of a topic`, "take the blanks out"},
		"topics, a pattern":    {with("[ orders ]", `[ "or*" ]`), `a pattern belongs into topic_pattern`, "a pattern belongs into topic_pattern"},
		"topic too long":       {with("[ orders ]", "[ "+strings.Repeat("a", 250)+" ]"), "cannot be the name of a topic", "cannot be the name of a topic"},
		"partitions, no name":  {with("topics: [ orders ]", `partitions: [ "or/ders:0" ]`), "", `partitions: "or/ders" cannot be the name of a topic`},
		"classes in classes":   {with("topics: [ orders ]", `topic_pattern: "[a-z[0-9]]+"`), "has a character class within another", "has a character class within another"},
		"classes intersected":  {with("topics: [ orders ]", `topic_pattern: "[a-z&&[^o]]+"`), "an intersection of classes (&&)", "an intersection of classes (&&)"},
		"partitions none":      {with("topics: [ orders ]", `partitions: []`), "topics names no topic", "no topic given"},
		"no servers":           {with(`bootstrap_servers: [ "localhost:9092" ]`+"\n", ""), "field bootstrap_servers is required", "bootstrap_servers"},
		"no port":              {with("localhost:9092", "localhost"), `bootstrap_servers: "localhost" has no port; write host:port, such as localhost:9092`, `"localhost" has no port`},
		"group-offsets without a group": {with("group_id: g\n", ""),
			"startup.mode is group-offsets (the default), which needs group_id", "needs group_id"},
		"reset without effect":                {with("", "startup: { mode: earliest-offset, offset_reset: latest }"), "startup.offset_reset has no effect with startup.mode: earliest-offset and checkpoints", ""},
		"specific offsets of others":          {with("topics: [ orders ]", "partitions: [ \"orders:0-1\" ]\nstartup: { mode: specific-offsets, specific_offsets: { orders: { 0: 1, 2: 4 }, users: { 0: 1 } } }"), "", "startup.specific_offsets: users: it is not one of the topics that are read"},
		"specific offsets, other partitions":  {with("topics: [ orders ]", "partitions: [ \"orders:0-1\" ]\nstartup: { mode: specific-offsets, specific_offsets: { orders: { 0: 1, 2: 4 } } }"), "", "startup.specific_offsets: orders 2: not among what is read"},
		"specific offsets beside a pattern":   {with("topics: [ orders ]", "topic_pattern: order.*\nbounded: { mode: specific-offsets, specific_offsets: { users: { 2: 4 } } }"), "", "bounded.specific_offsets: users 2: not among what is read"},
		"specific offset too large":           {with("", `startup: { mode: specific-offsets, specific_offsets: "partition:0,offset:9223372036854775808" }`), "", `"9223372036854775808" is not an offset, of which the largest is 9223372036854775807`},
		"specific offset null":                {with("", `startup: { mode: specific-offsets, specific_offsets: { 0: null } }`), "", "orders: partition 0: null is not an offset; write a whole number up to 9223372036854775807"},
		"specific offsets, a topic's":         {with("", `startup: { mode: specific-offsets, specific_offsets: { orders: 4 } }`), "", `orders: "orders" is not the number of a partition; write { orders: { 0: 42 } }`},
		"unknown start mode":                  {with("", "startup: { mode: earliest }"), "startup.mode: \"earliest\" is not one of earliest-offset, group-offsets, latest-offset, specific-offsets, timestamp; did you mean earliest-offset?", `startup.mode: "earliest"`},
		"unknown reset":                       {with("", "startup: { offset_reset: first }"), `"first" is not one of`, `startup.offset_reset: "first"`},
		"unknown bound":                       {with("", "bounded: { mode: now }"), `"now" is not one of`, ""},
		"timestamp missing":                   {with("", "startup: { mode: timestamp }"), "startup.mode is timestamp, which needs startup.timestamp", "startup.timestamp: required with startup.mode: timestamp"},
		"timestamp without its mode":          {with("", "startup: { timestamp: 5 }"), "startup.timestamp has no effect with startup.mode: group-offsets; set startup.mode to timestamp", "startup.timestamp: it has no effect without startup.mode: timestamp"},
		"timestamp a list":                    {with("", "startup: { mode: timestamp, timestamp: [ 5 ] }"), "startup.timestamp: \"[5]\" is no point in time", "startup.timestamp: [5] is neither text nor a number"},
		"timestamp in words":                  {with("", "startup: { mode: timestamp, timestamp: yesterday }"), "is no point in time; write RFC 3339", `startup.timestamp: "yesterday" is no point in time`},
		"timestamp in seconds":                {with("", "startup: { mode: timestamp, timestamp: 1767225600 }"), "startup.timestamp: 1767225600 looks like seconds", "startup.timestamp: 1767225600 looks like seconds"},
		"timestamp in microseconds":           {with("", "startup: { mode: timestamp, timestamp: 1767225600000000 }"), "startup.timestamp: 1767225600000000 looks like micro- or nanoseconds", "startup.timestamp: 1767225600000000 looks like"},
		"timestamp negative":                  {with("", "startup: { mode: timestamp, timestamp: -1 }"), "startup.timestamp: -1 is before 1970; write RFC 3339", "startup.timestamp: -1 is before 1970"},
		"timestamp to come":                   {with("", "startup: { mode: timestamp, timestamp: 2999-01-01T00:00:00Z }"), "is in the future", "is in the future (2999-01-01T00:00:00Z"},
		"specific offsets missing":            {with("", "startup: { mode: specific-offsets }"), "startup.mode is specific-offsets, which needs startup.specific_offsets", "startup.specific_offsets: required with"},
		"specific offsets without their mode": {with("", `startup: { specific_offsets: "partition:0,offset:1" }`), "startup.specific_offsets has no effect with startup.mode: group-offsets", "startup.specific_offsets: it has no effect without"},
		"specific offsets with a blank":       {with("", `startup: { mode: specific-offsets, specific_offsets: "partition:0, offset:1" }`), "is not of the form partition:0,offset:42;partition:1,offset:300, without blanks", "there is a blank"},
		"specific offsets a number":           {with("", `startup: { mode: specific-offsets, specific_offsets: 42 }`), "startup.specific_offsets: 42 is neither a string", "startup.specific_offsets: 42 is neither a string"},
		"specific offsets, two topics":        {with("[ orders ]", "[ orders, users ]\nstartup: { mode: specific-offsets, specific_offsets: \"partition:0,offset:1\" }"), "has to read exactly one by its name", "has to read exactly one by its name"},
		"specific offset negative, as text":   {with("", `startup: { mode: specific-offsets, specific_offsets: "partition:0,offset:1;partition:1,offset:-7" }`), "an offset is negative; an offset is 0 or more, or a marker", "orders-1 has the offset -7"},
		"specific offsets empty":              {with("", `startup: { mode: specific-offsets, specific_offsets: {} }`), "startup.specific_offsets is empty; name at least one", "startup.specific_offsets: it is empty"},
		"specific offset negative":            {with("", `startup: { mode: specific-offsets, specific_offsets: { "0": -7 } }`), "startup.specific_offsets: -7 is not an offset", "orders-0 has the offset -7"},
		"bound at a timestamp, missing":       {with("", "bounded: { mode: timestamp }"), "bounded.mode is timestamp, which needs bounded.timestamp", "bounded.timestamp: required with bounded.mode: timestamp"},
		"bound at a timestamp to come":        {with("", "bounded: { mode: timestamp, timestamp: 2999-01-01T00:00:00Z }"), "bounded.timestamp: 2999-01-01", "bounded.timestamp: 2999-01-01"},
		"bound at earliest":                   {with("", "bounded: { mode: specific-offsets, specific_offsets: { '0': earliest-offset } }"), "bounded.specific_offsets: nothing ends at earliest-offset", "bounded.specific_offsets: orders-0 has the offset -2, which means the earliest: nothing ends there"},
		"bound at a group, none":              {with("group_id: g", "startup: { mode: earliest-offset }\nbounded: { mode: group-offsets }"), "bounded.mode is group-offsets, which needs group_id", "bounded.mode: group-offsets needs group_id"},
		"keep running without a bound":        {with("", "bounded: { keep_running: true }"), "bounded.keep_running has no effect with bounded.mode: unbounded", "bounded.keep_running has no effect"},
		"isolation twice":                     {with("", "isolation_level: read_committed\nproperties: { isolation.level: read_uncommitted }"), "properties.isolation.level and isolation_level say different things", "isolation_level: read_committed, and properties.isolation.level is read_uncommitted"},
		"client id twice":                     {with("", "client_id_prefix: a\nproperties: { client.id: b }"), "properties.client.id and client_id_prefix say different things", `client_id_prefix: "a", and properties.client.id is "b"`},
		"rack twice":                          {with("", "rack: a\nproperties: { client.rack: b }"), "properties.client.rack and rack say different things", `rack: "a", and properties.client.rack is "b"`},
		"unknown isolation":                   {with("", "isolation_level: dirty"), `"dirty" is not one of`, `isolation_level: "dirty"`},
		"unknown metadata":                    {with("", "metadata: [ topic, colour ]"), `metadata: "colour" is not one of topic, partition`, `metadata: "colour"`},
		"metadata twice":                      {with("", "metadata: [ topic, topic ]"), "metadata lists an item twice", ""},
		"index too high":                      {with("", "parallelism: 2\nindex: 2"), "index: 2 is not from 0 to parallelism - 1 = 1", "index: 2 is not from 0 to parallelism - 1 = 1"},
		"parallelism beyond counting":         {with("", "parallelism: 99999999999"), "parallelism: 99999999999 is more than 2147483647", "parallelism: 99999999999 is more than 2147483647"},
		"parallelism zero":                    {with("", "parallelism: 0"), "parallelism: 0 is less than 1", "parallelism: 0 is less than 1"},
		"no interval":                         {with("interval: 5s, ", ""), "checkpoint.store has no effect without checkpoint.interval", `checkpoint.store: "state" has no effect without checkpoint.interval`},
		"more without interval":               {with("interval: 5s, store: state", "mode: at-least-once, max_concurrent: 2"), "checkpoint.max_concurrent, checkpoint.mode have no effect without checkpoint.interval", ""},
		"anew without interval":               {solo("startup: { ignore_missing_state: true }"), "startup.ignore_missing_state has no effect without checkpoint.interval", ""},
		"checkpoint commits without interval": {solo("commit_offsets_on_checkpoint: false"), "commit_offsets_on_checkpoint has no effect without checkpoint.interval", ""},
		"auto commit with checkpoints":        {with("", "auto_commit: { enabled: false }"), "auto_commit and checkpoint.interval contradict each other", "auto_commit: it contradicts checkpoint.interval"},
		"auto commit interval, checkpoints":   {with("", "auto_commit: { interval: 1s }"), "auto_commit and checkpoint.interval contradict each other", "auto_commit: it contradicts checkpoint.interval"},
		"auto commit without a group":         {nobody("auto_commit: { enabled: true }"), "auto_commit.enabled is true, and there is no group_id", "auto_commit: there is no group_id"},
		"a check of no group":                 {nobody("check_duplicated_group_id: true"), "check_duplicated_group_id has no effect without group_id", "check_duplicated_group_id: it has no effect without group_id"},
		"auto commit interval, no group":      {nobody("auto_commit: { interval: 1s }"), "auto_commit.interval has no effect without group_id", "auto_commit: there is no group_id"},
		"auto commit off, interval":           {solo("auto_commit: { enabled: false, interval: 1s }"), "auto_commit.interval has no effect with auto_commit.enabled: false", ""},
		"auto commit in words":                {solo("auto_commit: { enabled: often }"), `auto_commit.enabled: "often" is neither true nor false`, "auto_commit.enabled: often is neither"},
		"auto commit interval in words":       {solo("auto_commit: { interval: often }"), `auto_commit.interval: "often" is not a duration`, `auto_commit.interval: "often"`},
		"auto commit interval zero":           {solo("auto_commit: { interval: 0s }"), "auto_commit.interval: 0s is less than 10ms", "0s is less than 10ms"},
		"interval, no store":                  {with(", store: state", ""), "checkpoint.store is required", "checkpoint.store: required"},
		"interval in words":                   {with("5s", "soon"), `checkpoint.interval: "soon" is not a duration, such as 500ms, 5s or 10m`, `checkpoint.interval: "soon" is not a duration`},
		"interval, no unit":                   {with("5s", "5"), `checkpoint.interval: "5" is not a duration`, `checkpoint.interval: "5" is not a duration`},
		"interval a list":                     {with("5s", "[ 5s ]"), "expected string value", ""},
		"interval too short":                  {with("5s", "1ms"), "checkpoint.interval: 1ms is less than 10ms", "1ms is less than 10ms"},
		"interval negative":                   {with("5s", "-5s"), "checkpoint.interval: -5s is less than 10ms", "-5s is less than 10ms"},
		"timeout in words":                    {checkpointed("timeout: never"), `checkpoint.timeout: "never" is not a duration`, `checkpoint.timeout: "never"`},
		"timeout zero":                        {checkpointed("timeout: 0s"), "checkpoint.timeout: 0s is less than 10ms", "0s is less than 10ms"},
		"min_pause negative":                  {checkpointed("min_pause: -1s"), "checkpoint.min_pause: -1s is less than 0s", "-1s is less than 0s"},
		"pause and concurrent":                {checkpointed("min_pause: 1s, max_concurrent: 2"), "checkpoint.min_pause and checkpoint.max_concurrent above 1 contradict", "checkpoint.min_pause: it means one checkpoint at a time"},
		"concurrent in words":                 {checkpointed("max_concurrent: two"), `checkpoint.max_concurrent: "two" is not a whole number`, "checkpoint.max_concurrent: two is not a whole number"},
		"concurrent zero":                     {checkpointed("max_concurrent: 0"), "checkpoint.max_concurrent: 0 is less than 1", "0 is less than 1"},
		"concurrent fraction":                 {checkpointed("max_concurrent: 1.5"), `checkpoint.max_concurrent: "1.5" is not a whole number`, ""},
		"tolerable negative":                  {checkpointed("tolerable_failures: -1"), "checkpoint.tolerable_failures: -1 is less than 0", "-1 is less than 0"},
		"retained zero":                       {checkpointed("retained: 0"), "checkpoint.retained: 0 is less than 1", "0 is less than 1"},
		"restarts too low":                    {checkpointed("max_restarts: -2"), "checkpoint.max_restarts: -2 is less than -1", "-2 is less than -1"},
		"unknown mode":                        {checkpointed("mode: maybe-once"), `"maybe-once" is not one of`, `checkpoint.mode: "maybe-once"`},
		"unknown on_stop":                     {checkpointed("on_stop: forget"), `"forget" is not one of`, `checkpoint.on_stop: "forget"`},
		"unknown policy":                      {checkpointed("on_restore_out_of_range: latest"), `"latest" is not one of`, ""},
		"restored in words":                   {checkpointed("allow_non_restored_state: perhaps"), `checkpoint.allow_non_restored_state: "perhaps" is neither true nor false`, "checkpoint.allow_non_restored_state: perhaps is neither"},
		"commit in words":                     {with("", "commit_offsets_on_checkpoint: never"), `commit_offsets_on_checkpoint: "never" is neither true nor false`, "commit_offsets_on_checkpoint: never is neither"},
		"discovery in words":                  {with("", "discovery_interval: never"), `discovery_interval: "never" is not a duration, such as 30s or 5m; 0s turns`, `discovery_interval: "never" is not a duration`},
		"discovery without a unit":            {with("", "discovery_interval: -1"), `discovery_interval: "-1" is not a duration`, `discovery_interval: "-1" is not a duration`},
		"discovery too often":                 {with("", "discovery_interval: 99ms"), "discovery_interval: 99ms is less than 100ms, the least there is but for 0s", "99ms is less than 100ms, the least there is but for 0s"},
		"unknown in checkpoint":               {checkpointed("intervall: 5s"), "field intervall not recognised", ""},
	} {
		t.Run(name, func(t *testing.T) {
			lints := lint(t, tc.yaml)
			if tc.lint == "" { // the lint cannot tell
				require.Empty(t, lints)
			} else {
				require.Len(t, lints, 1, "one lint for one fault: %q", lints)
				require.Contains(t, lints[0], tc.lint)
			}
			if tc.err != "" {
				_, err := parse(t, tc.yaml)
				require.ErrorContains(t, err, tc.err)
			}
		})
	}
}

// A wrong value of one field does not hide what is wrong elsewhere.
func TestLintsOfSeveralFaultsComeTogether(t *testing.T) {
	yaml := `
bootstrap_servers: [ nowhere ]
topics: []
checkpoint: { interval: soon, max_concurrent: two }
commit_offsets_on_checkpoint: 7
`
	require.Equal(t, []string{
		`bootstrap_servers: "nowhere" has no port; write host:port, such as nowhere:9092`,
		`checkpoint.interval: "soon" is not a duration, such as 500ms, 5s or 10m`,
		`checkpoint.max_concurrent: "two" is not a whole number`,
		`checkpoint.store is required: the label of the cache that keeps the checkpoints, one of pebble, checkpoint_file or checkpoint_memory`,
		`commit_offsets_on_checkpoint: "7" is neither true nor false`,
		`startup.mode is group-offsets (the default), which needs group_id; set group_id, or startup.mode to earliest-offset or latest-offset`,
		`topics names no topic`,
	}, lint(t, yaml))
	_, err := parse(t, yaml)
	for _, part := range []string{"nowhere", "checkpoint.interval", "checkpoint.max_concurrent", "checkpoint.store", "commit_offsets_on_checkpoint"} {
		require.ErrorContains(t, err, part)
	}
}

func TestDefaultsAreFlinks(t *testing.T) {
	require.Empty(t, lint(t, minimal))
	c, err := parse(t, minimal)
	require.NoError(t, err)
	require.Equal(t, &checkpoint.Config{
		Interval: 5 * time.Second, Timeout: 10 * time.Minute, MaxConcurrent: 1, MaxRestarts: -1,
	}, c.checkpoint)
	require.Equal(t, "state", c.store)
	require.Equal(t, 2, c.retained)
	require.Equal(t, []string{"topic", "partition", "offset", "timestamp", "key", "headers"}, c.metadata)
	require.Equal(t, offsets.Start{Mode: offsets.GroupStart, Group: "g", Reset: offsets.ResetNone}, c.reader.Start)
	require.Equal(t, offsets.Unbounded, c.reader.Stop.Mode)
	require.Equal(t, 5*time.Minute, c.reader.DiscoveryInterval)
	require.Equal(t, offsets.FailOutOfRange, c.reader.Restore.Policy)
	require.False(t, c.reader.ReadCommitted)
	require.True(t, c.reader.CommitOffsets)
}

func TestWithoutCheckpointsPositionsAreCommittedOnATimer(t *testing.T) {
	const base = "bootstrap_servers: [ \"localhost:9092\" ]\ntopics: [ orders ]\n"
	const group = base + "group_id: g\n"
	for name, tc := range map[string]struct {
		yaml string
		want time.Duration
	}{
		"by default":           {group, 5 * time.Second},
		"interval of its own":  {group + "auto_commit: { interval: 250ms }", 250 * time.Millisecond},
		"switched on":          {group + "auto_commit: { enabled: true }", 5 * time.Second},
		"switched off":         {group + "auto_commit: { enabled: false }", 0},
		"off, without a group": {base + "startup: { mode: earliest-offset }\nauto_commit: { enabled: false }", 0},
		"checkpoint, empty":    {group + "checkpoint: {}", 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, lint(t, tc.yaml))
			c, err := parse(t, tc.yaml)
			require.NoError(t, err)
			require.Nil(t, c.checkpoint)
			require.Equal(t, tc.want, c.reader.AutoCommit)
		})
	}
}

// By Flink any interval that is not positive turns discovery off.
func TestDiscoveryIsTurnedOffByAnyIntervalThatIsNotPositive(t *testing.T) {
	for text, want := range map[string]time.Duration{"0s": 0, "0": 0, "-1ms": -time.Millisecond, "100ms": 100 * time.Millisecond} {
		yaml := minimal + "discovery_interval: " + text
		require.Empty(t, lint(t, yaml), text)
		c, err := parse(t, yaml)
		require.NoError(t, err, text)
		require.Equal(t, want, c.reader.DiscoveryInterval)
	}
}

func TestEveryFieldReachesTheConfig(t *testing.T) {
	yaml := `
bootstrap_servers: "a:1, b:2"
topics: [ orders, users ]
group_id: g
client_id_prefix: mine
rack: zone-1
check_duplicated_group_id: true
startup: { mode: Group-Offsets, offset_reset: latest, ignore_missing_state: true }
bounded: { mode: latest-offset }
discovery_interval: 30s
isolation_level: read_committed
metadata: [ key, leader_epoch ]
commit_offsets_on_checkpoint: false
checkpoint:
  interval: 1s
  mode: at-least-once
  min_pause: 2s
  timeout: 3s
  max_concurrent: 1
  tolerable_failures: 4
  retained: 5
  on_stop: delete
  store: state
  max_restarts: 6
  allow_non_restored_state: true
  on_restore_out_of_range: earliest
`
	require.Empty(t, lint(t, yaml))
	c, err := parse(t, yaml)
	require.NoError(t, err)
	require.Equal(t, &checkpoint.Config{
		Interval: time.Second, MinPause: 2 * time.Second, Timeout: 3 * time.Second, MaxConcurrent: 1, TolerableFailures: 4,
		MaxRestarts: 6, AllowNonRestored: true, DeleteOnStop: true, IgnoreMissingState: true, AtLeastOnce: true,
	}, c.checkpoint)
	require.Equal(t, 5, c.retained)
	require.Equal(t, []string{"key", "leader_epoch"}, c.metadata)
	require.Equal(t, []string{"a:1", "b:2"}, c.reader.Connection.BootstrapServers)
	require.Equal(t, "mine", c.reader.Connection.ClientID)
	require.Equal(t, "zone-1", c.reader.Rack)
	require.Equal(t, []string{"orders", "users"}, c.reader.Subscription.Topics)
	require.Equal(t, offsets.Start{Mode: offsets.GroupStart, Group: "g", Reset: offsets.ResetLatest}, c.reader.Start)
	require.Equal(t, offsets.LatestStop, c.reader.Stop.Mode)
	require.Equal(t, 30*time.Second, c.reader.DiscoveryInterval)
	require.Equal(t, offsets.EarliestOutOfRange, c.reader.Restore.Policy)
	require.True(t, c.reader.ReadCommitted)
	require.False(t, c.reader.CommitOffsets)
	require.True(t, c.reader.CheckGroup)
	require.Equal(t, time.Second, c.reader.CheckpointInterval)
}

func TestSubscriptionReachesTheConfig(t *testing.T) {
	with := func(subscription string) string {
		return strings.Replace(minimal, "topics: [ orders ]", subscription, 1)
	}
	for yaml, want := range map[string]splits.Subscription{
		`topics: orders`:                 {Topics: []string{"orders"}},
		`topics: "orders; users ;"`:      {Topics: []string{"orders", "users"}},
		`topics: [ orders, users ]`:      {Topics: []string{"orders", "users"}},
		`partitions: [ "a:1-2", "b:0" ]`: {Partitions: []splits.Partition{{Topic: "a", Partition: 1}, {Topic: "a", Partition: 2}, {Topic: "b"}}},
	} {
		require.Empty(t, lint(t, with(yaml)), yaml)
		c, err := parse(t, with(yaml))
		require.NoError(t, err, yaml)
		require.Equal(t, want, c.reader.Subscription, yaml)
	}
	yaml := with("topic_pattern: orders-[0-9]+")
	require.Empty(t, lint(t, yaml))
	c, err := parse(t, yaml)
	require.NoError(t, err)
	require.True(t, c.reader.Subscription.Covers(splits.Partition{Topic: "orders-12"}))
	require.False(t, c.reader.Subscription.Covers(splits.Partition{Topic: "my-orders-12"}))

	// The string of specific offsets belongs to the one topic that is named.
	for yaml, fits := range map[string]bool{
		`topics: "orders;"`: true, `partitions: [ "orders:0", "orders:1" ]`: true,
		`topics: "orders;users"`: false, `topic_pattern: orders`: false, `partitions: [ "orders:0", "users:1" ]`: false,
	} {
		yaml = with(yaml) + `startup: { mode: specific-offsets, specific_offsets: "partition:0,offset:1" }`
		_, err := parse(t, yaml)
		require.Equal(t, fits, err == nil, yaml)
		require.Equal(t, fits, len(lint(t, yaml)) == 0, yaml)
	}
}

func TestStartAndStopInitialisersReachTheConfig(t *testing.T) {
	at := func(partition int32) splits.Partition { return splits.Partition{Topic: "orders", Partition: partition} }
	for name, tc := range map[string]struct {
		yaml  string
		start offsets.Start
		stop  offsets.Stop
	}{
		"timestamps": {
			"startup: { mode: timestamp, timestamp: 2026-01-01T00:00:00Z }\nbounded: { mode: timestamp, timestamp: 1767225600001 }",
			offsets.Start{Mode: offsets.TimestampStart, Group: "g", Reset: offsets.ResetNone, TimestampMS: 1767225600000},
			offsets.Stop{Mode: offsets.TimestampStop, Group: "g", TimestampMS: 1767225600001},
		},
		"quoted timestamp": {
			`startup: { mode: timestamp, timestamp: "1767225600000" }`,
			offsets.Start{Mode: offsets.TimestampStart, Group: "g", Reset: offsets.ResetNone, TimestampMS: 1767225600000},
			offsets.Stop{Mode: offsets.Unbounded, Group: "g"},
		},
		"offsets as in Flink, by default what is not listed begins at its first record": {
			`startup: { mode: specific-offsets, specific_offsets: "partition:0,offset:42;partition:1,offset:-3" }`,
			offsets.Start{Mode: offsets.SpecificStart, Group: "g", Reset: offsets.ResetEarliest,
				Offsets: offsets.Specific{at(0): 42, at(1): offsets.MarkCommitted}},
			offsets.Stop{Mode: offsets.Unbounded, Group: "g"},
		},
		"offsets as maps": {
			"startup: { mode: specific-offsets, offset_reset: none, specific_offsets: { 0: 42, 1: earliest-offset } }\n" +
				"bounded: { mode: specific-offsets, keep_running: true, specific_offsets: { orders: { 0: 50, 1: latest-offset } } }",
			offsets.Start{Mode: offsets.SpecificStart, Group: "g", Reset: offsets.ResetNone,
				Offsets: offsets.Specific{at(0): 42, at(1): offsets.MarkEarliest}},
			offsets.Stop{Mode: offsets.SpecificStop, Group: "g", KeepRunning: true,
				Offsets: offsets.Specific{at(0): 50, at(1): offsets.MarkLatest}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, lint(t, minimal+tc.yaml))
			c, err := parse(t, minimal+tc.yaml)
			require.NoError(t, err)
			require.Equal(t, tc.start, c.reader.Start)
			require.Equal(t, tc.stop, c.reader.Stop)
		})
	}
	before := time.Now().UnixMilli()
	c, err := parse(t, minimal+"startup: { mode: timestamp, timestamp: -30m }")
	require.NoError(t, err)
	require.InDelta(t, before-30*60_000, c.reader.Start.TimestampMS, 60_000)
	require.Empty(t, lint(t, minimal+"startup: { mode: timestamp, timestamp: -30m }"))
}

func TestMisspeltTopicsAreNotMissedAsWell(t *testing.T) {
	require.Equal(t, []string{"field topicz not recognised"}, lint(t, strings.Replace(minimal, "topics:", "topicz:", 1)))
}

func TestPropertiesReachTheConfig(t *testing.T) {
	yaml := minimal + "properties: { isolation.level: read_committed, client.id: me, max.poll.records: 7, client.rack: zone-2 }"
	require.Empty(t, lint(t, yaml))
	c, err := parse(t, yaml)
	require.NoError(t, err)
	require.True(t, c.reader.ReadCommitted)
	require.Equal(t, 7, c.reader.MaxBatch)
	require.Equal(t, "me", c.reader.Connection.ClientID)
	require.Equal(t, "zone-2", c.reader.Rack)
	require.Empty(t, lint(t, yaml+"\nrack: zone-2"), "the same twice")
	_, err = parse(t, yaml+"\nrack: zone-2")
	require.NoError(t, err)
}

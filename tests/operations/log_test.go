package operations

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSummaryNamesWhatRunsAndFromWhere: one line at the start.
func TestSummaryNamesWhatRunsAndFromWhere(t *testing.T) {
	t.Parallel()
	b := brokers(t, 0)
	j := run(t, b.Addrs()[0], "in", "out", pipeline)
	j.becomes(http.StatusOK)
	summary := j.lines("sources and sinks are running")
	require.Len(t, summary, 1)
	for _, part := range []string{
		`version="Tidegate `, `inputs="input: 2 partitions of in (earliest: 2), read_committed, group job"`,
		`outputs="output: exactly-once to out, transactional ids job-0-0 to job-0-4"`, `restored=nothing`, `interval=200ms`,
		`mode=exactly-once`, `store="pebble cache`, `attempt=1`,
	} {
		require.Contains(t, summary[0], part)
	}
	require.Empty(t, j.lines("level=warn"), j.text())
	require.Empty(t, j.lines("level=error"), j.text())
}

// TestWeakSinkBehindExactlyOnceCheckpointsIsWarnedOfOnce: the combination promises less than checkpoint.mode says.
func TestWeakSinkBehindExactlyOnceCheckpointsIsWarnedOfOnce(t *testing.T) {
	t.Parallel()
	b := brokers(t, 0)
	weak := strings.Replace(pipeline, "    delivery_guarantee: exactly-once\n    transactional_id_prefix: job\n", "", 1)
	j := run(t, b.Addrs()[0], "in", "out", weak)
	j.becomes(http.StatusOK)
	warned := j.lines("level=warn")
	require.Len(t, warned, 1, j.text())
	require.Contains(t, warned[0], "is there twice")
	require.Contains(t, warned[0], "delivery_guarantee=at-least-once")
}

// outage is for how long the brokers of TestOutageSaysFewLines are away. Lines are held back for 30 s at first, so a longer
// one adds few: `TestWhatGoesOnIsSaidLessAndLessOftenWithTheNumberHeldBack` of internal/repeats has ten minutes.
const outage = 10 * time.Second

// TestOutageSaysFewLines kills three brokers under a job that runs: each of its ten clients dials each of them several
// times a second.
func TestOutageSaysFewLines(t *testing.T) {
	t.Parallel()
	ports := []int{freePort(t), freePort(t), freePort(t)}
	b := brokers(t, ports...)
	j := run(t, strings.Join(b.Addrs(), ","), "in", "out", pipeline)
	feed(t, b.Addrs(), 1000)
	j.becomes(http.StatusOK)
	j.eventually("something is committed", func() bool { return j.metric("checkpoint_committed") > 0 })
	before := len(j.lines("level="))
	b.Close()
	<-time.After(outage)
	require.False(t, j.Ended(), j.text())
	said := len(j.lines("level=")) - before
	require.Positive(t, said, "an outage is no secret")
	require.LessOrEqual(t, said, 30, j.text())
}

// TestRestartsThatRepeatSayFewLines: a message that is refused again and again.
func TestRestartsThatRepeatSayFewLines(t *testing.T) {
	t.Parallel()
	b := brokers(t, 0)
	j := run(t, b.Addrs()[0], "in", "out", "input:"+strings.SplitAfterN(pipeline, "input:", 2)[1][:strings.Index(pipeline, "output:")-len("input:")]+
		"output:\n  reject: not today\n")
	feed(t, b.Addrs(), 10)
	j.eventually("three restarts", func() bool { return j.metric("checkpoint_failovers") >= 3 })
	require.Len(t, j.lines("restarting from the last checkpoint"), 1, j.text())
	require.LessOrEqual(t, len(j.lines("component=checkpoint")), 4, j.text())
}

package prometheus

import (
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func served(t *testing.T, e *exporter) string {
	t.Helper()
	w := httptest.NewRecorder()
	e.HandlerFunc()(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	require.Equal(t, http.StatusOK, w.Code)
	return w.Body.String()
}

func TestCountersGaugesAndTimersAreServed(t *testing.T) {
	e := newExporter(nil)
	c := e.NewCounterCtor("sent", "topic")
	c("a").Incr(2)
	c("a").Incr(0)
	c("b").Incr(1)
	e.NewGaugeCtor("lag")().Set(7)
	e.NewTimerCtor("took_ns")().Timing(2e6)
	text := served(t, e)
	for _, line := range []string{
		`# TYPE sent counter`, `sent{topic="a"} 2`, `sent{topic="b"} 1`, `# TYPE lag gauge`, `lag 7`,
		`# TYPE took_ns histogram`, `took_ns_bucket{le="1e+06"} 0`, `took_ns_bucket{le="5e+06"} 1`, `took_ns_sum 2e+06`,
	} {
		require.Contains(t, text, line+"\n")
	}
}

func TestGaugeThatIsForgottenIsNotServedUntilItComesAgain(t *testing.T) {
	e := newExporter(nil)
	g := e.NewGaugeCtor("lag", "partition")
	g("0").Set(1)
	g("1").Set(1)
	g("1").(interface{ SetFloat64(float64) }).SetFloat64(math.Copysign(0, -1))
	require.Contains(t, served(t, e), `lag{partition="0"} 1`)
	require.NotContains(t, served(t, e), `partition="1"`)
	g("1").Set(5)
	require.Contains(t, served(t, e), `lag{partition="1"} 5`)
}

func TestCounterThatIsForgottenIsNotServedUntilItComesAgain(t *testing.T) {
	e := newExporter(nil)
	c := e.NewCounterCtor("sent", "topic")
	c("a").Incr(2)
	c("b").Incr(2)
	c("b").(interface{ IncrFloat64(float64) }).IncrFloat64(math.Copysign(0, -1))
	require.Contains(t, served(t, e), `sent{topic="a"} 2`)
	require.NotContains(t, served(t, e), `topic="b"`)
	c("b").Incr(1)
	require.Contains(t, served(t, e), `sent{topic="b"} 1`)
}

func TestNameWithOtherLabelsOrTypeIsLeftOut(t *testing.T) {
	e := newExporter(nil)
	e.NewCounterCtor("n", "a")("x").Incr(1)
	e.NewCounterCtor("n", "b")("y").Incr(1)
	e.NewGaugeCtor("n", "a")("z").Set(1)
	e.NewTimerCtor("no name")().Timing(1)
	require.Equal(t, "# HELP n \n# TYPE n counter\nn{a=\"x\"} 1\n", served(t, e))
}

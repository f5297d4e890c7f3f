package conformance

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	namedTest = regexp.MustCompile("`Test[A-Z]\\w*`")
	namedIDs  = regexp.MustCompile("`TestConformance` \\(([^)]*)\\)")
)

// TestMappingNamesATestForWhatIsTheSame reads docs/flink-mapping.md: each row says same and names a test, differs and
// why, or not yet. That the tests exist is checked in tests/arch.
func TestMappingNamesATestForWhatIsTheSame(t *testing.T) {
	page, err := os.ReadFile("../../docs/flink-mapping.md")
	require.NoError(t, err)
	rows, ids := 0, tested()
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.TrimSpace(cells[0]) == "Flink" {
			continue
		}
		rows++
		verdict := strings.TrimSpace(cells[len(cells)-1])
		switch {
		case strings.HasPrefix(verdict, "same: "):
			require.Regexp(t, namedTest, verdict, line)
		case strings.HasPrefix(verdict, "differs: "), strings.HasPrefix(verdict, "not yet"), strings.HasPrefix(verdict, "does not apply: "):
		default:
			t.Errorf("neither same, differs, not yet nor does not apply: %s", line)
		}
		for _, m := range namedIDs.FindAllStringSubmatch(verdict, -1) {
			for id := range strings.SplitSeq(m[1], ", ") {
				require.True(t, ids[id], "%s is not tested: %s", id, line)
			}
		}
	}
	require.Greater(t, rows, 80)
}

package leak

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// witness is a test that notes its errors.
type witness struct {
	testing.TB
	errors []string
}

func (w *witness) Helper() {}
func (w *witness) Errorf(format string, args ...any) {
	w.errors = append(w.errors, fmt.Sprintf(format, args...))
}

func TestWhatIsLeftBehindEachTimeIsFound(t *testing.T) {
	end := make(chan struct{})
	defer close(end)
	w := &witness{TB: t}
	defer func(d time.Duration) { patience = d }(patience)
	patience = 100 * time.Millisecond
	Repeat(w, 30, func(int) { go func() { <-end }() })
	require.Len(t, w.errors, 1)
	require.True(t, strings.HasPrefix(w.errors[0], "after 30 times there are "), w.errors[0])
	require.Contains(t, w.errors[0], "TestWhatIsLeftBehind", "the stack tells where")

	w = &witness{TB: t}
	Repeat(w, 30, func(int) {
		file, err := os.Open(os.DevNull)
		require.NoError(t, err)
		t.Cleanup(func() { _ = file.Close() })
	})
	if count().files > 0 {
		require.Len(t, w.errors, 1)
		require.Contains(t, w.errors[0], "files are open")
	}
}

func TestWhatEndsInTheBackgroundIsNoLeak(t *testing.T) {
	w := &witness{TB: t}
	Repeat(w, 30, func(int) {
		done := make(chan struct{})
		go func() { defer close(done) }()
	})
	require.Empty(t, w.errors)
}

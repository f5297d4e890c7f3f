package crash

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lifeOf are the pulses of a process whose goroutines are as told.
func lifeOf(goroutines func(i int) int) (pulses []pulse) {
	for i := range 100 {
		pulses = append(pulses, pulse{at: time.Duration(i) * time.Second, rss: 80 * mb, files: 30, connections: 9, goroutines: goroutines(i)})
	}
	return pulses
}

func TestWhatGrowsIsNotFlat(t *testing.T) {
	for name, tc := range map[string]struct {
		goroutines func(i int) int
		rising     []string
	}{
		"one that stays":               {func(int) int { return 50 }, nil},
		"one that warms up":            {func(i int) int { return min(500, 10*i+300) }, nil},
		"a peak in the middle":         {func(i int) int { return 50 + 400*(i/50%2)*(1-i/60) }, nil},
		"one more in each two seconds": {func(i int) int { return 50 + i/2 }, []string{"x: goroutines rose from 65.0 to 97.0, and 89.0 is the limit"}},
	} {
		t.Run(name, func(t *testing.T) {
			table, rising := judgeFlat("x", lifeOf(tc.goroutines), false)
			require.Equal(t, tc.rising, rising, table)
		})
	}
	_, rising := judgeFlat("x", lifeOf(func(int) int { return 1 })[:5], false)
	require.Contains(t, rising[0], "only 5 pulses")
}

func TestPulseCountsWhatAProcessHolds(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells in /proc what a process holds")
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), make([]byte, 1000), 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	w := patientOf{state: dir, brokers: map[int]bool{l.Addr().(*net.TCPAddr).Port: true}}
	before, err := w.take(os.Getpid())
	require.NoError(t, err)
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	now, err := w.take(os.Getpid())
	require.NoError(t, err)
	require.EqualValues(t, 1000, now.state)
	require.Greater(t, now.rss, int64(mb))
	require.GreaterOrEqual(t, now.peak, now.rss)
	require.Equal(t, 1, now.connections, "the other end is not one to a broker")
	require.GreaterOrEqual(t, now.files, before.files+1)
}

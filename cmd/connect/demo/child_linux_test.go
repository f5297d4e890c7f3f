package demo

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPipelineDiesWithTheDemo(t *testing.T) {
	command := fakeCommand(t, "parent")
	parent := exec.Command(command[0])
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, 0), "the pipeline runs")

	require.NoError(t, parent.Process.Kill())
	require.Error(t, parent.Wait())
	// Nobody of ours waits for the orphan, so it may stay as a zombie where the machine's init does not either.
	require.Eventually(t, func() bool { return gone(t, pid) }, 10*time.Second, 10*time.Millisecond)
}

// gone tells whether a process has ended.
func gone(t *testing.T, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return true
	}
	require.NoError(t, err)
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}

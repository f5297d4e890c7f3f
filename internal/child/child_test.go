package child

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// roleEnv makes the test binary be a child, or one that has a child.
const roleEnv = "TIDEGATE_TEST_CHILD_ROLE"

func TestMain(m *testing.M) {
	switch role, file, _ := strings.Cut(os.Getenv(roleEnv), ":"); role {
	case "sleeper": // holds its standard input open for as long as it lives
		fmt.Println("here")
		select {}
	case "parent": // starts a sleeper that holds the pipe given as our standard input
		cmd := self("sleeper")
		cmd.Stdin = os.Stdin
		if _, err := Start(cmd, file); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("started")
		select {}
	}
	os.Exit(m.Run())
}

func self(role string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	return cmd
}

func TestChildEndsWithAProcessThatIsKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a child that its parent has died")
	}
	// The grandchild holds the reading end of a pipe; writing to it fails once nobody does.
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = writer.Close() }()
	parent := self("parent:" + filepath.Join(t.TempDir(), "log"))
	parent.Stdin = reader
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	require.NoError(t, reader.Close())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "started\n", line)
	_, err = writer.WriteString("x")
	require.NoError(t, err, "the grandchild holds the pipe")

	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()
	// A full pipe blocks until somebody reads, or fails when there is nobody left: the loop ends by the failure alone.
	for err == nil {
		_, err = writer.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, syscall.EPIPE)
}

func TestChildIsKilledAndItsOutputIsKept(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	cmd := self("sleeper")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	defer func() { _ = in.Close() }()
	p, err := Start(cmd, log)
	require.NoError(t, err)
	require.False(t, p.Ended())
	p.Kill()
	require.True(t, p.Ended())
	var exit *exec.ExitError
	require.ErrorAs(t, p.Err(), &exit)
	p.Signal(syscall.SIGTERM) // too late, and harmless
}

func TestCommandThatIsNotThereIsAnError(t *testing.T) {
	_, err := Start(exec.Command(filepath.Join(t.TempDir(), "absent")), filepath.Join(t.TempDir(), "log"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestTailShowsTheLastLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(file, []byte("one\ntwo\nthree\n"), 0o600))
	require.Equal(t, "\n--- end of "+file+"\ntwo\nthree\n---", Tail(file, 2))
	require.Contains(t, Tail(file, 10), "\none\ntwo\nthree\n")
	require.Contains(t, Tail(file+"x", 1), "no such file")
}

func TestRunReturnsTheOutputAndTheFailure(t *testing.T) {
	cmd := exec.Command("go", "no-such-command")
	var errs strings.Builder
	cmd.Stderr = &errs
	var exit *exec.ExitError
	require.ErrorAs(t, Run(cmd), &exit)
	require.Contains(t, errs.String(), "no-such-command")
}

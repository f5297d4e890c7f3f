package main

import (
	"bufio"
	"bytes"
	"os"
	"regexp"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/devbroker"
)

func TestTopicFlags(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want []devbroker.Topic
		err  string
	}{
		{args: nil},
		{args: []string{"orders"}, want: []devbroker.Topic{{Name: "orders", Partitions: 1}}},
		{args: []string{"a:4", "b:1"}, want: []devbroker.Topic{{Name: "a", Partitions: 4}, {Name: "b", Partitions: 1}}},
		{args: []string{"a:"}, err: `--topic a:: "" is no partition count`},
		{args: []string{"a:0"}, err: `"0" is no partition count`},
		{args: []string{"a:-1"}, err: `"-1" is no partition count`},
		{args: []string{"a:x"}, err: "such as orders:4"},
		{args: []string{"a:1:2"}, err: `"1:2" is no partition count`},
		{args: []string{":4"}, err: "the name is missing"},
		{args: []string{"a:9999999999"}, err: "is no partition count"},
	} {
		got, err := parseTopics(tc.args)
		if tc.err != "" {
			require.ErrorContains(t, err, tc.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, tc.want, got)
	}
}

func TestBrokerServesItsTopicsUntilASignal(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			cmd := connect(t, "broker", "--port", "0", "--topic", "orders:4", "--topic", "clean")
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			lines := bufio.NewReader(out)
			var printed bytes.Buffer
			for !bytes.Contains(printed.Bytes(), []byte("other topics")) {
				line, err := lines.ReadBytes('\n')
				require.NoError(t, err, printed.String())
				printed.Write(line)
			}
			require.Regexp(t, `topic +orders:4\n +topic +clean:1\n`, printed.String())
			addr := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(printed.String())
			cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
			require.NoError(t, err)
			defer cl.Close()
			topics, err := kadm.NewClient(cl).ListTopics(t.Context())
			require.NoError(t, err)
			require.Len(t, topics["orders"].Partitions, 4)
			require.Len(t, topics["clean"].Partitions, 1)

			require.NoError(t, cmd.Process.Signal(signal))
			require.NoError(t, cmd.Wait(), "exit 0")
		})
	}
}

func TestBrokerSaysThatThePortIsTaken(t *testing.T) {
	b, err := devbroker.Start(devbroker.Options{})
	require.NoError(t, err)
	defer b.Close()
	port := regexp.MustCompile(`\d+$`).FindString(b.Addrs()[0])
	out, err := connect(t, "broker", "--port", port).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "port "+port+" of 127.0.0.1 is taken")
	require.NotContains(t, string(out), "panic")
}

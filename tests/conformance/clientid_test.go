package conformance

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"
)

// clientIDs: the brokers see the prefix that is given, else the group, else one that is made; and the index.
func clientIDs(j *job) {
	for _, tc := range []struct {
		group, want string
		more        m
	}{
		{"none", "given-0", m{"client_id_prefix": "given"}},
		{"none", j.world.Group("none") + "-0", m{}},
		{"", "tidegate-", m{}},
	} {
		front := newFront(j)
		source := j.source(tc.group, pair, m{"startup": fromStart, "bounded": toEnd})
		for k, v := range tc.more {
			source[k] = v
		}
		source["bootstrap_servers"] = []string{front.Addr().String()}
		j.ends(j.host.Run("S18_"+strings.Trim(strings.Map(letters, tc.want), "_"), source))
		seen := front.ids()
		require.NotEmpty(j.t, seen)
		for _, id := range seen {
			require.True(j.t, strings.HasPrefix(id, tc.want), "%q, which was to begin with %q", id, tc.want)
		}
	}
}

func letters(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
		return r
	}
	return '_'
}

// front passes connections on to the embedded broker, and notes whom the first request of each is from.
type front struct {
	net.Listener
	mu   sync.Mutex
	seen []string // guarded by mu
}

func newFront(j *job) *front {
	j.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(j.t, err)
	f := &front{Listener: listener}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { f.pass(from, j.broker.ListenAddrs()[0]) })
		}
	})
	j.t.Cleanup(func() {
		_ = listener.Close()
		wg.Wait()
	})
	return f
}

func (f *front) pass(from net.Conn, addr string) {
	defer from.Close()
	to, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer to.Close()
	// size, key, version, correlation id, length of the client id
	head := make([]byte, 4+2+2+4+2)
	if _, err := io.ReadFull(from, head); err != nil {
		return
	}
	id := make([]byte, max(0, int16(binary.BigEndian.Uint16(head[12:]))))
	if _, err := io.ReadFull(from, id); err != nil {
		return
	}
	f.mu.Lock()
	f.seen = append(f.seen, string(id))
	f.mu.Unlock()
	for _, part := range [][]byte{head, id} {
		if _, err := to.Write(part); err != nil {
			return
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(from, to)
		_ = from.Close()
	}()
	_, _ = io.Copy(to, from)
	_ = to.Close()
	<-done
}

func (f *front) ids() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string{}, f.seen...)
}

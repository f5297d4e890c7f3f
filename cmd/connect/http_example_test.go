package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/devbroker"
)

// runHTTPExample sends orders to http-to-kafka.yaml, and looks for those that were answered with 200.
func runHTTPExample(t *testing.T, file string) {
	const orders = 40
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	broker, err := devbroker.Start(devbroker.Options{Topics: []devbroker.Topic{{Name: "orders", Partitions: 4}}})
	require.NoError(t, err)
	defer broker.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	t.Setenv("BOOTSTRAP_SERVERS", broker.Addrs()[0])
	t.Setenv("LISTEN", address)
	cmd := connect(t, "run", "--set", "http.enabled=false", file)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		cancel()
	}()

	var wg sync.WaitGroup
	failed := make(chan error, orders)
	for i := range orders {
		wg.Go(func() { failed <- order(ctx, "http://"+address+"/orders", i) })
	}
	wg.Wait()
	for range orders {
		require.NoError(t, <-failed)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	require.NoError(t, <-ended, "a graceful stop; log:\n%s", &log)

	observer, err := devbroker.Observe(broker.Addrs(), "orders")
	require.NoError(t, err)
	defer observer.Close()
	fence, err := devbroker.FenceOf(t.Context(), broker.Addrs(), "orders")
	require.NoError(t, err)
	seen := map[string]int{}
	require.NoError(t, observer.PollTo(t.Context(), fence, func(r *kgo.Record) {
		require.Contains(t, string(r.Value), `"received":`)
		seen[string(r.Key)]++
	}))
	require.Len(t, seen, orders)
	for customer, times := range seen {
		require.Equal(t, 1, times, customer)
	}
}

// order sends one order, again for as long as nobody listens.
func order(ctx context.Context, url string, n int) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		body := fmt.Sprintf(`{ "customer": "c%02d", "cents": %d }`, n, n)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return fmt.Errorf("order %d: %s: %s", n, resp.Status, text)
			}
			return nil
		}
		if !strings.Contains(err.Error(), "refused") {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

package crash

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// callee is an HTTP server that pipelines call, and that fails now and then: it answers with what it is sent, but for
// one in 20 requests to /flaky, and one in 50 to /rare if that has not failed for a while. What is sent to /take it keeps.
type callee struct {
	server *httptest.Server
	// calm ends all failures.
	calm atomic.Bool

	mu     sync.Mutex
	taken  [][]byte  // guarded by mu
	failed time.Time // the last time; guarded by mu
}

func newCallee() *callee {
	c := &callee{}
	mux := http.NewServeMux()
	mux.Handle("/flaky", c.failing(20, 0))
	mux.Handle("/rare", c.failing(50, 3*time.Second))
	mux.HandleFunc("/take", c.take)
	c.server = httptest.NewServer(mux)
	return c
}

// calls starts a callee where the scenario calls one, else it returns nil.
func (s scenario) calls(n *names) *callee {
	if !strings.Contains(s.input+s.processors+s.output, ".Callee") {
		return nil
	}
	c := newCallee()
	n.Callee = c.server.URL
	return c
}

func (c *callee) close() {
	if c != nil {
		c.server.Close()
	}
}

func (c *callee) failing(one int, rest time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the caller was killed
		}
		if rand.IntN(one) == 0 && !c.calm.Load() && c.mayFail(rest) {
			http.Error(w, "not this time", http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(body)
	}
}

// mayFail tells whether the last failure is long enough ago.
func (c *callee) mayFail(rest time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.failed) < rest {
		return false
	}
	c.failed = time.Now()
	return true
}

func (c *callee) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken = append(c.taken, body)
}

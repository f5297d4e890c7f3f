package benthosx

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"gopkg.in/yaml.v3"
)

// In streams mode streams come and go by files and by the HTTP API, and no callback of Benthos's shows their configs. The
// API itself does: the process asks itself.

const (
	// apiPatience is how long the API is asked: its server starts at the same time as the streams.
	apiPatience = 15 * time.Second
	apiPause    = 100 * time.Millisecond
	// startPatience is how long the streams of the start may take to be made.
	startPatience = 5 * time.Second
)

// awaitStart waits until Benthos has made the streams of its start. Race: each of them adds its paths to the router of the
// HTTP API (github.com/gorilla/mux), which is served by then, while no lock keeps a request from looking through them. A
// source that asks at once would so read what the main goroutine is writing for the next stream. Whoever asks from outside
// at that moment does the same, and a stream that is made through the API adds its paths under way: that is Benthos's.
func awaitStart(ctx context.Context, started <-chan struct{}) {
	if started == nil {
		return
	}
	t := time.NewTimer(startPatience)
	defer t.Stop()
	select {
	case <-started:
	case <-ctx.Done():
	case <-t.C: // a build with a callback of its own in the place of ours
	}
}

// apiAccess is how the process reaches its own HTTP API.
type apiAccess struct {
	address string
	secure  bool
	// closed is why it cannot.
	closed string
}

func apiOf(conf *service.ParsedConfig) apiAccess {
	var a apiAccess
	a.address, _ = conf.FieldString("http", "address")
	enabled, err := conf.FieldBool("http", "enabled")
	cert, _ := conf.FieldString("http", "cert_file")
	a.secure = cert != ""
	auth, _ := conf.FieldBool("http", "basic_auth", "enabled")
	switch {
	case err != nil || a.address == "":
		a.closed = "the http section of the config cannot be read"
	case !enabled:
		a.closed = "http.enabled is false"
	case auth:
		a.closed = "http.basic_auth is on, and only a hash of its password is known"
	}
	return a
}

// APIError says why the config of a stream in streams mode could not be looked at.
type APIError struct {
	StreamID, Reason string
}

func (e *APIError) Error() string {
	return fmt.Sprintf("checkpoints need a look at the whole config of stream %q, which in streams mode only the HTTP API of "+
		"this process gives, and %s: run the stream by `connect run`, or let the API be (http.enabled: true, no "+
		"http.basic_auth, no --no-api; http.address: 127.0.0.1:4195 keeps it to this machine)", e.StreamID, e.Reason)
}

// look asks the API for the config of a stream, until it answers or the patience is over. Resources it does not show; those
// of a file given with -r can be looked at.
func (a apiAccess) look(ctx context.Context, id string, resources []string) (view, error) {
	if a.closed != "" {
		return view{}, &APIError{id, a.closed}
	}
	host, port, err := net.SplitHostPort(a.address)
	if err != nil {
		return view{}, &APIError{id, fmt.Sprintf("http.address %q has no port", a.address)}
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "localhost"
	}
	ask := url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: "/streams/" + id}
	transport := &http.Transport{}
	if a.secure {
		// It asks itself: the certificate's name is for others.
		ask.Scheme, transport.TLSClientConfig = "https", &tls.Config{InsecureSkipVerify: true}
	}
	client := &http.Client{Transport: transport}
	defer client.CloseIdleConnections()
	patience, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	for {
		root, err := get(patience, client, ask.String())
		if err == nil {
			if err := addResources(root, resources); err != nil {
				return view{}, err
			}
			v, _ := viewOf(root)
			if len(v.missing) > 0 && v.refused == nil {
				v.refused = fmt.Errorf("resource: %q is in no file given with -r, and checkpoints need a look at everything that "+
					"stream %q is made of; a resource that was made by the HTTP API cannot be looked at: put it into a file, "+
					"and give that with -r", v.missing[0], id)
			}
			return v, nil
		}
		select {
		case <-time.After(apiPause):
		case <-patience.Done():
			if ctx.Err() != nil {
				return view{}, ctx.Err()
			}
			return view{}, &APIError{id, err.Error()}
		}
	}
}

func get(ctx context.Context, client *http.Client, address string) (map[string]any, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", address, resp.Status)
	}
	var answer struct {
		Config map[string]any `yaml:"config"`
	}
	// As YAML it has the same types as a config file.
	if err := yaml.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("%s answers something else: %w", address, err)
	}
	if answer.Config == nil {
		return nil, errors.New(address + " answers without a config")
	}
	return answer.Config, nil
}

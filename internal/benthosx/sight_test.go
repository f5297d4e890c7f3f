package benthosx

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// unsee undoes what a test has looked at.
func unsee(t *testing.T) {
	t.Cleanup(func() {
		sight.Lock()
		defer sight.Unlock()
		sight.looked, sight.main, sight.file, sight.api, sight.resources = false, view{}, nil, apiAccess{}, nil
	})
}

func TestWhatIsInTheWayOfCheckpointsIsKeptForASourceThatTurnsUp(t *testing.T) {
	unsee(t)
	var root map[string]any
	require.NoError(t, yaml.Unmarshal([]byte("input: { my_template: {} }\nbuffer: { memory: {} }\n"), &root))
	v, checkpointed := viewOf(root)
	require.False(t, checkpointed)
	_, err := RequireTopology(t.Context(), service.MockResources(), 1)
	require.ErrorIs(t, err, errUnchecked)
	sight.looked, sight.main = true, v
	_, err = RequireTopology(t.Context(), service.MockResources(), 1)
	require.ErrorContains(t, err, "a memory buffer")
	sight.main.refused = nil
	_, err = RequireTopology(t.Context(), service.MockResources(), 1)
	require.NoError(t, err)
	_, err = RequireTopology(t.Context(), service.MockResources(), 2)
	require.ErrorIs(t, err, errReloaded, "nobody knows the file")
}

func TestReloadedConfigIsReadAgain(t *testing.T) {
	t.Setenv("BUFFERED", "memory")
	tests := map[string]struct {
		text string
		sets []string
		want string
	}{
		"nothing in the way": {"input: { kafka_flink_source: { checkpoint: { interval: 1s } } }", nil, ""},
		"a buffer":           {"input: { kafka_flink_source: {} }\nbuffer: { memory: {} }", nil, "buffer: a memory buffer"},
		"by the environment": {"buffer: { \"${BUFFERED}\": {} }", nil, "buffer: a memory buffer"},
		"by --set":           {"input: { stdin: {} }", []string{"output.broker.batching.count=9"}, "output.broker.batching"},
		"no YAML":            {"input: [", nil, "after a reload: reading the config"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			unsee(t)
			path := filepath.Join(t.TempDir(), "job.yaml")
			require.NoError(t, os.WriteFile(path, []byte(tc.text), 0o600))
			sight.looked, sight.file = true, &configFile{path: path, sets: tc.sets}
			_, err := RequireTopology(t.Context(), service.MockResources(), 2)
			if tc.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.want)
			}
		})
	}
}

// While Benthos makes the streams of its start, its HTTP API must not be asked: see awaitStart.
func TestStreamsModeAsksNothingWhileStreamsAreMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		awaitStart(t.Context(), nil)
		require.Zero(t, time.Since(began), "nobody tells")

		started := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(started) })
		awaitStart(t.Context(), started)
		require.Equal(t, time.Second, time.Since(began))
		awaitStart(t.Context(), started)
		require.Equal(t, time.Second, time.Since(began), "a stream that comes later")

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		awaitStart(ctx, make(chan struct{}))
		require.Equal(t, 2*time.Second, time.Since(began), "it is stopped")
		awaitStart(t.Context(), make(chan struct{}))
		require.Equal(t, 2*time.Second+startPatience, time.Since(began), "a build that replaced our callback")
	})
}

func TestStreamsModeAsksItsOwnAPI(t *testing.T) {
	var tries int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tries++; tries == 1 {
			http.Error(w, "Error: stream does not exist", http.StatusBadGateway) // it is being made
			return
		}
		if r.URL.Path != "/streams/orders" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(`{"active":true,"config":{"input":{"kafka_flink_source":{"checkpoint":{"interval":"1s"}}},` +
			`"output":{"broker":{"batching":{"count":1},"outputs":[{"kafka_flink_sink":{}},{"kafka_flink_sink":{}}]}}}}`))
	}))
	defer server.Close()
	v, err := apiAccess{address: strings.TrimPrefix(server.URL, "http://")}.look(t.Context(), "orders", nil)
	require.NoError(t, err)
	require.NoError(t, v.refused, "a count of 1 gathers nothing")
	require.Equal(t, 2, v.sinks)
}

// TestStreamsModeLooksAtTheResourcesThatAStreamNames: those of files it can read, and others not.
func TestStreamsModeLooksAtTheResourcesThatAStreamNames(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"config":{"input":{"kafka_flink_source":{"checkpoint":{"interval":"1s"}}},"output":{"resource":"o"}}}`))
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "resources.yaml")
	for text, want := range map[string]string{
		"output_resources: [ { label: o, drop: {} } ]":                                               "",
		"output_resources: [ { label: o, drop: {} }, { label: another, dynamic: {} } ]":              "",
		"output_resources: [ { label: o, broker: { outputs: [], batching: { byte_size: 5000 } } } ]": "output_resources.o.broker.batching",
		"output_resources: [ { label: another, drop: {} } ]":                                         `resource: "o" is in no file given with -r`,
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		v, err := apiAccess{address: strings.TrimPrefix(server.URL, "http://")}.look(t.Context(), "orders", []string{filepath.Join(filepath.Dir(path), "*.yaml")})
		require.NoError(t, err)
		if want == "" {
			require.NoError(t, v.refused)
		} else {
			require.ErrorContains(t, v.refused, want)
		}
	}
}

func TestStreamsModeWithoutItsAPIRefusesCheckpoints(t *testing.T) {
	for reason, conf := range map[string]string{
		"http.enabled is false":  "http: { enabled: false }",
		"http.basic_auth is on":  "http: { basic_auth: { enabled: true } }",
		"has no port":            "http: { address: nowhere }",
		"the http section of th": "http: { address: \"\" }",
	} {
		parsed, err := service.NewConfigSpec().Fields(
			service.NewObjectField("http", service.NewStringField("address").Default("0.0.0.0:4195"),
				service.NewBoolField("enabled").Default(true), service.NewStringField("cert_file").Default(""),
				service.NewObjectField("basic_auth", service.NewBoolField("enabled").Default(false)))).ParseYAML(conf, nil)
		require.NoError(t, err)
		_, err = apiOf(parsed).look(t.Context(), "orders", nil)
		var refused *APIError
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err, reason)
	}
}

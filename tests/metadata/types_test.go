package metadata

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// all lists everything that the source can set.
const all = "metadata: [ topic, partition, offset, timestamp, timestamp_type, leader_epoch, key, headers ]"

// TestPageNamesEveryTypeAndText compares the table of metadata with what Bloblang sees.
func TestPageNamesEveryTypeAndText(t *testing.T) {
	lines, _ := readPage(t)
	type said struct{ Type, Text any }
	want := map[string]said{}
	inTable := false
	for _, line := range lines {
		cells := split(line)
		switch {
		case strings.HasPrefix(line, "<!-- types"):
			inTable = true
		case inTable && !strings.HasPrefix(line, "|"):
			inTable = false
		case inTable && strings.HasPrefix(line, "| `"), inTable && strings.HasPrefix(line, "| ("):
			want[spans(cells[1], "")] = said{cells[2], spans(cells[3], "")}
		}
	}
	require.Len(t, want, 9)
	var mapping strings.Builder
	for name := range want {
		fmt.Fprintf(&mapping, "root.%s = {\"Type\": @%s.type(), \"Text\": meta(%q)}\n", name, name, name)
	}
	mapping.WriteString("meta = deleted()\n")
	a, b := inputs["A"], inputs["B"]
	written, refused := job{source: all, processors: fmt.Sprintf("[ { mapping: %q } ]", mapping.String())}.run(t, &b, &a)
	require.Empty(t, refused)
	require.Len(t, written, 2)
	var ofB, ofA map[string]said
	require.NoError(t, json.Unmarshal(written[0].Value, &ofB))
	require.NoError(t, json.Unmarshal(written[1].Value, &ofA))
	ofB["kafka_tombstone_message"] = ofA["kafka_tombstone_message"]
	require.Equal(t, want, ofB)
}

// TestOutputsThatSendHeadersMakeTextOfMetadata holds what the page says of outputs that are not ours.
func TestOutputsThatSendHeadersMakeTextOfMetadata(t *testing.T) {
	var mu sync.Mutex
	var got []http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Header.Clone())
	}))
	defer server.Close()
	b := inputs["B"]
	job{source: all, output: fmt.Sprintf("{ http_client: { url: %q, verb: POST, metadata: { include_prefixes: [ kafka_ ] } } }", server.URL)}.run(t, &b)
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, got, 1)
	for name, text := range map[string]string{
		"kafka_topic": "orders", "kafka_partition": "0", "kafka_offset": "0", "kafka_timestamp_ms": "2000", "kafka_key": "k2",
		"kafka_timestamp_type": "CreateTime", "kafka_leader_epoch": "0",
		"kafka_headers": `[{"key":"a","value":"Mg=="},{"key":"a","value":null},{"key":"b","value":""}]`,
	} {
		require.Equal(t, text, got[0].Get(name), name)
	}
	require.NotContains(t, got[0], http.CanonicalHeaderKey("kafka_tombstone_message"))
}

package kafkaclient

import (
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestTableOfPropertiesIsInOrder(t *testing.T) {
	require.True(t, slices.IsSortedFunc(accepted, func(a, b Property) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	}), "by name, each once")
	for _, p := range accepted {
		require.NotContains(t, refused, p.Name)
		require.NotEmpty(t, p.Effect, p.Name)
		require.NotEmpty(t, p.Default, p.Name)
		require.NotZero(t, p.Sides, p.Name)
		if p.kind != oneOf && p.kind != text {
			require.Less(t, p.least, p.most, p.Name)
		}
	}
}

// TestEveryPropertyHasItsEffectOnTheClient asks the client itself. Every value that a property may have is one that the
// client takes, so that no start fails for what a lint has let through (rule 13).
func TestEveryPropertyHasItsEffectOnTheClient(t *testing.T) {
	want := map[string]struct {
		opt   any
		value string
		is    any
	}{
		"request.timeout.ms":                 {kgo.RequestTimeoutOverhead, "7000", 7 * time.Second},
		"metadata.max.age.ms":                {kgo.MetadataMaxAge, "7000", 7 * time.Second},
		"connections.max.idle.ms":            {kgo.ConnIdleTimeout, "7000", 7 * time.Second},
		"socket.connection.setup.timeout.ms": {kgo.DialTimeout, "7000", 7 * time.Second},
		"fetch.max.bytes":                    {kgo.FetchMaxBytes, "70000", int32(70000)},
		"fetch.min.bytes":                    {kgo.FetchMinBytes, "7", int32(7)},
		"fetch.max.wait.ms":                  {kgo.FetchMaxWait, "7000", 7 * time.Second},
		"max.partition.fetch.bytes":          {kgo.FetchMaxPartitionBytes, "70000", int32(70000)},
		"client.rack":                        {kgo.Rack, "r", "r"},
		"check.crcs":                         {kgo.DisableFetchCRCValidation, "false", true},
		"linger.ms":                          {kgo.ProducerLinger, "7", 7 * time.Millisecond},
		"retries":                            {kgo.RecordRetries, "7", int64(7)},
		"compression.type":                   {kgo.ProducerBatchCompression, "zstd", []kgo.CompressionCodec{kgo.ZstdCompression()}},
		"acks":                               {kgo.RequiredAcks, "1", kgo.LeaderAck()},
		"enable.idempotence":                 {kgo.DisableIdempotentWrite, "false", true},
	}
	// Those that are not the client's own settings, with what tests them.
	elsewhere := []string{
		"allow.auto.create.topics", "client.dns.lookup", // nothing else is possible
		"client.id", "isolation.level", "max.poll.records", // plugins/kafka_flink_source
		"batch.size", "buffer.memory", "delivery.timeout.ms", "max.request.size", "transaction.timeout.ms", // kafkasink and its plugin
		"retry.backoff.ms", "retry.backoff.max.ms", // TestBackoffGrowsFromLeastToMost
		"max.in.flight.requests.per.connection", // below
		"sasl.jaas.config", "sasl.mechanism", "security.protocol", "ssl.endpoint.identification.algorithm", "ssl.key.password",
		"ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location", "ssl.keystore.type",
		"ssl.truststore.certificates", "ssl.truststore.location", "ssl.truststore.type", // tests/security, TestPropertiesBecomeTLS
	}
	for _, p := range accepted {
		t.Run(p.Name, func(t *testing.T) {
			w, ok := want[p.Name]
			if !ok {
				require.Contains(t, elsewhere, p.Name)
				return
			}
			for side := range eachSide(p.Sides) {
				cl := clientWith(t, side, map[string]any{p.Name: w.value})
				got := cl.OptValue(w.opt)
				if reflect.ValueOf(got).Kind() == reflect.Int && reflect.ValueOf(w.is).Kind() == reflect.Int64 {
					got = int64(got.(int))
				}
				require.Equal(t, w.is, got)
			}
		})
		t.Run("limits of "+p.Name, func(t *testing.T) {
			values := []any{p.least, p.most}
			if p.kind == oneOf {
				values = nil
				for _, o := range p.options {
					values = append(values, o)
				}
			}
			if p.kind == text {
				return
			}
			for side := range eachSide(p.Sides) {
				for _, v := range values {
					if p.Name == "retries" && v == int64(0) {
						continue // with an idempotent producer it is refused
					}
					clientWith(t, side, map[string]any{p.Name: v})
				}
			}
		})
	}
	cl := clientWith(t, Sink, map[string]any{"enable.idempotence": false, "max.in.flight.requests.per.connection": 9})
	require.EqualValues(t, 9, cl.OptValue(kgo.MaxProduceRequestsInflightPerBroker))
	require.Equal(t, 7*time.Second, clientWith(t, Sink, map[string]any{"request.timeout.ms": 7000}).OptValue(kgo.ProduceRequestTimeout))
}

func eachSide(sides Side) func(func(Side) bool) {
	return func(yield func(Side) bool) {
		for _, s := range []Side{Source, Sink} {
			if sides&s != 0 && !yield(s) {
				return
			}
		}
	}
}

func clientWith(t *testing.T, side Side, given map[string]any) *kgo.Client {
	t.Helper()
	p, errs := NewProperties(side, given)
	require.Empty(t, errs)
	opts, err := Config{BootstrapServers: []string{"127.0.0.1:1"}, Properties: p}.Options(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	if side == Source {
		opts = append(opts, p.Consumer()...)
	} else {
		opts = append(append(opts, kgo.MetadataMinAge(time.Second)), p.Producer()...)
	}
	cl, err := kgo.NewClient(opts...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

func TestBackoffGrowsFromLeastToMost(t *testing.T) {
	next := backoff(100*time.Millisecond, time.Second)
	for tries, want := range map[int]int64{0: 100, 1: 100, 2: 200, 3: 400, 4: 800, 5: 1000, 60: 1000} {
		require.InEpsilon(t, float64(want), float64(next(tries).Milliseconds()), 0.21, "try %d", tries)
	}
}

func TestPropertiesBecomeTLS(t *testing.T) {
	p, errs := NewProperties(Source, map[string]any{
		"security.protocol": "SSL", "ssl.truststore.certificates": "ca", "ssl.keystore.certificate.chain": "cert",
		"ssl.keystore.key": "key", "ssl.key.password": "word", "ssl.endpoint.identification.algorithm": "",
	})
	require.Empty(t, errs)
	s, err := Security{}.Merge(p)
	require.NoError(t, err)
	require.Equal(t, &TLS{
		AnyName: true, RootCAs: []Material{{Field: "properties.ssl.truststore.certificates", Text: NewSecret("ca")}},
		ClientCerts: []ClientCert{{
			Cert:     Material{Field: "properties.ssl.keystore.certificate.chain", Text: NewSecret("cert")},
			Key:      Material{Field: "properties.ssl.keystore.key", Text: NewSecret("key")},
			Password: NewSecret("word"), PasswordField: "properties.ssl.key.password",
		}},
	}, s.TLS)
}

func TestTLSThatWasNotReadIsNeverPlainText(t *testing.T) {
	_, err := Config{BootstrapServers: []string{"a:1"}, Security: Security{TLS: &TLS{}}}.Options(slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "tls")
}

var flagRewrite = flag.Bool("rewrite", false, "write the tables of docs/connection.md anew")

// TestTablesInTheDocsAreThoseOfTheCode: run with -rewrite to have them written.
func TestTablesInTheDocsAreThoseOfTheCode(t *testing.T) {
	const file, begins = "../../docs/connection.md", "### Those that have an effect\n\n"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	before, has, found := strings.Cut(string(text), begins)
	require.True(t, found)
	var b strings.Builder
	b.WriteString("| property | of | takes | default | effect |\n|---|---|---|---|---|\n")
	for _, p := range accepted {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", p.Name, p.Sides, p.Takes(), p.Default, p.Effect)
	}
	b.WriteString("\n### Those that are refused\n\n| property | why |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, refused[name])
	}
	for _, prefix := range slices.Sorted(maps.Keys(refusedPrefixes)) {
		fmt.Fprintf(&b, "| `%s*` | %s |\n", prefix, refusedPrefixes[prefix])
	}
	if *flagRewrite {
		require.NoError(t, os.WriteFile(file, []byte(before+begins+b.String()), 0o644))
		return
	}
	require.Equal(t, b.String(), has, "run the test with -rewrite")
}

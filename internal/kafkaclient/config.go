package kafkaclient

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
)

const (
	// dialTimeout bounds one attempt to open a connection, so that an address that swallows packets is reported in
	// seconds.
	dialTimeout = 10 * time.Second

	backoffMin = 250 * time.Millisecond
	backoffMax = 5 * time.Second

	// readMax is franz-go's default for the largest answer.
	readMax = 100 << 20
)

// Config are the connection settings of one client. They never become part of a checkpoint (rule 10).
type Config struct {
	// BootstrapServers are host:port addresses as ParseBootstrapServers returns them.
	BootstrapServers []string
	// ClientID is the client.id the brokers see in logs, quotas and metrics; empty leaves it to the client library.
	ClientID string
	// Security and Properties are Kafka's own settings; Secured has to be called where there are any.
	Security   Security
	Properties Properties

	tls *tls.Config
}

// WithClientID returns a copy with another client id.
func (c Config) WithClientID(id string) Config {
	c.ClientID = id
	return c
}

// Secured returns a copy whose certificates and keys are read and whose credentials are complete, or why that cannot be.
// It is called once, at the start.
func (c Config) Secured() (Config, error) {
	var errs []error
	for _, s := range c.Security.SASL {
		errs = append(errs, s.complete())
	}
	if c.Security.TLS != nil {
		var err error
		c.tls, err = c.Security.TLS.Build()
		errs = append(errs, err)
	}
	return c, errors.Join(errs...)
}

// Options returns the options every client of the process is built with; the caller adds those of its own job. The
// client logs through logger, repeats of one connection error are limited, and settings are never logged (rule 13).
func (c Config) Options(logger *slog.Logger) ([]kgo.Opt, error) {
	if len(c.BootstrapServers) == 0 {
		return nil, errors.New("bootstrap_servers: no address given; write at least one host:port")
	}
	seeds, err := ParseBootstrapServers(c.BootstrapServers...)
	if err != nil {
		return nil, err
	}
	if c.Security.TLS != nil && c.tls == nil {
		return nil, errors.New("tls: its certificates were not read") // plain text in its place would be a disaster
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(seeds...),
		kgo.WithLogger(NewLogger(logger)),
		kgo.DialTimeout(dialTimeout),
		// A client lives as long as one attempt; its telemetry to the broker (KIP-714) would be noise.
		kgo.DisableClientMetrics(),
	}
	if c.ClientID != "" {
		opts = append(opts, kgo.ClientID(c.ClientID))
	}
	if c.tls != nil {
		opts = append(opts, kgo.DialTLSConfig(c.tls))
	}
	mechanisms := make([]sasl.Mechanism, len(c.Security.SASL))
	for i, s := range c.Security.SASL {
		mechanisms[i] = s.mechanism()
	}
	if len(mechanisms) > 0 {
		opts = append(opts, kgo.SASL(mechanisms...))
	}
	return append(opts, c.Properties.connection()...), nil
}

// connection are the options of every client.
func (p Properties) connection() (opts []kgo.Opt) {
	if d, ok := p.Duration("request.timeout.ms"); ok {
		opts = append(opts, kgo.RequestTimeoutOverhead(d))
	}
	if d, ok := p.Duration("metadata.max.age.ms"); ok {
		opts = append(opts, kgo.MetadataMaxAge(d))
	}
	if d, ok := p.Duration("connections.max.idle.ms"); ok {
		opts = append(opts, kgo.ConnIdleTimeout(d))
	}
	if d, ok := p.Duration("socket.connection.setup.timeout.ms"); ok {
		opts = append(opts, kgo.DialTimeout(d))
	}
	least, haveLeast := p.Duration("retry.backoff.ms")
	most, haveMost := p.Duration("retry.backoff.max.ms")
	if haveLeast || haveMost {
		opts = append(opts, kgo.RetryBackoffFn(backoff(orElse(least, haveLeast, backoffMin), orElse(most, haveMost, backoffMax))))
	}
	return opts
}

// Consumer are the options of a client that fetches; they win over those before them.
func (p Properties) Consumer() (opts []kgo.Opt) {
	if n, ok := p.Int("fetch.max.bytes"); ok {
		// The client refuses answers that may be larger than it reads; a batch that is larger than the limit comes alone.
		opts = append(opts, kgo.FetchMaxBytes(int32(n)), kgo.BrokerMaxReadBytes(int32(max(readMax, 2*n))))
	}
	if n, ok := p.Int("fetch.min.bytes"); ok {
		opts = append(opts, kgo.FetchMinBytes(int32(n)))
	}
	if n, ok := p.Int("max.partition.fetch.bytes"); ok {
		opts = append(opts, kgo.FetchMaxPartitionBytes(int32(n)))
	}
	if d, ok := p.Duration("fetch.max.wait.ms"); ok {
		opts = append(opts, kgo.FetchMaxWait(d))
	}
	if rack := p.Text("client.rack"); rack != "" {
		opts = append(opts, kgo.Rack(rack))
	}
	if check, ok := p.Bool("check.crcs"); ok && !check {
		opts = append(opts, kgo.DisableFetchCRCValidation())
	}
	return opts
}

var codecs = map[string]func() kgo.CompressionCodec{
	"none": kgo.NoCompression, "gzip": kgo.GzipCompression, "snappy": kgo.SnappyCompression, "lz4": kgo.Lz4Compression, "zstd": kgo.ZstdCompression,
}

// Producer are the options of a client that produces; they win over those before them. Limits that the sink itself keeps
// are not among them.
func (p Properties) Producer() (opts []kgo.Opt) {
	if d, ok := p.Duration("linger.ms"); ok {
		opts = append(opts, kgo.ProducerLinger(d))
	}
	if codec := codecs[p.Text("compression.type")]; codec != nil {
		opts = append(opts, kgo.ProducerBatchCompression(codec()))
	}
	if d, ok := p.Duration("request.timeout.ms"); ok {
		opts = append(opts, kgo.ProduceRequestTimeout(d))
	}
	if n, ok := p.Int("retries"); ok {
		opts = append(opts, kgo.RecordRetries(int(n)))
	}
	idempotent, set := p.Bool("enable.idempotence")
	switch p.Text("acks") {
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()))
		idempotent, set = false, true
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()))
		idempotent, set = false, true
	}
	if set && !idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite())
		if n, ok := p.Int("max.in.flight.requests.per.connection"); ok {
			opts = append(opts, kgo.MaxProduceRequestsInflightPerBroker(int(n)))
		}
	}
	return opts
}

func orElse(d time.Duration, have bool, other time.Duration) time.Duration {
	if have {
		return d
	}
	return other
}

// backoff doubles from least to most, with a fifth of jitter.
func backoff(least, most time.Duration) func(tries int) time.Duration {
	least = min(least, most)
	return func(tries int) time.Duration {
		d := least << max(0, min(tries-1, 20))
		if d > most || d <= 0 {
			d = most
		}
		return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
	}
}

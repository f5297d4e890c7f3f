package kafkaclient

import (
	"errors"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// dialTimeout bounds one attempt to open a connection, so that an address that swallows packets is reported in
// seconds.
const dialTimeout = 10 * time.Second

// Config are the connection settings of one client. They never become part of a checkpoint (rule 10).
type Config struct {
	// BootstrapServers are host:port addresses as ParseBootstrapServers returns them.
	BootstrapServers []string
	// ClientID is the client.id the brokers see in logs, quotas and metrics; empty leaves it to the client library.
	ClientID string
}

// WithClientID returns a copy with another client id.
func (c Config) WithClientID(id string) Config {
	c.ClientID = id
	return c
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
	return opts, nil
}

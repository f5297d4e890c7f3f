package devbroker

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Topic is a topic to create when the broker starts.
type Topic struct {
	Name       string
	Partitions int32
}

// Options are the settings of a Broker; the zero value is one broker on a free port without topics.
type Options struct {
	// Ports are the ports to listen on, one broker for each; 0 stands for a free one. Empty: one broker, a free port.
	Ports  []int
	Topics []Topic
	// AutoCreate lets clients create topics by asking for them, with one partition each, as Kafka does by default.
	AutoCreate bool
	// ClusterID is random when empty, so that a state store of an earlier broker is not taken for one of this.
	ClusterID string
	// Properties are broker properties by Kafka's names, such as transaction.max.timeout.ms.
	Properties map[string]string
	// Logger gets the broker's warnings; nil for none.
	Logger *slog.Logger
}

// Broker is an embedded Kafka cluster. It lives until Close.
type Broker struct {
	cluster   *kfake.Cluster
	addrs     []string
	clusterID string
}

// Start starts a broker that listens on 127.0.0.1.
func Start(o Options) (*Broker, error) {
	if len(o.Ports) == 0 {
		o.Ports = []int{0}
	}
	if o.ClusterID == "" {
		o.ClusterID = newClusterID()
	}
	opts := []kfake.Opt{
		kfake.Ports(o.Ports...),
		kfake.ClusterID(o.ClusterID),
		kfake.DefaultNumPartitions(1),
		kfake.BrokerConfigs(o.Properties),
	}
	if o.AutoCreate {
		opts = append(opts, kfake.AllowAutoTopicCreation())
	}
	if o.Logger != nil {
		opts = append(opts, kfake.WithLogger(warnings{o.Logger}))
	}
	seen := make(map[string]bool, len(o.Topics))
	for _, t := range o.Topics {
		if t.Name == "" || t.Partitions < 1 {
			return nil, fmt.Errorf("topic %q with %d partitions: a topic needs a name and at least one partition", t.Name, t.Partitions)
		}
		if seen[t.Name] {
			return nil, fmt.Errorf("topic %q is given twice", t.Name)
		}
		seen[t.Name] = true
		opts = append(opts, kfake.SeedTopics(t.Partitions, t.Name))
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		return nil, startError(o.Ports, err)
	}
	return &Broker{cluster: cluster, addrs: cluster.ListenAddrs(), clusterID: o.ClusterID}, nil
}

// startError names the port and the way out where the port is taken, which is what goes wrong in practice.
func startError(ports []int, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port %s of 127.0.0.1 is taken, by another broker perhaps; choose another one, or 0 for a free one: %w",
			strings.Trim(fmt.Sprint(ports), "[]"), err)
	}
	return fmt.Errorf("starting the embedded broker: %w", err)
}

// Addrs returns the brokers' addresses as host:port, to be used as bootstrap servers.
func (b *Broker) Addrs() []string { return b.addrs }

// ClusterID returns the cluster id that clients see.
func (b *Broker) ClusterID() string { return b.clusterID }

// Close stops the broker; everything it held is lost.
func (b *Broker) Close() { b.cluster.Close() }

// newClusterID returns 22 characters, as Kafka's own ids have.
func newClusterID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// warnings passes on what kfake logs at warning level and above; below that it logs every request.
type warnings struct{ to *slog.Logger }

func (w warnings) Logf(level kfake.LogLevel, format string, args ...any) {
	switch level {
	case kfake.LogLevelError:
		w.to.Log(context.Background(), slog.LevelError, fmt.Sprintf(format, args...))
	case kfake.LogLevelWarn:
		w.to.Log(context.Background(), slog.LevelWarn, fmt.Sprintf(format, args...))
	}
}

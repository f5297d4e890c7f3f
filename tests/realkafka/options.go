package realkafka

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Version is the version of Apache Kafka that is started.
const Version = "4.3.1"

// Options chooses what a Cluster is like. The zero value is one broker with the settings of defaultProperties.
type Options struct {
	// Brokers is the number of brokers, 1 where it is 0. Each is a controller too.
	Brokers int
	// Features are finalised feature levels to format the cluster with, such as "transaction.version": 0. Features
	// that are not named get the level that Kafka's release gives them.
	Features map[string]int
	// Properties are added to every broker's server.properties, and win over the defaults of this package.
	Properties map[string]string
	// PerBroker are properties of single brokers: entry i is added to those of broker i, and wins over Properties.
	PerBroker []map[string]string
	// Secure adds listeners with TLS and SASL.
	Secure *Secure
	// JVM replaces the flags of the Java machine, which are chosen for a quick start and a small heap.
	JVM []string
}

// defaultJVM starts quickly and stays small: the broker of a test lives for seconds.
var defaultJVM = []string{"-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}

func (o Options) withDefaults() Options {
	if o.Brokers == 0 {
		o.Brokers = 1
	}
	if o.JVM == nil {
		o.JVM = defaultJVM
	}
	return o
}

// chosen tells whether the options ask for anything that a broker of the user's own need not have.
func (o Options) chosen() bool {
	return o.Brokers > 1 || len(o.Features) > 0 || len(o.Properties) > 0 || len(o.PerBroker) > 0 || o.Secure != nil
}

// endpoint is where one broker listens. Ports stay the same for the life of the cluster, also across restarts.
type endpoint struct {
	client, controller *portLease
	secure             map[string]*portLease // by listener
}

func (e endpoint) clientAddr() string     { return fmt.Sprintf("127.0.0.1:%d", e.client.port) }
func (e endpoint) controllerAddr() string { return fmt.Sprintf("127.0.0.1:%d", e.controller.port) }

// defaultProperties are fast and small settings: timeouts act within seconds instead of minutes, internal topics have
// few partitions, nothing is delayed for the sake of other members.
func defaultProperties(brokers int) map[string]string {
	replicas := fmt.Sprint(min(brokers, 3))
	minISR := fmt.Sprint(max(1, min(brokers, 3)-1))
	return map[string]string{
		"offsets.topic.num.partitions":                     "4",
		"offsets.topic.replication.factor":                 replicas,
		"transaction.state.log.num.partitions":             "4",
		"transaction.state.log.replication.factor":         replicas,
		"transaction.state.log.min.isr":                    minISR,
		"share.coordinator.state.topic.num.partitions":     "1",
		"share.coordinator.state.topic.replication.factor": replicas,
		"share.coordinator.state.topic.min.isr":            minISR,
		"default.replication.factor":                       replicas,
		"min.insync.replicas":                              minISR,
		"group.initial.rebalance.delay.ms":                 "0",
		// A transaction that has run into its timeout is aborted within a second instead of ten.
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
		// A killed broker may come back after three seconds instead of nine.
		"broker.session.timeout.ms":    "3000",
		"broker.heartbeat.interval.ms": "500",
		// Brokers turn away from a paused controller after three seconds instead of thirty.
		"controller.socket.timeout.ms":   "3000",
		"log.cleaner.dedupe.buffer.size": "8388608",
		"auto.create.topics.enable":      "false",
		// Tests write records with timestamps of long ago, which a retention would delete while they run.
		"log.retention.ms": "-1",
	}
}

// properties renders broker i's server.properties.
func (o Options) properties(i int, endpoints []endpoint, certs *Certs, dataDir string) string {
	all := defaultProperties(o.Brokers)
	voters := make([]string, len(endpoints))
	for j, e := range endpoints {
		voters[j] = fmt.Sprintf("%d@%s", nodeID(j), e.controllerAddr())
	}
	maps.Copy(all, map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        fmt.Sprint(nodeID(i)),
		"controller.quorum.voters":       strings.Join(voters, ","),
		"controller.listener.names":      "CONTROLLER",
		"inter.broker.listener.name":     "PLAINTEXT",
		"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"listeners": fmt.Sprintf("PLAINTEXT://%s,CONTROLLER://%s",
			endpoints[i].clientAddr(), endpoints[i].controllerAddr()),
		"advertised.listeners": "PLAINTEXT://" + endpoints[i].clientAddr(),
		"log.dirs":             filepath.ToSlash(dataDir),
	})
	if o.Secure != nil {
		maps.Copy(all, o.Secure.properties(certs))
		for name, lease := range endpoints[i].secure {
			at := fmt.Sprintf(",%s://127.0.0.1:%d", name, lease.port)
			all["listeners"] += at
			all["advertised.listeners"] += at
			all["listener.security.protocol.map"] += fmt.Sprintf(",%s:%s", name, listeners[name])
		}
	}
	maps.Copy(all, o.Properties)
	if i < len(o.PerBroker) {
		maps.Copy(all, o.PerBroker[i])
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s=%s\n", name, all[name])
	}
	return b.String()
}

// formatArgs are the arguments of kafka.tools.StorageTool that format a broker's folder.
func (o Options) formatArgs(clusterID, propertiesFile string) []string {
	args := []string{"format", "--cluster-id", clusterID, "--config", propertiesFile}
	for _, name := range slices.Sorted(maps.Keys(o.Features)) {
		args = append(args, "--feature", fmt.Sprintf("%s=%d", name, o.Features[name]))
	}
	return append(args, o.Secure.formatArgs()...)
}

// nodeID is the KRaft node id of broker i.
func nodeID(i int) int { return i + 1 }

// newClusterID returns a random UUID as Kafka writes it. One that begins with a dash would be taken for an option.
func newClusterID() string {
	for {
		var id [16]byte
		_, _ = rand.Read(id[:]) // never fails, see crypto/rand
		if text := base64.RawURLEncoding.EncodeToString(id[:]); text[0] != '-' {
			return text
		}
	}
}

package kafkaclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pingTimeout bounds a whole ping: one dial of a bootstrap server and one of an advertised address.
const pingTimeout = 2*dialTimeout + 5*time.Second

// UnreachableError says which addresses were tried, what each answered, and what is likely wrong.
type UnreachableError struct {
	// Bootstrap are the configured addresses, Advertised those that the brokers announced; the latter are empty where
	// no bootstrap server answered.
	Bootstrap, Advertised []string
	// Errs are the answers, of the advertised addresses if there are any, else of the bootstrap servers.
	Errs []error
}

func (e *UnreachableError) Error() string {
	var b strings.Builder
	addrs := e.Bootstrap
	if len(e.Advertised) == 0 {
		fmt.Fprintf(&b, "cannot reach Kafka: none of bootstrap_servers [%s] answered", strings.Join(e.Bootstrap, ", "))
	} else {
		// A reachable bootstrap server does not help where the addresses that the brokers advertise are wrong for
		// this host (proxies, port forwarding, containers): every later request goes to those.
		addrs = e.Advertised
		fmt.Fprintf(&b, "cannot reach Kafka: bootstrap_servers [%s] answered, but none of the addresses that the brokers "+
			"advertise can be reached from here [%s]; check the brokers' advertised.listeners, port forwarding and proxies",
			strings.Join(e.Bootstrap, ", "), strings.Join(e.Advertised, ", "))
	}
	for i, err := range e.Errs {
		if err != nil && i < len(addrs) {
			fmt.Fprintf(&b, "; %s: %v", addrs[i], WithCause(err))
		}
	}
	return b.String()
}

// Unwrap returns the answers of the addresses.
func (e *UnreachableError) Unwrap() []error { return e.Errs }

// Ping returns the cluster's id after making sure that a bootstrap server and at least one broker, at the address it
// advertises, answer. The id is empty where the cluster has none. Its error names the addresses and the likely causes.
// It says in the log what it waits for where that takes long.
func Ping(ctx context.Context, cl *kgo.Client, log *slog.Logger) (clusterID string, err error) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()

	seeds := Bootstrap(cl)
	defer Slow(log, seeds, "a first answer of the cluster")()
	errs, ok := firstAnswer(ctx, cl.SeedBrokers())
	if !ok {
		return "", &UnreachableError{Bootstrap: seeds, Errs: explainAll(ctx, cl, seeds, errs)}
	}
	// Asked through the client, the answer also tells the client its brokers.
	kresp, err := cl.Request(ctx, metadataRequest())
	if err != nil {
		return "", &UnreachableError{Bootstrap: seeds, Errs: []error{err}}
	}
	meta := kresp.(*kmsg.MetadataResponse)
	if len(meta.Brokers) == 0 {
		return "", fmt.Errorf("bootstrap_servers [%s] answered without naming any broker: the cluster is still starting",
			strings.Join(seeds, ", "))
	}
	brokers := make([]*kgo.Broker, len(meta.Brokers))
	advertised := make([]string, len(meta.Brokers))
	for i, b := range meta.Brokers {
		brokers[i] = cl.Broker(int(b.NodeID))
		advertised[i] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	if errs, ok = firstAnswer(ctx, brokers); !ok {
		return "", &UnreachableError{Bootstrap: seeds, Advertised: advertised, Errs: explainAll(ctx, cl, advertised, errs)}
	}
	if meta.ClusterID != nil {
		clusterID = *meta.ClusterID
	}
	return clusterID, nil
}

// explainAll asks the listeners that hung up what they want, one at a time: one of them is as a rule all there is.
func explainAll(ctx context.Context, cl *kgo.Client, addrs []string, errs []error) []error {
	out := slices.Clone(errs)
	for i := range out {
		if i < len(addrs) && out[i] != nil {
			out[i] = explainListener(ctx, cl, addrs[i], out[i])
		}
	}
	return out
}

// Bootstrap are the bootstrap servers that a client was made with.
func Bootstrap(cl *kgo.Client) []string {
	seeds, _ := cl.OptValue(kgo.SeedBrokers).([]string)
	return seeds
}

func metadataRequest() *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none: brokers and cluster id are all we ask for
	return req
}

// firstAnswer asks all brokers at once and tells whether one answered, else every broker's error. One bad address in
// the list costs nothing that way.
func firstAnswer(ctx context.Context, brokers []*kgo.Broker) ([]error, bool) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()

	type answer struct {
		i   int
		err error
	}
	answers := make(chan answer, len(brokers))
	for i, b := range brokers {
		wg.Go(func() {
			_, err := b.Request(ctx, metadataRequest())
			answers <- answer{i, err}
		})
	}
	errs := make([]error, len(brokers))
	for range brokers {
		a := <-answers
		if a.err == nil {
			return nil, true
		}
		errs[a.i] = a.err
	}
	if len(errs) == 0 {
		errs = []error{errors.New("no broker known")}
	}
	return errs, false
}

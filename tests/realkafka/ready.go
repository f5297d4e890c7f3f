package realkafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/child"
)

// awaitReady waits until broker i answers, counts itself among the live brokers and sees at least want of them.
func (c *Cluster) awaitReady(ctx context.Context, p *child.Process, i, want int) error {
	addr := c.endpoints[i].clientAddr()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return fmt.Errorf("making a client for broker %d: %w", i, err)
	}
	defer client.Close()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx, client, nodeID(i), want)
		if err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("broker %d has ended: %w%s", i, p.Err(), c.logTail(i))
		case <-ctx.Done():
			return fmt.Errorf("broker %d at %s is not ready (%w): %w%s", i, addr, ctx.Err(), err, c.logTail(i))
		case <-tick.C:
		}
	}
}

// ready asks the client's one seed broker for the cluster's metadata, and tells what is still missing.
func ready(ctx context.Context, client *kgo.Client, node, want int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{} // none: only the brokers
	response, err := request.RequestWith(ctx, client.SeedBrokers()[0])
	if err != nil {
		return err
	}
	live := false
	for _, broker := range response.Brokers {
		live = live || broker.NodeID == int32(node)
	}
	switch {
	case !live:
		return fmt.Errorf("node %d does not count itself among the live brokers yet", node)
	case len(response.Brokers) < want:
		return fmt.Errorf("node %d sees %d of %d brokers", node, len(response.Brokers), want)
	case response.ControllerID < 0:
		return fmt.Errorf("node %d knows no controller", node)
	}
	return nil
}

// logTail is the end of broker i's log, to be appended to an error.
func (c *Cluster) logTail(i int) string { return child.Tail(c.LogFile(i), 40) }

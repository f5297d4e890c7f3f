package txn

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// longestTimeout is Flink's default transaction timeout (KafkaSinkBuilder), and the most that is asked for unasked.
	longestTimeout = time.Hour
	// defaultMaxTimeout is Kafka's default of transaction.max.timeout.ms.
	defaultMaxTimeout = 15 * time.Minute
	// initAtOnce bounds how many ids are initialised at a time.
	initAtOnce = 8
)

// Timeouts are the transaction timeouts to try, best first, with what is known of the broker's limit.
type Timeouts struct {
	Candidates []time.Duration
	// Max is the broker's transaction.max.timeout.ms, 0 where it could not be read.
	Max time.Duration
}

// Timeouts works out the transaction timeout: what is wanted, or where that is 0 the broker's maximum, at most 1 h.
// Where the broker does not tell its maximum, 1 h is to be tried, then Kafka's default of 15 min. An error means that no
// broker answered.
func (b *Broker) Timeouts(ctx context.Context, want time.Duration) (Timeouts, error) {
	limit, err := b.maxTimeout(ctx)
	if err != nil {
		return Timeouts{}, fmt.Errorf("reading the broker's transaction.max.timeout.ms: %w", err)
	}
	switch {
	case want > 0:
		return Timeouts{Candidates: []time.Duration{want}, Max: limit}, nil
	case limit > 0:
		return Timeouts{Candidates: []time.Duration{min(limit, longestTimeout)}, Max: limit}, nil
	}
	return Timeouts{Candidates: []time.Duration{longestTimeout, defaultMaxTimeout}}, nil
}

// maxTimeout returns transaction.max.timeout.ms, or 0 where the broker does not tell.
func (b *Broker) maxTimeout(ctx context.Context) (time.Duration, error) {
	meta := kmsg.NewPtrMetadataRequest()
	meta.Topics = []kmsg.MetadataRequestTopic{}
	brokers, err := meta.RequestWith(ctx, b.current)
	if err != nil {
		return 0, err
	}
	// One that is listed can still be away, so each is asked until one answers.
	err = errors.New("the cluster lists no broker")
	for _, node := range brokers.Brokers {
		var limit time.Duration
		if limit, err = b.maxTimeoutOf(ctx, node.NodeID); err == nil || ctx.Err() != nil {
			return limit, err
		}
	}
	return 0, err
}

func (b *Broker) maxTimeoutOf(ctx context.Context, node int32) (time.Duration, error) {
	const name = "transaction.max.timeout.ms"
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType = kmsg.ConfigResourceTypeBroker
	resource.ResourceName = strconv.Itoa(int(node))
	resource.ConfigNames = []string{name}
	req.Resources = append(req.Resources, resource)
	resp, err := req.RequestWith(ctx, b.current.Broker(int(node)))
	if err != nil {
		return 0, err
	}
	for _, r := range resp.Resources {
		err := kerr.ErrorForCode(r.ErrorCode)
		if err != nil && again(err) {
			return 0, err
		}
		for _, c := range r.Configs {
			if c.Name == name && c.Value != nil {
				ms, err := strconv.ParseInt(*c.Value, 10, 64)
				if err == nil && ms > 0 {
					return time.Duration(ms) * time.Millisecond, nil
				}
			}
		}
	}
	return 0, nil // not allowed, or not told
}

// Init initialises ids, which aborts what was open in them and fences whoever still uses them. It returns the
// transaction timeout the broker accepted. What can be tried again is, until the context ends; any other error names
// the id and what to do.
func (b *Broker) Init(ctx context.Context, ids []string, timeouts Timeouts) (time.Duration, error) {
	if len(ids) == 0 {
		return timeouts.Candidates[0], nil
	}
	// The first id alone finds out which timeout the broker accepts.
	var accepted time.Duration
	var err error
	for _, accepted = range timeouts.Candidates {
		if err = b.initID(ctx, ids[0], accepted, timeouts.Max); err == nil {
			break
		}
		var refused *TimeoutError
		if !errors.As(err, &refused) {
			return 0, err
		}
	}
	if err != nil {
		return 0, err
	}
	return accepted, b.initAll(ctx, ids[1:], accepted, timeouts.Max)
}

func (b *Broker) initAll(ctx context.Context, ids []string, timeout, limit time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg    sync.WaitGroup
		once  sync.Once
		first error // the others are its consequence
		slots = make(chan struct{}, initAtOnce)
	)
	for _, id := range ids {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := b.initID(ctx, id, timeout, limit); err != nil {
				once.Do(func() { first = err; cancel() })
			}
		})
	}
	wg.Wait()
	return first
}

// initID initialises one id.
func (b *Broker) initID(ctx context.Context, id string, timeout, limit time.Duration) error {
	what := fmt.Sprintf("initialising transactional id %q", id)
	err := b.persist(ctx, what, func(ctx context.Context) error {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID = &id
		req.TransactionTimeoutMillis = int32(timeout.Milliseconds())
		resp, err := req.RequestWith(ctx, b.current)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.InvalidTransactionTimeout):
		return &TimeoutError{TransactionalID: id, Want: timeout, Max: limit}
	case errors.Is(err, kerr.UnsupportedVersion):
		return &UnsupportedError{What: "transactions", Err: err}
	}
	return b.refusal(id, "Write", fmt.Errorf("%s: %w", what, err))
}

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

	"github.com/tidegate/tidegate/internal/kafkaclient"
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
	defer kafkaclient.Slow(b.log, kafkaclient.Bootstrap(b.current), "the broker's transaction.max.timeout.ms")()
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

// owner is what the coordinator gave whoever initialised an id last.
type owner struct {
	producerID int64
	epoch      int16
}

// anyOwner takes an id from whoever has it.
var anyOwner = owner{-1, -1}

// Init initialises ids, which aborts what was open in them and fences whoever still uses them. It returns the
// transaction timeout the broker accepted. What can be tried again is, until the context ends; any other error names
// the id and what to do. Where another owner has moved an id since before was noted, none is initialised, and the error
// is a *FencedError; a nil before takes the ids from whoever has them. topics are those the ids have written to, as far
// as they are known.
func (b *Broker) Init(ctx context.Context, ids, topics []string, timeouts Timeouts, before Standing) (time.Duration, error) {
	accepted, _, err := b.takeOver(ctx, ids, topics, timeouts, before)
	return accepted, err
}

// takeOver is Init, and tells what each id is owned as from here on.
func (b *Broker) takeOver(
	ctx context.Context, ids, topics []string, timeouts Timeouts, before Standing,
) (accepted time.Duration, owned map[string]owner, err error) {
	noted, err := b.unmoved(ctx, before)
	if err != nil {
		return 0, nil, err
	}
	// What was committed is mended while the coordinator knows of it, and what the initialisation aborts behind it.
	m := mending{ids: ids, topics: topics, blind: before != nil}
	if err := b.mend(ctx, m); err != nil {
		return 0, nil, err
	}
	if accepted, owned, err = b.initIDs(ctx, ids, timeouts, noted); err != nil {
		return 0, nil, err
	}
	return accepted, owned, b.mend(ctx, m)
}

// initIDs initialises each id as the owner noted, else as any.
func (b *Broker) initIDs(
	ctx context.Context, ids []string, timeouts Timeouts, noted map[string]owner,
) (accepted time.Duration, owned map[string]owner, err error) {
	owned = make(map[string]owner, len(ids))
	if len(ids) == 0 {
		return timeouts.Candidates[0], owned, nil
	}
	as := make(map[string]owner, len(ids))
	for _, id := range ids {
		as[id] = anyOwner
		if known, ok := noted[id]; ok {
			as[id] = known
		}
	}
	// Where there is only one timeout to try, nobody waits for the first id: an id whose last owner died in the middle of
	// a transaction answers only once that is aborted.
	if len(timeouts.Candidates) == 1 {
		accepted = timeouts.Candidates[0]
		return accepted, owned, b.initAll(ctx, ids, as, accepted, timeouts.Max, owned)
	}
	// Else the first id alone finds out which timeout the broker accepts.
	for _, accepted = range timeouts.Candidates {
		if owned[ids[0]], err = b.initAs(ctx, ids[0], as[ids[0]], accepted, timeouts.Max); err == nil {
			break
		}
		var refused *TimeoutError
		if !errors.As(err, &refused) {
			return 0, nil, err
		}
	}
	if err != nil {
		return 0, nil, err
	}
	return accepted, owned, b.initAll(ctx, ids[1:], as, accepted, timeouts.Max, owned)
}

func (b *Broker) initAll(
	ctx context.Context, ids []string, as map[string]owner, timeout, limit time.Duration, owned map[string]owner,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		first error // the others are its consequence
		slots = make(chan struct{}, initAtOnce)
	)
	for _, id := range ids {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			now, err := b.initAs(ctx, id, as[id], timeout, limit)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				owned[id] = now
			case first == nil:
				first = err
				cancel()
			}
		})
	}
	wg.Wait()
	return first
}

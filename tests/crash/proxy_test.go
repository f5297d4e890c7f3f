package crash

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/tests/kafkaproxy"
)

const (
	// awhile is how long a network trouble that is not over at once lasts.
	awhile = 3 * time.Second
	// hitLimit is how long a request may not be sent: after one that was never answered the client waits long.
	hitLimit = 45 * time.Second
)

// hindrance is what the proxy does to one kind of frame.
type hindrance struct {
	rule   kafkaproxy.Rule
	stream uint64
}

func hindrances() []hindrance {
	var all []hindrance
	for _, key := range []kmsg.Key{kmsg.EndTxn, kmsg.InitProducerID, kmsg.Produce, kmsg.AddPartitionsToTxn, kmsg.OffsetCommit} {
		for _, side := range []kafkaproxy.Side{kafkaproxy.Request, kafkaproxy.Answer} {
			for _, effect := range []kafkaproxy.Effect{kafkaproxy.Drop, kafkaproxy.Delay, kafkaproxy.Cut} {
				for times := range 2 {
					all = append(all, hindrance{
						kafkaproxy.Rule{Key: key, Side: side, Effect: effect, Delay: 700 * time.Millisecond, Times: times}, uint64(len(all)),
					})
				}
			}
		}
	}
	return all
}

func (h hindrance) String() string {
	if h.rule.Times == 0 {
		return fmt.Sprintf("proxy: %v for %v", h.rule, awhile)
	}
	return fmt.Sprintf("proxy: %v once", h.rule)
}

// proxies hinders each kind of request and of answer, and then severs the network for longer than every timeout.
func (w *ward) proxies(t *testing.T) {
	cluster := clusterOf(t, w.tv)
	all := hindrances()
	queue := make(chan hindrance, len(all))
	for _, h := range all {
		queue <- h
	}
	close(queue)
	var wg sync.WaitGroup
	for i := range 5 {
		su := w.newSufferer(t, patient, cluster, uint64(i))
		wg.Go(func() {
			for h := range queue {
				if err := w.hinder(su, h); err != nil {
					t.Errorf("%v: %v", h, err)
					return
				}
			}
			su.end(t, "proxy: all of one pipeline")
		})
	}
	wg.Wait()
	for i, limit := range []time.Duration{2 * time.Second, 15 * time.Second} {
		su := w.newSufferer(t, patient, cluster, uint64(100+i))
		su.begin()
		require.NoError(t, su.goOn())
		su.proxy.Sever(true)
		<-time.After(limit)
		su.proxy.Sever(false)
		err := su.heal()
		what := fmt.Sprintf("proxy: network severed for %v", limit)
		fmt.Printf("%s, transaction.version %d: %s, longest pause %v\n", what, w.tv, su.line(), su.longestPause.Round(time.Millisecond))
		require.NoError(t, err)
		su.end(t, what)
	}
}

// hinder lets a pipeline go through one hindrance.
func (w *ward) hinder(su *sufferer, h hindrance) error {
	su.begin()
	if err := su.goOn(); err != nil {
		return err
	}
	began := time.Now()
	su.proxy.Set(h.rule)
	if h.rule.Key == kmsg.InitProducerID { // comes in a recovery only
		su.p.Kill()
		if err := su.run(); err != nil {
			return err
		}
	}
	limit, brokerAdds := hitLimit, h.rule.Key == kmsg.AddPartitionsToTxn && w.tv >= 2
	if brokerAdds {
		limit = time.Second
	}
	su.awaitHit(limit)
	if h.rule.Times == 0 {
		if err := su.followFor(su.p, awhile); err != nil && !errors.Is(err, errEnded) {
			return err
		}
	}
	hits := su.proxy.Clear()
	if brokerAdds != (hits == 0) {
		return fmt.Errorf("the proxy acted %d times", hits)
	}
	if hits == 0 {
		fmt.Printf("%v, transaction.version %d: is not sent, the broker adds them by itself\n", h, w.tv)
		return nil
	}
	err := su.heal()
	fmt.Printf("%v, transaction.version %d: acted %d times, %s, over after %v\n", h, w.tv, hits, su.line(), time.Since(began).Round(100*time.Millisecond))
	if err == nil && su.dirty() {
		err = fmt.Errorf("%s, first %v", su.line(), su.checker.found.first)
	}
	return err
}

// awaitHit waits until the proxy has acted, the pipeline has ended, or the time is up.
func (su *sufferer) awaitHit(limit time.Duration) {
	timeUp := time.After(limit)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for su.proxy.Hits() == 0 {
		select {
		case <-su.p.Done():
			return
		case <-timeUp:
			return
		case <-tick.C:
		}
	}
}

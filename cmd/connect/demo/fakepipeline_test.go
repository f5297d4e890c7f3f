package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/devbroker"
)

// The tests run this test binary as the pipeline: asFake is set, and says how it behaves.
const asFake = "TIDEGATE_TEST_FAKE_PIPELINE"

func TestMain(m *testing.M) {
	mode := os.Getenv(asFake)
	if mode == "" {
		os.Exit(m.Run())
	}
	if err := fakePipeline(mode, os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// fakePipeline is a small copier, exactly once because it looks up in the output what it has done already. Its modes
// are the ways in which a pipeline can be broken.
func fakePipeline(mode, confPath string) error {
	switch mode {
	case "idle":
		return nil
	case "crashing":
		return errors.New("this pipeline is out of order")
	case "hanging":
		select {}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conf, err := os.ReadFile(confPath)
	if err != nil {
		return err
	}
	bootstrap := []string{string(regexp.MustCompile(`bootstrap_servers: \[ "([^"]+)"`).FindSubmatch(conf)[1])}
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.TransactionalID("fake"), kgo.DefaultProduceTopic(topicOut),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer cl.Close()
	if _, _, err := cl.ProducerID(ctx); err != nil { // aborts what a killed one has left open
		return err
	}
	done, in, err := lookUp(ctx, bootstrap)
	if err != nil {
		return err
	}
	return copyRest(ctx, cl, mode, done, in)
}

// lookUp returns the numbers that are in the output, and the records of the input.
func lookUp(ctx context.Context, bootstrap []string) (done map[int64]bool, in []*kgo.Record, err error) {
	done = map[int64]bool{}
	for _, topic := range []string{topicOut, topicIn} {
		fence, err := devbroker.FenceOf(ctx, bootstrap, topic)
		if err != nil {
			return nil, nil, err
		}
		o, err := devbroker.Observe(bootstrap, topic)
		if err != nil {
			return nil, nil, err
		}
		defer o.Close()
		err = o.PollTo(ctx, fence, func(r *kgo.Record) {
			n, _ := devbroker.Number(r)
			if topic == topicOut {
				done[n] = true
			} else {
				in = append(in, r)
			}
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return done, in, nil
}

// copyRest copies what is not done yet in transactions of a fiftieth of the work, slowly enough to be killed in between.
// After a restart, a lossy one leaves out the first record that it finds undone, and a doubling one copies the first
// that it finds done.
func copyRest(ctx context.Context, cl *kgo.Client, mode string, done map[int64]bool, in []*kgo.Record) error {
	tick := time.NewTicker(40 * time.Millisecond)
	defer tick.Stop()
	restarted := len(done) > 0
	size := len(in)/50 + 1 // no divisor, so there is something left for a last transaction
	open := 0
	for _, r := range in {
		n, _ := devbroker.Number(r)
		switch {
		case devbroker.Cancelled(n):
			continue
		case done[n] && mode == "doubling" && restarted:
			restarted = false
		case done[n]:
			continue
		case mode == "lossy" && restarted:
			restarted = false
			continue
		}
		if open == 0 {
			if err := cl.BeginTransaction(); err != nil {
				return err
			}
		}
		value := fmt.Appendf(nil, `{"n":%d,"customer":"%s","cents":%d,"vat_cents":%d}`, n, r.Key, devbroker.Cents(n), devbroker.Cents(n)*19/100)
		if mode == "careless" {
			r.Headers = r.Headers[:4]
		}
		cl.Produce(ctx, &kgo.Record{Key: r.Key, Value: value, Headers: r.Headers, Timestamp: r.Timestamp, Partition: r.Partition}, nil)
		if open++; open == size {
			if err := commit(ctx, cl); err != nil {
				return err
			}
			open = 0
			<-tick.C
		}
	}
	switch {
	case open == 0:
		return nil
	case mode == "forgetful": // ends with its last transaction flushed and open
		return cl.Flush(ctx)
	}
	return commit(ctx, cl)
}

func commit(ctx context.Context, cl *kgo.Client) error {
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	return cl.EndTransaction(ctx, kgo.TryCommit)
}

// fakeCommand runs this test binary as a fake pipeline.
func fakeCommand(t *testing.T, mode string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asFake, mode)
	return []string{self}
}

package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/tests/binary"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// standInEnv makes the test binary a pipeline that is simpler than Tidegate and wrong: it commits positions "before"
// or "after" the records they cover, and never together with them.
const standInEnv = "TIDEGATE_TEST_STAND_IN"

func TestMain(m *testing.M) {
	if how := os.Getenv(standInEnv); how != "" {
		if err := standIn(how, os.Args[len(os.Args)-1]); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	code := realkafka.Run(m)
	if killableDir != "" {
		_ = os.RemoveAll(killableDir)
	}
	os.Exit(code)
}

var (
	// killableDir is where the binary with kill points is, which many tests share; empty before it is built.
	killableDir   string
	buildKillable = sync.OnceValues(func() (path string, err error) {
		if killableDir, err = os.MkdirTemp("", "tidegate-crash-"); err != nil {
			return "", fmt.Errorf("making a folder for the binary: %w", err)
		}
		return binary.Build(killableDir, "-tags", "killpoints")
	})
)

// killable returns the path of the binary with kill points.
func killable(t *testing.T) string {
	t.Helper()
	path, err := buildKillable()
	require.NoError(t, err)
	return path
}

// TestTrialFindsWhatAWrongPipelineLosesAndDoubles shows that the crash test can fail, on a real Kafka and with real
// kills, and that a graceful stop of such a pipeline is in order.
func TestTrialFindsWhatAWrongPipelineLosesAndDoubles(t *testing.T) {
	cluster := realkafka.Shared(t)
	for _, tc := range []struct {
		how   string
		stall time.Duration
		check func(*testing.T, verdict, error)
	}{
		{"before", 5 * time.Second, func(t *testing.T, v verdict, err error) {
			require.ErrorContains(t, err, "nothing new has come out")
			require.Positive(t, v.lost, v)
			require.Zero(t, v.doubled, v)
		}},
		{"after", stallLimit, func(t *testing.T, v verdict, err error) {
			require.NoError(t, err)
			require.Positive(t, v.doubled, v)
			require.Zero(t, v.lost, v)
		}},
	} {
		t.Run(tc.how, func(t *testing.T) {
			t.Setenv(standInEnv, tc.how)
			tr, err := newTrial(scenarios[0], namesOf(t, cluster, 2), cluster, os.Args[0], rand.New(rand.NewPCG(1, 1)))
			require.NoError(t, err)
			defer tr.close()
			require.NoError(t, tr.strike(syscall.SIGTERM))
			for range 4 {
				require.NoError(t, tr.strike(syscall.SIGKILL))
			}
			tr.stall = tc.stall
			v, err := tr.finish()
			tc.check(t, v, err)
			require.Zero(t, v.altered+v.foreign+v.disordered, v)
			require.False(t, v.clean(false))
		})
	}
}

// standIn copies records as the config says until it is told to stop.
func standIn(how, conf string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Println("running")
	text, err := os.ReadFile(conf)
	if err != nil {
		return err
	}
	field := func(name string) string {
		return string(regexp.MustCompile(name + `: (?:\[ )?"?([^", \n]+)`).FindSubmatch(text)[1])
	}
	group, in, out := field("group_id"), field("topics"), field("topic")
	client, err := kgo.NewClient(kgo.SeedBrokers(field("bootstrap_servers")), kgo.DefaultProduceTopic(out))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	committed, err := fetchOffsets(ctx, admin, group)
	if err != nil {
		return err
	}
	at := map[int32]kgo.Offset{}
	for partition := range int32(partitions) {
		at[partition] = kgo.NewOffset().AtStart()
		if o, ok := committed.Lookup(in, partition); ok {
			at[partition] = kgo.NewOffset().At(o.At)
		}
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{in: at})
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil // nothing is in flight between two rounds
		}
		if err := copyRound(client, admin, fetches, how, group); err != nil {
			return err
		}
	}
}

// copyRound writes what was fetched and commits how far that goes, in the wrong order or in the less wrong one.
func copyRound(client *kgo.Client, admin *kadm.Client, fetches kgo.Fetches, how, group string) error {
	ctx := context.Background()
	commit := func() error {
		// Long enough for a kill to fall between writing and committing now and then.
		pause := time.NewTimer(100 * time.Millisecond)
		defer pause.Stop()
		if how == "after" {
			<-pause.C
		}
		offsets := kadm.OffsetsFromFetches(fetches)
		if err := admin.CommitAllOffsets(ctx, group, offsets); err != nil {
			return err
		}
		if how == "before" {
			<-pause.C
		}
		return nil
	}
	if how == "before" {
		if err := commit(); err != nil {
			return err
		}
	}
	var copies []*kgo.Record
	fetches.EachRecord(func(r *kgo.Record) {
		copies = append(copies, &kgo.Record{Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp})
	})
	if err := client.ProduceSync(ctx, copies...).FirstErr(); err != nil {
		return err
	}
	if how == "after" {
		return commit()
	}
	return nil
}

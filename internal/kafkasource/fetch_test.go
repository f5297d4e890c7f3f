package kafkasource

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidegate/tidegate/internal/kafkaclient"
)

// fetchesAsked is what a broker was asked for: the largest sizes, and what each request has to have.
type fetchesAsked struct {
	mu              sync.Mutex
	requests        int
	most, mostOfOne int32
	terms           map[fetchTerms]bool
}

type fetchTerms struct {
	minBytes, wait int32
	isolation      int8
	rack           string
}

// listen notes every fetch; the cluster changes a request afterwards.
func (a *fetchesAsked) listen(c *kfake.Cluster) {
	a.terms = map[fetchTerms]bool{}
	c.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		a.mu.Lock()
		defer a.mu.Unlock()
		req := kreq.(*kmsg.FetchRequest)
		a.requests++
		a.terms[fetchTerms{req.MinBytes, req.MaxWaitMillis, req.IsolationLevel, req.Rack}] = true
		a.most = max(a.most, req.MaxBytes)
		for _, topic := range req.Topics {
			for _, p := range topic.Partitions {
				a.mostOfOne = max(a.mostOfOne, p.PartitionMaxBytes)
			}
		}
		return nil, nil, false
	})
}

// TestBrokersAreAskedForWhatTheConfigSays looks at each fetch of a source that reads 8 MB, with what is set and without.
func TestBrokersAreAskedForWhatTheConfigSays(t *testing.T) {
	const partitions, each = 2, 2000
	for name, tc := range map[string]struct {
		properties map[string]any
		change     func(*Config)
		bytes      int32 // the most, of all partitions and of one
		ofOne      int32
		terms      fetchTerms
	}{
		"nothing is set": {bytes: fetchMaxBytes, ofOne: fetchMaxPartitionBytes, terms: fetchTerms{1, 500, 0, ""}},
		"sizes and times": {
			properties: map[string]any{"fetch.max.bytes": "300000", "max.partition.fetch.bytes": "100000", "fetch.min.bytes": "7", "fetch.max.wait.ms": "40"},
			bytes:      300000, ofOne: 100000, terms: fetchTerms{7, 40, 0, ""},
		},
		"isolation and rack": {
			change: func(c *Config) { c.ReadCommitted, c.Rack = true, "b" },
			bytes:  fetchMaxBytes, ofOne: fetchMaxPartitionBytes, terms: fetchTerms{1, 500, 1, "b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "a"), kfake.ClusterID("fake"))
			require.NoError(t, err)
			t.Cleanup(c.Close)
			fill(t, c.ListenAddrs(), "a", partitions, each, 2000, kgo.NoCompression())
			var heard fetchesAsked
			heard.listen(c)
			cfg := baseConfig(c.ListenAddrs(), "a")
			cfg.MaxBatch = 100
			var errs []error
			cfg.Connection.Properties, errs = kafkaclient.NewProperties(kafkaclient.Source, tc.properties)
			require.Empty(t, errs)
			if tc.change != nil {
				tc.change(&cfg)
			}
			s := newSource(t, cfg)
			s.resolve(nil)
			for left := partitions * each; left > 0; {
				b := s.next()
				require.LessOrEqual(t, len(b.Records), cfg.MaxBatch)
				left -= len(b.Records)
				b.Ack(t.Context(), nil)
			}
			heard.mu.Lock()
			defer heard.mu.Unlock()
			require.Positive(t, heard.requests)
			require.Equal(t, map[fetchTerms]bool{tc.terms: true}, heard.terms)
			require.LessOrEqual(t, heard.most, tc.bytes)
			require.LessOrEqual(t, heard.mostOfOne, tc.ofOne)
			require.Greater(t, heard.most, tc.bytes/5, "and not for a trifle where records take what they do on the wire")
		})
	}
}

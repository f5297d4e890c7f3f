package kafkasink

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/kafkaclient"
)

func TestPropertiesSetTheLimitsOfTheSinkAndWinOverItsDefaults(t *testing.T) {
	p, errs := kafkaclient.NewProperties(kafkaclient.Sink, map[string]any{
		"max.request.size": 2 << 20, "buffer.memory": 3 << 20, "delivery.timeout.ms": 7000, "linger.ms": 7, "batch.size": 0,
		"compression.type": "lz4",
	})
	require.Empty(t, errs)
	c := Config{Properties: p, Client: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}}.withDefaults()
	require.EqualValues(t, 2<<20, c.MaxMessageBytes)
	require.EqualValues(t, 3<<20, c.MaxBufferedBytes)
	require.Equal(t, 7*time.Second, c.DeliveryTimeout)
	client, err := kgo.NewClient(c.options()...)
	require.NoError(t, err)
	defer client.Close()
	require.Equal(t, 7*time.Millisecond, client.OptValue(kgo.ProducerLinger))
	require.Equal(t, []kgo.CompressionCodec{kgo.Lz4Compression()}, client.OptValue(kgo.ProducerBatchCompression))

	// The most that a property takes is what the client takes.
	for _, name := range []string{"max.request.size", "batch.size", "buffer.memory"} {
		most := map[string]any{"max.request.size": 64 << 20, "batch.size": 1<<31 - 1, "buffer.memory": 1 << 40}[name]
		p, errs := kafkaclient.NewProperties(kafkaclient.Sink, map[string]any{name: most})
		require.Empty(t, errs)
		client, err := kgo.NewClient(Config{Properties: p, Client: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}}.withDefaults().options()...)
		require.NoError(t, err, name)
		client.Close()
	}
}

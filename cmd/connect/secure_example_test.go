package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/devbroker"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// runSecureExample runs the example with TLS and a login on a real Kafka.
func runSecureExample(t *testing.T, file string) {
	cluster := realkafka.Start(t, realkafka.Options{Secure: &realkafka.Secure{Users: map[string]string{"orders": realkafka.Password}}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Bootstrap()...))
	require.NoError(t, err)
	defer client.Close()
	_, err = kadm.NewClient(client).CreateTopics(ctx, 4, 1, nil, "orders", "orders-copy")
	require.NoError(t, err)
	load := devbroker.Load{Topic: "orders", Partitions: 4, Records: 2000, Began: time.Now().Truncate(time.Millisecond)}
	require.NoError(t, load.Run(ctx, cluster.Bootstrap()))

	t.Setenv("BOOTSTRAP_SERVERS", cluster.Listener(realkafka.SASLSSL))
	t.Setenv("KAFKA_CA", cluster.Certs().CA)
	t.Setenv("KAFKA_PASSWORD", realkafka.Password)
	example{to: "orders-copy", group: "orders-copy", value: same}.copies(ctx, t, file, load, cluster.Bootstrap())
}

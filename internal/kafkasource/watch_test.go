package kafkasource

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/splits"
)

func watchedSource(t *testing.T, b *broker, topics ...string) *source {
	cfg := baseConfig(b.servers, topics...)
	cfg.MetadataInterval = 20 * time.Millisecond
	s := newSource(t, cfg)
	s.resolve(nil)
	return s
}

func TestPartitionThatAppearsWhileRunningEndsTheStreamAloud(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	s := watchedSource(t, b, "a")
	stays(t, s.seat.fatal)
	_, err := b.admin.CreatePartitions(t.Context(), 1, "a")
	require.NoError(t, err)
	err = receive(t, s.seat.fatal, "the end")
	var added *splits.NewPartitionsError
	require.ErrorAs(t, err, &added)
	require.Equal(t, []splits.Partition{{Topic: "a", Partition: 1}}, added.Partitions)
	require.Contains(t, s.log.String(), "level=ERROR")
	stays(t, s.seat.fatal)
}

func TestTopicDeletedWhileRunningEndsTheStream(t *testing.T) {
	b := fakeBroker(t, 1, "a", "b")
	s := watchedSource(t, b, "a", "b")
	_, err := b.admin.DeleteTopics(t.Context(), "b")
	require.NoError(t, err)
	err = receive(t, s.seat.fatal, "the end")
	var gone *splits.VanishedError
	require.ErrorAs(t, err, &gone)
	require.Equal(t, []splits.Partition{{Topic: "b", Partition: 0}}, gone.Partitions)
}

func TestTopicRecreatedWhileRunningEndsTheStream(t *testing.T) {
	b := fakeBroker(t, 1, "a")
	cfg := baseConfig(b.servers, "a")
	cfg.MetadataInterval = 20 * time.Millisecond
	s := newSource(t, cfg)
	state, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	_, err = b.admin.DeleteTopics(t.Context(), "a")
	require.NoError(t, err)
	_, err = b.admin.CreateTopic(t.Context(), 1, 1, nil, "a")
	require.NoError(t, err)
	s.Start(tag(1), state)
	err = receive(t, s.seat.fatal, "the end")
	var recreated *splits.RecreatedError
	require.ErrorAs(t, err, &recreated)
	require.Equal(t, "a", recreated.Topic)
}

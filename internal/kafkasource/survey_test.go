package kafkasource

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/offsets"
	"github.com/tidegate/tidegate/internal/splits"
)

func surveyOf(t testing.TB, cfg Config) *Survey {
	t.Helper()
	s, err := NewSurvey(cfg)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.NoError(t, s.Connect(t.Context()))
	return s
}

// requireAgreement has a survey say what a start has done.
func requireAgreement(t testing.TB, state checkpoint.SourceState, looked []Outlook) {
	t.Helper()
	require.Len(t, looked, len(state.Splits))
	for i, s := range state.Splits {
		require.Equal(t, at(s), looked[i].Partition)
		require.Equal(t, s.Offset, looked[i].Offset)
		require.Equal(t, s.Stop, looked[i].Stop)
		require.NotEmpty(t, looked[i].Rule)
	}
}

func TestSurveyTellsTheRuleOfEachPartitionAndWhatItReplaces(t *testing.T) {
	b := fakeBroker(t, 3, "a")
	for p := range int32(3) {
		b.produce("a", p, "0", "1", "2", "3")
	}
	b.deleteRecords("a", 1, 2)
	b.commit("g", "a", 3, 1)
	cfg := baseConfig(b.servers, "a")
	cfg.Group = "g"
	cfg.Start = offsets.Start{Mode: offsets.GroupStart, Group: "g", Reset: offsets.ResetLatest}
	cfg.Stop = offsets.Stop{Mode: offsets.SpecificStop, Offsets: offsets.Specific{splits.Partition{Topic: "a"}: 9}}
	looked, err := surveyOf(t, cfg).Look(t.Context(), nil)
	require.NoError(t, err)
	part := func(n int32) splits.Partition { return splits.Partition{Topic: "a", Partition: n} }
	lost := int64(1)
	require.Equal(t, []Outlook{
		{Partition: part(0), Offset: 3, Stop: 9, Rule: offsets.FromCommitted, LogEnd: 4},
		{Partition: part(1), Offset: 4, Stop: 1, Rule: offsets.FromResetLatest, Replaces: &lost, LogStart: 2, LogEnd: 4},
		{Partition: part(2), Offset: 4, Stop: 0, Rule: offsets.FromResetLatest, LogEnd: 4},
	}, looked)
	got := b.committed("g", "a")
	require.Len(t, got, 2, "the group is as it was")
	require.EqualValues(t, 1, got[1].At)
}

func TestSurveyOfACheckpointShowsWhatIsRestoredKeptAndNew(t *testing.T) {
	b := fakeBroker(t, 2, "a", "b")
	b.produce("a", 0, "0", "1", "2")
	b.produce("a", 1, "0", "1", "2")
	cfg := baseConfig(b.servers, "a")
	restored, err := newSource(t, cfg).Resolve(t.Context(), nil)
	require.NoError(t, err)
	restored.Splits = []checkpoint.Split{restored.Splits[0], {Topic: "b", Partition: 1, Offset: 7, Stop: checkpoint.NoStop}}
	restored.Splits[0].Offset = 1
	b.deleteRecords("a", 0, 2)

	s := surveyOf(t, cfg)
	_, err = s.Look(t.Context(), &restored)
	require.ErrorContains(t, err, "a-0 at 1, log starts at 2")

	cfg.Restore.Policy = offsets.EarliestOutOfRange
	s = surveyOf(t, cfg)
	require.NoError(t, s.Verify(t.Context(), restored))
	looked, err := s.Look(t.Context(), &restored)
	require.NoError(t, err)
	lost := int64(1)
	never := checkpoint.NoStop
	require.Equal(t, []Outlook{
		{Partition: splits.Partition{Topic: "a"}, Offset: 2, Stop: never, Rule: offsets.FromOutOfRange, Replaces: &lost, LogStart: 2, LogEnd: 3},
		{Partition: splits.Partition{Topic: "a", Partition: 1}, Stop: never, Rule: offsets.FromNewPartition, LogEnd: 3},
		{Partition: splits.Partition{Topic: "b", Partition: 1}, Offset: 7, Stop: never, Rule: offsets.FromCheckpoint,
			LogStart: -1, LogEnd: -1, Unread: "no longer subscribed"},
	}, looked)
	state, err := newSource(t, cfg).Resolve(t.Context(), &restored)
	require.NoError(t, err)
	requireAgreement(t, state, looked)
}

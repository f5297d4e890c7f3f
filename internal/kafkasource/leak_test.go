package kafkasource

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/tests/leak"
)

// TestAttemptsLeaveNothingBehind goes through failovers: with a batch refused, with one never acknowledged in time, with a
// poll under way, and with an attempt replaced without a halt.
func TestAttemptsLeaveNothingBehind(t *testing.T) {
	b := fakeBroker(t, 4, "a")
	for p := range int32(4) {
		b.produce("a", p, "1", "2", "3")
	}
	s := newSource(t, baseConfig(b.servers, "a"))
	state, err := s.Resolve(t.Context(), nil)
	require.NoError(t, err)
	leak.Repeat(t, 200, func(i int) {
		s.Start(checkpoint.Tag{Attempt: uint64(i + 1)}, state)
		batch := s.next()
		switch i % 4 {
		case 0:
			batch.Ack(t.Context(), errors.New("refused"))
			<-s.seat.failed
		case 1:
			batch.Ack(t.Context(), nil)
			for read := len(batch.Records); read < 12; { // and then a poll waits for more
				more := s.next()
				read += len(more.Records)
				more.Ack(t.Context(), nil)
			}
			waiting := s.background()
			require.NoError(t, s.Halt(t.Context()))
			s.Start(checkpoint.Tag{Attempt: uint64(i + 1)}, state)
			last := receive(t, waiting, fmt.Sprintf("a batch of attempt %d", i))
			require.NoError(t, last.err)
			last.Ack(t.Context(), nil)
		case 2:
			defer batch.Ack(t.Context(), nil)
			return // replaced as it is
		default:
			batch.Ack(t.Context(), nil)
		}
		require.NoError(t, s.Halt(t.Context()))
	})
}

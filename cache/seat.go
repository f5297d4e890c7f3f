package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// ErrTakenOver says that the stream's records were opened once more in this process: by a newer incarnation of the
// stream after a config reload, or by another stream that has the same id and uses the same state store.
var ErrTakenOver = errors.New("the stream's state was taken over by a newer incarnation, or by another stream of this " +
	"process with the same id and the same checkpoint.store")

// NumberError says that a record's number is not higher than every number before, also of records that are deleted.
type NumberError struct{ Number, Highest uint64 }

func (e *NumberError) Error() string {
	return fmt.Sprintf("record number %d is not higher than %d, the highest that was ever put", e.Number, e.Highest)
}

// recordKeeper keeps the records of one stream in one place. Its methods are called one at a time.
type recordKeeper interface {
	// load tells which records are there, in ascending order, and the highest number ever put.
	load() (numbers []uint64, highest uint64, err error)
	// read returns a record that load has told of.
	read(number uint64) ([]byte, error)
	// secure makes durable what load told and what read returns for a number; 0 where load told of none.
	secure(number uint64) error
	// write puts a record durably and removes those in drop, which is not vital. An error that wraps
	// checkpoint.ErrNotWritten is certain, any other leaves the outcome unknown.
	write(number uint64, data []byte, drop []uint64) error
	// clear removes all records durably, and keeps the highest number.
	clear(numbers []uint64, highest uint64) error
	// describe names the place.
	describe() string
}

// seats are the streams of one place.
type seats struct {
	newKeeper func(streamID string) recordKeeper

	mu       sync.Mutex
	byStream map[string]*seat
}

func newSeats(newKeeper func(streamID string) recordKeeper) *seats {
	return &seats{newKeeper: newKeeper, byStream: map[string]*seat{}}
}

func (s *seats) of(streamID string) *seat {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.byStream[streamID]
	if st == nil {
		st = &seat{keeper: s.newKeeper(streamID), turn: make(chan struct{}, 1)}
		s.byStream[streamID] = st
	}
	return st
}

// seat is the one place from which a stream's records are read and written, by one store at a time.
type seat struct {
	keeper recordKeeper
	// turn is held during a call, and guards what follows.
	turn    chan struct{}
	holder  *recordStore
	loaded  bool // numbers is what the keeper holds
	numbers []uint64
	highest uint64
}

func (s *seat) enter(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for a write to %s: %w", s.keeper.describe(), ctx.Err())
	}
}

func (s *seat) leave() { <-s.turn }

// refresh loads what the keeper holds, unless it is known.
func (s *seat) refresh() error {
	if s.loaded {
		return nil
	}
	numbers, highest, err := s.keeper.load()
	if err != nil {
		return fmt.Errorf("listing records: %w", withRemedy(err))
	}
	if n := len(numbers); n > 0 {
		highest = max(highest, numbers[n-1])
	}
	// A number whose write ended unknown counts as used, whether it is there or not.
	s.numbers, s.highest, s.loaded = numbers, max(s.highest, highest), true
	return nil
}

// put writes a record and keeps the newest retained ones.
func (s *seat) put(number uint64, data []byte, retained int) error {
	if number <= s.highest {
		return fmt.Errorf("%w: %w", checkpoint.ErrNotWritten, &NumberError{Number: number, Highest: s.highest})
	}
	drop := s.numbers[:max(0, len(s.numbers)+1-retained)]
	err := s.keeper.write(number, data, drop)
	switch {
	case err == nil:
		s.numbers = append(slices.Clone(s.numbers[len(drop):]), number)
		s.highest = number
	case errors.Is(err, checkpoint.ErrNotWritten):
	default:
		s.highest, s.loaded = number, false
	}
	return err
}

// clear deletes all records and keeps the highest number.
func (s *seat) clear() error {
	if len(s.numbers) == 0 {
		// The last clear may have ended unknown.
		return s.keeper.secure(0)
	}
	if err := s.keeper.clear(s.numbers, s.highest); err != nil {
		s.loaded = false
		return err
	}
	s.numbers = nil
	return nil
}

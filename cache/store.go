package cache

import (
	"context"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// Store keeps the records of one stream. Beside the contract of checkpoint.Store:
//
// Latest returns the highest number that was ever put together with ErrNoRecord, so that whoever starts anew after
// DeleteAll knows where to go on counting; it is 0 where nothing was ever put.
//
// Put and DeleteAll return when the outcome is known, however long the disk takes: the context only bounds the wait
// for an earlier call. Put leaves the newest records that `retained` asks for and removes the others.
//
// A Store outlives the cache it was opened through, and is not to be used after its own Close. After the stream's records
// were opened once more, it refuses every call with ErrTakenOver.
type Store interface {
	checkpoint.Store
	// Close gives the place back, which is closed when no cache and no other store uses it.
	Close(ctx context.Context) error
	// StoreID is a UUID that was made with the store, and tells it from every other.
	StoreID() string
	// Durable tells whether records survive the process.
	Durable() bool
}

// claim is what keeps a place open while a store works in it.
type claim interface {
	enter(ctx context.Context) (opened, error)
	leave()
	close(ctx context.Context) error
}

// recordStore is a Store on a seat.
type recordStore struct {
	claim    claim
	seat     *seat
	retained int
	id       string
	durable  bool
	health   *health
	fs       vfs.FS // nil in memory
	name     string // kind and label of the cache
}

// takeSeat opens a stream's records: it waits for the call of a store that was opened before, and shuts it out.
func takeSeat(ctx context.Context, s *recordStore) (Store, error) {
	if s.retained < 1 {
		return nil, fmt.Errorf("checkpoint.retained is %d: at least the newest record must be kept, write 1 or more", s.retained)
	}
	if err := s.seat.enter(ctx); err != nil {
		return nil, err
	}
	defer s.seat.leave()
	if err := s.seat.refresh(); err != nil {
		return nil, err
	}
	s.seat.holder = s
	return s, nil
}

// begin starts a call; end ends it, also where begin has returned an error.
func (s *recordStore) begin(ctx context.Context) (end func(), err error) {
	if _, err := s.claim.enter(ctx); err != nil {
		return func() {}, err
	}
	if err := s.seat.enter(ctx); err != nil {
		return s.claim.leave, err
	}
	end = func() { s.seat.leave(); s.claim.leave() }
	if s.seat.holder != s {
		return end, fmt.Errorf("%s: %w", s.Describe(), ErrTakenOver)
	}
	return end, s.seat.refresh()
}

func (s *recordStore) Latest(ctx context.Context) (uint64, []byte, error) {
	end, err := s.begin(ctx)
	defer end()
	if err != nil {
		return 0, nil, fmt.Errorf("reading the newest record: %w", err)
	}
	if len(s.seat.numbers) == 0 {
		// That there is none must last as well: a record that a power cut brings back is one that was given up.
		if err := s.seat.keeper.secure(0); err != nil {
			return 0, nil, fmt.Errorf("making it durable that there is no record: %w", withRemedy(err))
		}
		return s.seat.highest, nil, checkpoint.ErrNoRecord
	}
	number := s.seat.numbers[len(s.seat.numbers)-1]
	data, err := s.seat.keeper.read(number)
	if err != nil {
		return 0, nil, fmt.Errorf("reading record %d: %w", number, withRemedy(err))
	}
	if err := s.seat.keeper.secure(number); err != nil {
		return 0, nil, fmt.Errorf("making record %d durable again: %w", number, withRemedy(err))
	}
	return number, data, nil
}

func (s *recordStore) Put(ctx context.Context, number uint64, data []byte) error {
	end, err := s.begin(ctx)
	defer end()
	switch {
	case err != nil:
		return fmt.Errorf("putting record %d: %w: %w", number, checkpoint.ErrNotWritten, err)
	case len(data) > maxValue:
		return fmt.Errorf("putting record %d: %w: it has %d bytes, at most %d can be stored", number, checkpoint.ErrNotWritten,
			len(data), maxValue)
	}
	done := s.health.watch("writing a checkpoint record")
	err = s.seat.put(number, data, s.retained)
	done()
	if s.fs != nil {
		s.health.measure(s.fs)
	}
	if err != nil {
		s.health.failed()
		return fmt.Errorf("putting record %d: %w", number, err)
	}
	return nil
}

func (s *recordStore) Numbers(ctx context.Context) ([]uint64, error) {
	end, err := s.begin(ctx)
	defer end()
	if err != nil {
		return nil, fmt.Errorf("listing records: %w", err)
	}
	return slices.Clone(s.seat.numbers), nil
}

func (s *recordStore) Get(ctx context.Context, number uint64) ([]byte, error) {
	end, err := s.begin(ctx)
	defer end()
	if err != nil {
		return nil, fmt.Errorf("reading record %d: %w", number, err)
	}
	if _, found := slices.BinarySearch(s.seat.numbers, number); !found {
		return nil, fmt.Errorf("reading record %d: %w", number, checkpoint.ErrNoRecord)
	}
	data, err := s.seat.keeper.read(number)
	if err != nil {
		return nil, fmt.Errorf("reading record %d: %w", number, err)
	}
	return data, nil
}

func (s *recordStore) DeleteAll(ctx context.Context) error {
	end, err := s.begin(ctx)
	defer end()
	if err == nil {
		err = s.seat.clear()
	}
	if err != nil {
		return fmt.Errorf("deleting records: %w", err)
	}
	return nil
}

func (s *recordStore) Close(ctx context.Context) error { return s.claim.close(ctx) }

func (s *recordStore) Describe() string { return s.name + " (" + s.seat.keeper.describe() + ")" }
func (s *recordStore) StoreID() string  { return s.id }
func (s *recordStore) Durable() bool    { return s.durable }

package cache

import (
	"context"
	"maps"
	"slices"
)

// memoryRecords keeps the records of one stream in memory.
type memoryRecords struct {
	byNumber map[uint64][]byte
	highest  uint64
}

func newMemoryRecords(string) recordKeeper {
	return &memoryRecords{byNumber: map[uint64][]byte{}}
}

func (r *memoryRecords) load() (numbers []uint64, highest uint64, err error) {
	return slices.Sorted(maps.Keys(r.byNumber)), r.highest, nil
}

func (r *memoryRecords) read(number uint64) ([]byte, error) {
	return slices.Clone(r.byNumber[number]), nil
}

func (r *memoryRecords) secure(uint64) error { return nil }

func (r *memoryRecords) write(number uint64, data []byte, drop []uint64) error {
	r.byNumber[number] = append([]byte{}, data...)
	r.highest = number
	for _, n := range drop {
		delete(r.byNumber, n)
	}
	return nil
}

func (r *memoryRecords) clear([]uint64, uint64) error {
	clear(r.byNumber)
	return nil
}

func (r *memoryRecords) describe() string { return "memory, lost on exit" }

// memoryPlace is the memory behind one label. It outlives the cache: a config reload builds that anew, and the stream
// it serves goes on.
type memoryPlace struct {
	seats *seats
	id    string
}

func newMemoryPlace() *memoryPlace {
	return &memoryPlace{seats: newSeats(newMemoryRecords), id: newStoreID()}
}

func (p *memoryPlace) enter(context.Context) (opened, error) { return p, nil }
func (p *memoryPlace) leave()                                {}
func (p *memoryPlace) close(context.Context) error           { return nil }
func (p *memoryPlace) seatOf(streamID string) *seat          { return p.seats.of(streamID) }
func (p *memoryPlace) storeID() string                       { return p.id }
func (p *memoryPlace) Close() error                          { return nil }

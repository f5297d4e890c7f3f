package cache

import (
	"context"
	"errors"
	"fmt"

	"github.com/redpanda-data/benthos/v4/public/service"
)

// StoreProvider opens state stores. The caches of this package are StoreProviders.
type StoreProvider interface {
	// OpenStore opens the records of a stream, of which the newest retained ones are kept, and shuts out whoever opened
	// them before. The directory is locked from now on until the process ends.
	OpenStore(ctx context.Context, streamID string, retained int) (Store, error)
	// live tells whether the cache is not closed.
	live() bool
}

// providerKey is where a cache registers itself among the generics, which all streams of a process share: Benthos
// hands out caches wrapped, so a type assertion does not reach ours.
type providerKey struct{ label string }

func register(res *service.Resources, p StoreProvider) {
	res.SetGeneric(providerKey{res.Label()}, p)
}

// The reasons why a label gives no state store.
var (
	// ErrNoSuchCache says that no cache has the label.
	ErrNoSuchCache = errors.New("no cache has this label")
	// ErrNotAStore says that the cache is not one of ours.
	ErrNotAStore = errors.New("this cache cannot hold checkpoints")
)

// StoreError says why the state store of a stream could not be opened. It wraps ErrNoSuchCache, ErrNotAStore,
// *LockedError, *FormatError, or what the file system said.
type StoreError struct {
	Field string // checkpoint.store
	Label string
	Err   error
}

func (e *StoreError) Error() string {
	var remedy string
	switch {
	case errors.Is(e.Err, ErrNoSuchCache):
		remedy = fmt.Sprintf(". Add one: cache_resources: [ { label: %s, pebble: { path: ./data/state } } ], in the same file, or "+
			"in streams mode in a file given with -r", e.Label)
	case errors.Is(e.Err, ErrNotAStore):
		remedy = ". A record must be written atomically, survive a power cut and never expire: `pebble` and " +
			"`checkpoint_file` promise that (`checkpoint_memory` until the process ends), other caches, such as Benthos's own " +
			"`file` and `memory`, do not"
	}
	return fmt.Sprintf("%s: %q: %v%s", e.Field, e.Label, e.Err, remedy)
}

func (e *StoreError) Unwrap() error { return e.Err }

// OpenStore opens the state store of a stream by the label of its cache. Its errors are *StoreError.
func OpenStore(ctx context.Context, res *service.Resources, label, streamID string, retained int) (Store, error) {
	s, err := openStore(ctx, res, label, streamID, retained)
	if err != nil {
		return nil, &StoreError{Field: "checkpoint.store", Label: label, Err: err}
	}
	return s, nil
}

// CheckStore tells whether the label names a cache that can hold checkpoints, without opening anything: a wrong label is
// known before a broker has to answer. Its error is a *StoreError.
func CheckStore(ctx context.Context, res *service.Resources, label string) error {
	if _, err := provider(ctx, res, label); err != nil {
		return &StoreError{Field: "checkpoint.store", Label: label, Err: err}
	}
	return nil
}

func openStore(ctx context.Context, res *service.Resources, label, streamID string, retained int) (Store, error) {
	p, err := provider(ctx, res, label)
	if err != nil {
		return nil, err
	}
	return p.OpenStore(ctx, streamID, retained)
}

func provider(ctx context.Context, res *service.Resources, label string) (StoreProvider, error) {
	if !res.HasCache(label) {
		return nil, ErrNoSuchCache
	}
	var found StoreProvider
	// Benthos builds a cache at its first access, so this is what makes ours register.
	err := res.AccessCache(ctx, label, func(service.Cache) {
		if v, ok := res.GetGeneric(providerKey{label}); ok {
			found = v.(StoreProvider)
		}
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("building the cache: %w", err)
	case found == nil, !found.live():
		// A generic is never deleted: a closed provider is one that a config update has replaced by another cache.
		return nil, ErrNotAStore
	}
	return found, nil
}

// openOn opens a store in the place a cache's lease is for, and keeps that locked. The store has a lease of its own: at
// a reload Benthos closes the caches of a config before it stops the stream, whose last checkpoint is still to come.
func openOn(ctx context.Context, of *lease, streamID string, retained int) (s Store, err error) {
	if _, err := of.enter(ctx); err != nil {
		return nil, err
	}
	defer of.leave()
	l := newLease(of.registry, of.request)
	o, err := l.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		l.leave()
		if err != nil {
			err = errors.Join(err, l.close(ctx))
		}
	}()
	s, err = takeSeat(ctx, &recordStore{
		claim: l, seat: o.seatOf(streamID), retained: retained, id: o.storeID(), durable: true, name: l.request.String(),
		health: l.request.health, fs: l.registry.fs,
	})
	if err != nil {
		return nil, err
	}
	// A client of this stream may go on for a while after its caches are closed. Until the process ends, no other may
	// recover what it is still working on.
	if err := l.keepLock(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrClosed says that a cache was used after it was closed.
var ErrClosed = errors.New("cache is closed")

// lease is one cache's share of its place: taken when it is first used, returned when it is closed and nothing uses it
// any more.
type lease struct {
	registry *registry
	request  request

	gate chan struct{} // held while the place is acquired

	mu     sync.Mutex
	place  *place // nil until first used, and once it was returned
	users  int
	closed bool
	idle   chan struct{} // closed when closed is set and users has reached 0
}

func newLease(r *registry, q request) *lease {
	return &lease{registry: r, request: q, gate: make(chan struct{}, 1), idle: make(chan struct{})}
}

// enter returns the open directory, which stays open until leave.
func (l *lease) enter(ctx context.Context) (opened, error) {
	if o, done, err := l.join(); done {
		return o, err
	}
	select {
	case l.gate <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("opening %s: %w", l.request, ctx.Err())
	}
	defer func() { <-l.gate }()
	if o, done, err := l.join(); done {
		return o, err
	}
	p, err := l.registry.acquire(ctx, l.request)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.place = p
	l.mu.Unlock()
	// A close that came in between is waiting for the gate and will return the place.
	o, _, err := l.join()
	return o, err
}

// join enters if the place is open; done is false where it has to be opened first.
func (l *lease) join() (o opened, done bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, true, fmt.Errorf("%s: %w", l.request, ErrClosed)
	case l.place == nil:
		return nil, false, nil
	}
	l.users++
	return l.place.opened, true, nil
}

func (l *lease) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users--; l.users == 0 && l.closed {
		close(l.idle)
	}
}

// live tells whether the lease is not closed.
func (l *lease) live() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.closed
}

// close lets nobody enter any more, waits until everybody has left and returns the lease. When the context ends first
// the place stays open, since somebody uses it, and close may be called again.
func (l *lease) close(ctx context.Context) error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		if l.users == 0 {
			close(l.idle)
		}
	}
	l.mu.Unlock()
	select {
	case <-l.idle:
	case <-ctx.Done():
		return fmt.Errorf("closing %s, which is still in use: %w", l.request, ctx.Err())
	}
	select {
	case l.gate <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("closing %s, which is being opened: %w", l.request, ctx.Err())
	}
	defer func() { <-l.gate }()
	l.mu.Lock()
	p := l.place
	l.mu.Unlock()
	if p == nil {
		return nil
	}
	err := l.registry.release(ctx, p)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	l.mu.Lock()
	l.place = nil
	l.mu.Unlock()
	return err
}

// keepLock keeps the place locked until the process ends. The caller has entered.
func (l *lease) keepLock(ctx context.Context) error {
	l.mu.Lock()
	p := l.place
	l.mu.Unlock()
	return p.keepLock(ctx)
}

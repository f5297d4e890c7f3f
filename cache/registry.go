package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tidegate/tidegate/internal/benthosx"
)

// opened is an open directory: a *database or a *recordDir.
type opened interface {
	io.Closer
	seatOf(streamID string) *seat
	storeID() string
}

// openFunc opens a directory that exists and is locked for this process.
type openFunc func(r *registry, path string, lock *pebble.Lock) (opened, error)

// request is what a cache asks a registry for.
type request struct {
	kind  string // the cache's name in a config
	label string
	path  string // as configured
	// settings are those that all caches on one path share, in words.
	settings string
	open     openFunc
	log      *slog.Logger
	health   *health
}

func (q request) String() string { return fmt.Sprintf("%s cache %q", q.kind, q.label) }

// registry knows every directory that the caches of a process use. There is one per process; tests make their own.
type registry struct {
	fs        vfs.FS
	canonical func(string) (string, error)
	// identify tells directories apart that have several canonical names: bind mounts, file systems that ignore case.
	identify func(string) (os.FileInfo, error)
	now      func() time.Time
	// fatal ends the process; if it returns, the caller blocks for ever.
	fatal      func(cause error)
	sweepEvery time.Duration
	// ending tells whether the process is ending with an error; nil where it never does.
	ending func() bool

	mu     sync.Mutex
	places map[string]*place
}

// process is the registry of this process.
var process = &registry{
	fs:         processFS(),
	canonical:  canonicalPath,
	identify:   os.Stat,
	now:        time.Now,
	fatal:      exit,
	sweepEvery: time.Minute,
	ending:     func() bool { return benthosx.FatalCause() != nil },
	places:     map[string]*place{},
}

// exit ends the process at once: nothing that depends on a database that cannot write may close in good order.
func exit(cause error) {
	fmt.Fprintf(os.Stderr, "fatal: %v\n", cause)
	os.Exit(1)
}

// place is one directory. It stays in the registry when nothing uses it any more.
type place struct {
	path string
	// gate is held while the place is opened or closed, and guards what follows but info.
	gate   chan struct{}
	first  request // of the cache that opened it
	refs   int
	lock   *pebble.Lock
	keep   bool // the lock is kept until the process ends
	opened opened

	info os.FileInfo // guarded by registry.mu
}

func (p *place) enter(ctx context.Context) error {
	select {
	case p.gate <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s, which is being opened or closed: %w", p.path, ctx.Err())
	}
}

func (p *place) leave() { <-p.gate }

// acquire opens the place of a request, or joins those who have. Every acquire that returns no error needs a release.
func (r *registry) acquire(ctx context.Context, q request) (*place, error) {
	path, err := r.canonical(q.path)
	if err != nil {
		return nil, fmt.Errorf("%s: path %q: %w", q, q.path, explain(q.path, err))
	}
	p := r.placeAt(path)
	if err := p.enter(ctx); err != nil {
		return nil, err
	}
	defer p.leave()
	if p.refs > 0 {
		if err := p.admits(q); err != nil {
			return nil, err
		}
		p.refs++
		return p, nil
	}
	done := q.health.watch("opening the state")
	err = r.open(p, q)
	done()
	if err != nil {
		return nil, fmt.Errorf("opening %s at %s: %w", q, path, explain(path, err))
	}
	p.refs, p.first = 1, q
	return p, nil
}

func (r *registry) placeAt(path string) *place {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.places[path]
	if p == nil {
		p = &place{path: path, gate: make(chan struct{}, 1)}
		r.places[path] = p
	}
	return p
}

// admits tells whether a second cache may share what a first one has opened.
func (p *place) admits(q request) error {
	switch {
	case q.kind != p.first.kind:
		return fmt.Errorf("%s: path %q is already open as %s, and one directory is one or the other: change the path of "+
			"one of them", q, q.path, p.first)
	case q.settings != p.first.settings:
		return fmt.Errorf("%s: path %q is already open by %s with %s, here it is %s: caches on one path share one "+
			"database, so give them the same settings, or paths of their own", q, q.path, p.first, p.first.settings, q.settings)
	}
	return nil
}

// open locks the directory, unless this process has kept the lock, and opens what is in it.
func (r *registry) open(p *place, q request) (err error) {
	if err := makeDir(r.fs, p.path); err != nil {
		return err
	}
	if err := r.identifyPlace(p); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			r.forget(p)
		}
	}()
	if p.lock == nil {
		lock, err := lockDir(r.fs, p.path)
		if err != nil {
			return err
		}
		p.lock = lock
	}
	o, err := q.open(r, p.path, p.lock)
	if err != nil {
		return errors.Join(err, p.unlock())
	}
	p.opened = o
	return nil
}

// identifyPlace refuses a directory that this process uses under another name: the lock does not.
func (r *registry) identifyPlace(p *place) error {
	if r.identify == nil {
		return nil
	}
	info, err := r.identify(p.path)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, other := range r.places {
		if other != p && other.info != nil && os.SameFile(other.info, info) {
			return fmt.Errorf("the directory is the same as %s, which this process uses already: write the same path in both "+
				"caches", other.path)
		}
	}
	p.info = info
	return nil
}

// forget lets the directory of a place that is not open be used under another name, unless its lock is kept.
func (r *registry) forget(p *place) {
	if p.keep {
		return
	}
	r.mu.Lock()
	p.info = nil
	r.mu.Unlock()
}

// unlock gives the lock back, unless it is kept.
func (p *place) unlock() error {
	if p.lock == nil || p.keep {
		return nil
	}
	err := p.lock.Close()
	p.lock = nil
	return err
}

// release undoes one acquire; the last one closes the directory.
func (r *registry) release(ctx context.Context, p *place) error {
	if err := p.enter(ctx); err != nil {
		return err
	}
	defer p.leave()
	if p.refs--; p.refs > 0 {
		return nil
	}
	err := r.close(p.opened)
	p.opened = nil
	r.forget(p)
	if err := errors.Join(err, p.unlock()); err != nil {
		return fmt.Errorf("closing %s: %w", p.path, err)
	}
	return nil
}

// closeGrace is how long a directory may take to close in a process that ends with an error.
const closeGrace = 2 * time.Second

// close closes a directory. In a process that ends with an error it does not wait for a disk that hangs, which may be the
// cause: the engine would end the process by force, and not say the cause. Nothing that was reported as written is lost.
func (r *registry) close(o opened) error {
	if r.ending == nil || !r.ending() {
		return o.Close()
	}
	closed := make(chan error, 1)
	go func() { closed <- o.Close() }() // ends with the process
	select {
	case err := <-closed:
		return err
	case <-time.After(closeGrace):
		return fmt.Errorf("it takes longer than %v, and the process ends without", closeGrace)
	}
}

// keepLock keeps the directory locked until the process ends. The caller holds a lease.
func (p *place) keepLock(ctx context.Context) error {
	if err := p.enter(ctx); err != nil {
		return err
	}
	defer p.leave()
	p.keep = true
	return nil
}

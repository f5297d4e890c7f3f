package txn

import (
	"fmt"
	"sync"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// prefixes are the prefixes in use in this process. Two streams of one process with one prefix would fence each other for
// ever, since each is started again.
var prefixes struct {
	sync.Mutex
	of map[prefixKey]*holder
}

type prefixKey struct {
	clusterID, prefix string
	index             int32
}

// holder counts the sinks of one stream: the one of a reloaded stream takes over from the one before.
type holder struct {
	owner fmt.Stringer
	sinks int
}

// PrefixInUseError says that another stream of this process uses a prefix.
type PrefixInUseError struct {
	Prefix string
	// Owner names the stream that uses it.
	Owner string
}

func (e *PrefixInUseError) Error() string {
	return fmt.Sprintf("transactional_id_prefix %q is in use by %s of this process: two would fence each other; give each "+
		"its own, or remove the other one first", e.Prefix, e.Owner)
}

// HoldPrefix takes a pool's prefix for a stream, as long as no other stream of this process holds it. owner is the stream.
// release gives it back.
func HoldPrefix(pool checkpoint.Pool, owner fmt.Stringer) (release func(), err error) {
	key := prefixKey{pool.ClusterID, pool.Prefix, pool.Index}
	prefixes.Lock()
	defer prefixes.Unlock()
	h := prefixes.of[key]
	switch {
	case h == nil:
		h = &holder{owner: owner}
		if prefixes.of == nil {
			prefixes.of = map[prefixKey]*holder{}
		}
		prefixes.of[key] = h
	case h.owner != owner:
		return nil, &PrefixInUseError{Prefix: pool.Prefix, Owner: h.owner.String()}
	}
	h.sinks++
	return sync.OnceFunc(func() {
		prefixes.Lock()
		defer prefixes.Unlock()
		if h.sinks--; h.sinks == 0 {
			delete(prefixes.of, key)
		}
	}), nil
}

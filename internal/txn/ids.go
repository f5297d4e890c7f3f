package txn

import "github.com/tidegate/tidegate/internal/checkpoint"

// ID returns the n-th transactional id of a pool. Flink's POOLING names look the same (TransactionalIdFactory); n is
// fixed here, so that all ids can be initialised at start and none has to be searched for.
func ID(pool checkpoint.Pool, n int32) string { return pool.TransactionalID(n) }

// IDs returns every id of the pools, each once.
func IDs(pools []checkpoint.Pool) []string {
	var ids []string
	seen := map[string]bool{}
	for _, p := range pools {
		for n := range p.Size {
			id := ID(p, n)
			if !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
	}
	return ids
}

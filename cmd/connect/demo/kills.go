package demo

import (
	"math/rand/v2"
	"slices"
	"time"
)

// kill is one planned kill: when so much has been committed, a little later.
type kill struct {
	committed int64
	after     time.Duration
}

// planKills spreads kills at random over the first three quarters of the work, so that the pipeline is certainly still
// at it. Two that fall close together make the second one hit the start-up and the recovery. The delays reach beyond a
// checkpoint, so every step of one can be hit.
func planKills(rng *rand.Rand, kills int, expected int64) []kill {
	plan := make([]kill, kills)
	for i := range plan {
		plan[i].committed = max(1, rng.Int64N(max(1, expected*3/4)))
		plan[i].after = time.Duration(rng.Int64N(int64(interval * 3 / 2)))
	}
	slices.SortFunc(plan, func(a, b kill) int { return int(a.committed - b.committed) })
	return plan
}

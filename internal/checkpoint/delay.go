package checkpoint

import (
	"math/rand/v2"
	"time"
)

// restartDelayMin and restartDelayMax bound the exponential delay between two attempts.
const (
	restartDelayMin = time.Second
	restartDelayMax = time.Minute
)

// RestartDelay is how long the n-th restart in a row waits: 1 s, 2 s, 4 s … 1 min, each up to a fifth shorter or longer,
// so that jobs that fail together do not come back together.
func RestartDelay(n uint64) time.Duration {
	d := restartDelayMax
	if n > 0 && n < 7 {
		d = restartDelayMin << (n - 1)
	}
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

//go:build race

package crash

// raceEnabled has the binary built with the race detector where the test is.
const raceEnabled = true

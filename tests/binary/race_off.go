//go:build !race

package binary

// raceEnabled has the binary built with the race detector where the test has it.
const raceEnabled = false

// Package operations looks at the built binary as its operator does: the metrics it serves, what /ready says, and the lines
// of its log.
package operations

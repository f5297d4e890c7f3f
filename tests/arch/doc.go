// Package arch holds the rules about the tree itself as tests: who may import whom, that every package says what it is,
// how long a file may be, and what must never be written into one. The packages as `go list` sees them and the text of
// the files come in, a list of violations goes out. Nothing imports it.
package arch

// Package lint gives the built binary wrong configs and wrong surroundings, and holds what it says and how it ends
// against what a user needs to know: the field by its path, the value, what to do. A config with one line changed comes
// in, the exit code and the message go out; testdata/refusals has the whole answers. Nothing imports it. What a single field may hold is tested beside its
// plugin; here is what takes a whole file, or a broker.
package lint

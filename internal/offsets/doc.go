// Package offsets decides where a source begins and where it stops: start and stop initialisers are data, and their
// resolution is a pure function over what the cluster answered. An initialiser and answers fetched through the small
// interface Lookup come in, one concrete offset for each partition with the rule that gave it, or a typed error, goes
// out. It is plain Go; every room but internal/checkpoint may import it.
package offsets

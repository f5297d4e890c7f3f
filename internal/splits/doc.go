// Package splits decides which topic partitions a source reads: the subscription, the static share of one instance, and
// what changed between the partitions a source knows and those the cluster has. Topic metadata and known positions come
// in, partitions, differences and errors for people go out. It is plain Go; every room but internal/checkpoint may
// import it.
package splits

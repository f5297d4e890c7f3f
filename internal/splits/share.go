package splits

import (
	"fmt"
	"unicode/utf16"
)

// Share is the static part of the partitions that one of several equal instances reads.
type Share struct {
	// Parallelism is the number of instances, Index this one's number from 0.
	Parallelism, Index int32
}

// Whole is the share of the only instance.
func Whole() Share { return Share{Parallelism: 1} }

// Validate refuses a share that is none.
func (s Share) Validate() error {
	if s.Parallelism < 1 {
		return fmt.Errorf("parallelism: %d is not at least 1", s.Parallelism)
	}
	if s.Index < 0 || s.Index >= s.Parallelism {
		return fmt.Errorf("index: %d is not from 0 to parallelism - 1 = %d", s.Index, s.Parallelism-1)
	}
	return nil
}

// Owns tells whether the partition is in the share.
func (s Share) Owns(p Partition) bool { return Owner(p, s.Parallelism) == s.Index }

// Owner returns which of readers instances reads the partition. It is Flink's rule (KafkaSourceEnumerator,
// getSplitOwner), so that a job taken over from Flink keeps its distribution: topics begin at an instance that depends
// on their name, and their partitions follow in turn.
func Owner(p Partition, readers int32) int32 {
	start := int32(uint32(javaHash(p.Topic)*31)&0x7FFFFFFF) % readers
	return (start + p.Partition) % readers
}

// javaHash is java.lang.String.hashCode: over UTF-16 units, with the overflow of 32 bits.
func javaHash(s string) int32 {
	var h int32
	for _, u := range utf16.Encode([]rune(s)) {
		h = 31*h + int32(u)
	}
	return h
}

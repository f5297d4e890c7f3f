// Package topics fills topics of a real or an embedded broker with known records, and groups with known offsets, for
// tests that compare what a source reads of them: the fixture of the upstream connector's tests, topics that end with
// control records or within a transaction, with empty and compacted partitions. A broker's addresses come in; a World
// goes out, which knows its names and can add to its topics. Tests of every room but the cores may import it.
package topics

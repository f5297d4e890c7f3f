// Command bench measures what Tidegate costs. It starts one real Kafka, fills a topic, and has it copied by one program
// after another, each a process of its own: the floor (a bare franz-go loop with one transaction a second, in
// bench/floor), bin/connect at-least-once and exactly-once, and the floor again, whose difference from the first is the
// noise of the machine. Flags come in; a table, and whether the aims are met, go out. Nothing imports it; `make bench`
// runs it, and docs/benchmarks.md holds results and says what the numbers are.
package main

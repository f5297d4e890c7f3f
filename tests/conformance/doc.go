// Package conformance runs the cases of the Flink connector's own test suite that apply to a source outside of Flink, and
// cases derived from its code, each under the id that our behavioural reference gives it: S for the builder and its
// options, E for subscribing and resolving offsets, R for reading, G for what upstream has no test for. Each is a stream
// in the real binary, on the embedded broker or a real Kafka. Ids that do not apply are listed with the reason, so that
// every id is accounted for. Nothing imports this package.
package conformance

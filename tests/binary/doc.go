// Package binary builds connect as its users do, so that tests run what they run. Build flags come in, the path of an
// executable goes out. Tests of the binary import it, and nothing else does.
package binary

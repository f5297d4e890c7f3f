// Package headerfilter is the processor header_filter: messages come in, those whose headers do not match an expression are
// dropped or marked. What the expression means is internal/headerexpr's business; here are its config, where the headers of
// a message come from, and what is counted. Binaries import it for its registration.
package headerfilter

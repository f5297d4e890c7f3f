// Package host is what a build of one's own needs besides the imports of plugins: a command line around Benthos's that
// checks the whole config before a stream is built, and that ends with exit code 1 and the cause when a stream cannot
// go on. In come Benthos's own options, out goes an exit code. Any main package may import it.
package host

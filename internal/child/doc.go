// Package child runs programs that end when this process does, whatever ends it: a broker under a test, a pipeline that
// is to be killed. A command and the file its output goes to come in; a Process to signal and to wait for goes out. It
// is plain Go, and every room may import it.
package child

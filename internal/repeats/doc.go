// Package repeats keeps a log readable while one thing fails again and again: of lines that say the same it lets one
// through in a while, with the number of those it has held back. Records for a slog.Handler come in, those that are worth
// a line go out. It knows no more than slog, and every other room may import it.
package repeats

// Package leak finds what is left behind by something that is done again and again. A deed comes in; the test fails where
// goroutines or open files have grown with the number of times. Tests everywhere but in cores may import it.
package leak

// Command connect is Tidegate's binary: Benthos's command line with Tidegate's plugins in it (imports.go lists them) and
// the sub-commands broker and demo beside Benthos's own. A pipeline's YAML comes in, an exit code goes out: 0 after a
// bounded end or a graceful stop, 1 with the cause as the last line on standard error. Nothing imports it.
package main

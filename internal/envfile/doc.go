// Package envfile reads files of environment variables, as `--env-file` takes them. In comes a file's text; out go names
// and values, or an error that says where and why, and never shows a value: such files are there for passwords (rule 13).
// What two readers of such files would take for different values is refused. It imports nothing of the project, and the
// edges may import it.
package envfile

//go:build !killpoints

package cache

import "github.com/cockroachdb/pebble/v2/vfs"

// processFS is the file system of this process.
func processFS() vfs.FS { return vfs.Default }

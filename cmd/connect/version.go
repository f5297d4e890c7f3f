package main

import (
	"cmp"
	"fmt"
	"runtime/debug"
)

// Set by the linker for a release: -ldflags "-X main.version=v1.2.3 -X main.built=2026-01-31". Otherwise they are what
// the Go toolchain has stamped into the binary.
var version, built string

// buildStamp returns the version line, with those of the two modules that decide how Tidegate behaves, and the date.
func buildStamp() (versions, date string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	tidegate := cmp.Or(version, info.Main.Version, "(devel)")
	versions = fmt.Sprintf("Tidegate %s, Benthos %s, franz-go %s", tidegate,
		moduleVersion(info, "github.com/redpanda-data/benthos/v4"), moduleVersion(info, "github.com/twmb/franz-go"))
	return versions, cmp.Or(built, buildSetting(info, "vcs.time"), "unknown")
}

// moduleVersion is the version of a module that is linked in, or of what replaces it.
func moduleVersion(info *debug.BuildInfo, path string) string {
	for _, m := range info.Deps {
		if m.Path != path {
			continue
		}
		if m.Replace != nil {
			return cmp.Or(m.Replace.Version, m.Replace.Path)
		}
		return m.Version
	}
	return "unknown"
}

func buildSetting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

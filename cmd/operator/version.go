package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version, revision and date (of the commit, RFC 3339) are set by the linker in releases. Without them the binary says what Go
// knows.
var version, revision, date string

// versionText is the version alone.
func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return unknown
}

// built is what --version says.
func built() string {
	return fmt.Sprintf("%s, commit %s of %s, %s %s/%s", versionText(), commit(), commitDate(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// commit is the one that the binary was built from.
func commit() string { return linked(revision, "vcs.revision") }

func commitDate() string { return linked(date, "vcs.time") }

const unknown = "unknown"

// linked is what the linker was told, else what Go has recorded.
func linked(value, key string) string {
	if value != "" {
		return value
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == key {
				return s.Value
			}
		}
	}
	return unknown
}

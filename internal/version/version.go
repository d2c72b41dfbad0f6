// Package version says from which sources a program of this module was built.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version, revision and date (of the commit, RFC 3339) are set by the linker in releases and never changed. Without them a
// program says what Go knows.
var version, revision, date string

const unknown = "unknown"

// Text is the version alone.
func Text() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return unknown
}

// Commit is the one that the program was built from.
func Commit() string { return linked(revision, "vcs.revision") }

// Line is what --version of the program prints.
func Line(program string) string {
	return fmt.Sprintf("%s %s, commit %s of %s, %s %s/%s", program, Text(), Commit(), linked(date, "vcs.time"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

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

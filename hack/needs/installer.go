package needs

import (
	"path/filepath"
	"slices"
	"strings"
)

// Unknown returns the needs that an installer's script does not look for. Such a line reads: need PACKAGE PROGRAM…
func Unknown(script string, wanted []Need) []Need {
	return slices.DeleteFunc(slices.Clone(wanted), func(n Need) bool {
		for line := range strings.Lines(script) {
			fields := strings.Fields(line)
			if len(fields) < 3 || fields[0] != "need" || fields[1] != n.Package {
				continue
			}
			if slices.ContainsFunc(fields[2:], func(f string) bool { return named(f, n.Program) }) {
				return true
			}
		}
		return false
	})
}

// named says whether a word of a script is the program, or has it in braces: /usr/lib/cni/{ptp,portmap}.
func named(word, program string) bool {
	dir, list, ok := strings.Cut(word, "{")
	if !ok {
		return word == program
	}
	return dir == filepath.Dir(program)+"/" && slices.Contains(strings.Split(strings.TrimSuffix(list, "}"), ","), filepath.Base(program))
}

package local

import (
	"strings"

	"golang.org/x/sys/unix"
)

// stateFileOf returns the state file that the process was started with, "" for none. What the system returns is the
// number of arguments, the program's path, padding, the arguments and the environment, all ended by zero bytes.
func stateFileOf(pid int) (path string, k knowledge) {
	data, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil {
		if unix.Kill(pid, 0) == unix.ESRCH {
			return "", gone
		}
		return "", unknown
	}
	for arg := range strings.SplitSeq(string(data), "\x00") {
		if path, ok := strings.CutPrefix(arg, stateFlag); ok {
			return path, seen
		}
	}
	return "", seen
}

package local

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxArguments bounds in bytes how much of a command line is read.
const maxArguments = 1 << 20

// stateFileOf returns the state file that the process was started with, "" for none.
func stateFileOf(pid int) (path string, k knowledge) {
	var data []byte
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err == nil {
		data, err = readBounded(f, maxArguments)
		_ = f.Close()
	}
	switch {
	case err != nil && errors.Is(unix.Kill(pid, 0), unix.ESRCH):
		return "", gone
	case err != nil:
		return "", unknown
	case len(data) == 0:
		// The memory goes before the locks do.
		return "", gone
	}
	for arg := range strings.SplitSeq(string(data), "\x00") {
		if path, ok := strings.CutPrefix(arg, stateFlag); ok {
			return path, seen
		}
	}
	return "", seen
}

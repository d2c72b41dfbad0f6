package instancelock

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// An open-file-description lock survives another goroutine of the deleter
// closing its own descriptor of the same file.
const takeCmd = unix.F_OFD_SETLK

// startTimeField is the index, after the command name, of the start time in
// /proc/<pid>/stat: field 22, where the first one after the name is field 3.
const startTimeField = 22 - 3

// StartTime identifies one life of a pid: the process's start in clock ticks
// since boot, an opaque string to compare for equality. Together with the pid it
// names a process uniquely until the next boot. A pid without a process gives
// an error that matches [io/fs.ErrNotExist]. A zombie still has a start time.
func StartTime(pid int) (string, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", fmt.Errorf("start time of process %d: %w", pid, err)
	}
	start, err := parseStartTime(stat)
	if err != nil {
		return "", fmt.Errorf("start time of process %d: %w", pid, err)
	}
	return start, nil
}

// parseStartTime reads behind the last ')': a command name is chosen by the
// process and may hold blanks and parentheses itself.
func parseStartTime(stat []byte) (string, error) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return "", fmt.Errorf("stat line of %d bytes has no command name", len(stat))
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) <= startTimeField {
		return "", fmt.Errorf("stat line has %d fields after the command name, want more than %d", len(fields), startTimeField)
	}
	start := string(fields[startTimeField])
	if _, err := strconv.ParseUint(start, 10, 64); err != nil {
		return "", fmt.Errorf("start time %q is not a number", start)
	}
	return start, nil
}

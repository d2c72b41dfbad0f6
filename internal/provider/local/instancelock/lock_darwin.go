package instancelock

import (
	"fmt"
	"io/fs"
	"strconv"

	"golang.org/x/sys/unix"
)

// Darwin's lock of the deleter is a POSIX one; the package documentation says
// what that asks of the caller.
const takeCmd = unix.F_SETLK

// StartTime identifies one life of a pid: the process's start in microseconds
// since the epoch, an opaque string to compare for equality. A pid without a
// process gives an error that matches [io/fs.ErrNotExist].
func StartTime(pid int) (string, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid {
		return "", fmt.Errorf("start time of process %d: %w", pid, fs.ErrNotExist)
	}
	start := info.Proc.P_starttime
	return strconv.FormatInt(start.Sec*1_000_000+int64(start.Usec), 10), nil
}

package guest

import (
	"os/exec"
	"syscall"
)

// dieWithUs has the kernel kill the command when the calling thread ends.
func dieWithUs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

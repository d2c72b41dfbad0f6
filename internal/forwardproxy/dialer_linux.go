package forwardproxy

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// lateBind lets the kernel choose the local port at connect and not at bind:
// bound early, a port is taken for all destinations, and one exit address could
// have only as many connections as there are ephemeral ports. A kernel that does
// not know the option works as it always did.
func lateBind(c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	})
}

package health

import (
	"net"
	"syscall"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// blackHole returns an endpoint to which connections neither come about nor fail: its queue is full, so the kernel drops
// what begins one. It is false where that cannot be had.
func blackHole(t *testing.T) (fleet.Endpoint, bool) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	e := fleet.Endpoint{Scheme: "http", Host: "127.0.0.1", Port: int32(name.(*syscall.SockaddrInet4).Port)}
	for range 20 {
		c, err := net.DialTimeout("tcp", e.Address(), short)
		if isTimeout(err) {
			return e, true
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	return fleet.Endpoint{}, false
}

package dial

import (
	"net"
	"time"

	"golang.org/x/crypto/ssh"
)

// NewConn is a connection with keepalives of an interval that a test can wait for.
func NewConn(tcp net.Conn, client *ssh.Client, socket string, every time.Duration) (net.Conn, error) {
	c := newConn(tcp, client, every)
	channel, err := client.Dial("unix", socket)
	c.Conn = channel
	return c, err
}

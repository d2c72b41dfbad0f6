package dial

import (
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// closeWait bounds how long Close waits for the library's goroutines to end.
const closeWait = time.Second

// conn is a channel that is the only use of its SSH connection.
type conn struct {
	net.Conn // the channel; nil until it is open
	tcp      net.Conn
	// stop is closed by Close, gone when the SSH connection has ended.
	stop, gone chan struct{}
	// helpers are the goroutines of this package.
	helpers sync.WaitGroup
	once    sync.Once
}

// newConn watches over client until Close. every is the interval of the keepalives.
func newConn(tcp net.Conn, client *ssh.Client, every time.Duration) *conn {
	c := &conn{tcp: tcp, stop: make(chan struct{}), gone: make(chan struct{})}
	go func() {
		_ = client.Wait()
		close(c.gone)
	}()
	c.helpers.Go(func() { c.keepalive(client, every) })
	return c
}

// Read returns net.ErrClosed after Close, also for what had arrived before.
func (c *conn) Read(b []byte) (int, error) {
	if c.closed() {
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Read(b)
	return n, c.outcome(err)
}

// Write returns net.ErrClosed after Close. It blocks while the far side does not take more.
func (c *conn) Write(b []byte) (int, error) {
	if c.closed() {
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Write(b)
	return n, c.outcome(err)
}

// Close closes the TCP connection first and says no goodbye: a host that is silent would not take it, and one that is not
// needs none. The SSH connection and the channel end with it.
func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.stop)
		_ = c.tcp.Close()
		bound := time.NewTimer(closeWait)
		defer bound.Stop()
		select {
		case <-c.gone:
			c.helpers.Wait()
		case <-bound.C:
		}
	})
	return nil
}

func (c *conn) closed() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

func (c *conn) outcome(err error) error {
	if err != nil && c.closed() {
		return net.ErrClosed
	}
	return err
}

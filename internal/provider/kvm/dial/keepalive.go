package dial

import (
	"time"

	"golang.org/x/crypto/ssh"
)

// keepaliveEvery is how often a host is asked whether it is there, and how long it may take to answer. TCP would notice
// as late as a quarter of an hour after the last write that a host lost its power.
const keepaliveEvery = 15 * time.Second

// keepalive closes the TCP connection when the host does not answer a request within the interval, so that reads end. It
// returns when the connection has ended, however that came.
func (c *conn) keepalive(client *ssh.Client, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-c.gone:
			return
		case <-c.stop:
			return
		case <-tick.C:
		}
		bound := time.AfterFunc(every, func() { _ = c.tcp.Close() })
		// Any answer will do; servers refuse requests that they do not know.
		_, _, err := client.SendRequest("keepalive@openssh.com", true, nil)
		bound.Stop()
		if err != nil {
			_ = c.tcp.Close()
			return
		}
	}
}
